"""Notifies commands and webhooks of what happens to a run, without delaying it."""
