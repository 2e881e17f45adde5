"""Targets on Kubernetes: plain Jobs, JobSet, TFJob and TrainJob."""
