"""Jinja2 templates in values, with Ansible's variables, filters, tests and lookups, in a sandbox."""
