"""Conventions of shells: completion, `help`, and the manual page."""
