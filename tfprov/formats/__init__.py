"""File formats that TensorFlow writes: checkpoints, TFRecord, event files. Standard library only, so tasks use it too."""
