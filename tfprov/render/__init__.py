"""Renders a cluster for other engines: Kubernetes, Kubeflow, Marathon, Swarm, Compose or Slurm."""
