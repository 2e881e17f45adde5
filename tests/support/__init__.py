"""Helpers that tests of several directories share: warm interpreters, clusters, engines, hosts."""
