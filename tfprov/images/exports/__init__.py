"""Brings an image from the engine that built it into the controller's layout."""
