"""Tells commands and webhooks what happens to a run, without delaying it."""
