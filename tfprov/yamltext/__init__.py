"""YAML and JSON to nodes with positions, and readable syntax errors."""
