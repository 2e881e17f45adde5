"""Targets that Kubernetes runs: plain Jobs, JobSet, TFJob and TrainJob."""
