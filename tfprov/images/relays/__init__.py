"""Delivery of an image from host to host: relays on the hosts, and who of them sends which layer to whom."""
