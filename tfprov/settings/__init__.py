"""The variables of every host to checked settings and connections."""
