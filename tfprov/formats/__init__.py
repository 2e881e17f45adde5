"""TensorFlow's file formats: checkpoints, TFRecord and event files. Standard library only, because tasks use it too."""
