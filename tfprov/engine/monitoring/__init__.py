"""Staying with a cluster: until it serves, and while it trains."""
