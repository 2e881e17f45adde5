"""Compressed forms of layers, for deliveries over links that are slower than the engines."""
