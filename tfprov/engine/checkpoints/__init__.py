"""Checkpoints: whole ones are brought back, and nothing that holds one is removed."""
