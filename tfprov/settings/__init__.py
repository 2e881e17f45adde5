"""Turns the variables of every host into checked settings and connections."""
