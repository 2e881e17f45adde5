"""Edits of YAML inventories that keep every other byte."""
