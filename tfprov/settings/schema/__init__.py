"""JSON Schemas and the reference page, from the same place as the checks."""
