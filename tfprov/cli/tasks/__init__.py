"""Verbs that work inside a task or on its host: `exec`, `ssh` and `cp`."""
