"""JSON Schemas and the reference page, generated from the models that check settings."""
