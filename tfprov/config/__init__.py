"""Text to model: YAML with positions, Ansible's groups and variables, Jinja2, and the `tfprov:` settings."""
