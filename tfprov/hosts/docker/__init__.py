"""The Docker runtime: each task is a container of the host's Docker engine."""
