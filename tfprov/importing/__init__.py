"""Converts files of other engines to inventories: Compose files, TFJobs, Kubernetes objects that run one task each."""
