"""Trains with TensorFlow on the executors of a Spark cluster: `TensorFlowRunner`, and what runs in its tasks."""
