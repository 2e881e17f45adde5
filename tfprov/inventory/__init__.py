"""Reads Ansible's inventory sources into hosts and groups."""
