"""Frozen values that all other packages share. Nothing here has effects."""
