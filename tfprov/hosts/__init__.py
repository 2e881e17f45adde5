"""Access to hosts over SSH, Docker engines and local processes. Errors of libraries become HostError here.

Imports nothing, so that a task's supervisor, which is part of this package, starts fast.
"""
