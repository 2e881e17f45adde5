"""Training programs in TensorFlow 1 style: a graph, and a monitored session on a server of the cluster."""
