"""The same cluster for an engine that a user has already: Kubernetes, Kubeflow, Marathon, Swarm, Compose or Slurm."""
