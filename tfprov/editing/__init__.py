"""Edits of an inventory that change one thing and leave every other byte as it is."""
