"""Ansible's template filters, by what they work on."""
