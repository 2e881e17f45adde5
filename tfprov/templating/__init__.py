"""Jinja2 in values, with what Ansible gives it: variables, filters, tests and lookups, in a sandbox."""
