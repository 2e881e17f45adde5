"""Waits until a cluster serves, and follows its training: logs, progress, failures."""
