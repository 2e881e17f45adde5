"""Simulated hosts: each an address of the loopback behind one sshd, with one process for the engines of all."""
