"""Measurements: whole commands, side by side, never a timed test."""
