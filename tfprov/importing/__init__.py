"""Files of other engines to inventories: a Compose file, a TFJob, or Kubernetes objects that run one task each."""
