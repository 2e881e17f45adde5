"""Checkpoints: gathering complete ones, resuming from them, and keeping tasks whose checkpoints were not gathered."""
