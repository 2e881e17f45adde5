"""The machines: the only package that touches them. Foreign exceptions end here as HostError, one line that names the host.

Kept empty of imports: the supervisor of a process starts from this package and should cost nothing.
"""
