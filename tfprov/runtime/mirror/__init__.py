"""Keeps a copy of a task's checkpoint directory on a remote file system, and restores it on any host."""
