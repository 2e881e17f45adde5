"""Training programs in TensorFlow 2 style: a strategy, and a loop of steps."""
