"""The relay: a program on a host that gets layers from other relays or the controller, and passes them on.

It runs by itself in a container, with the standard library of Python 3.8 or newer and nothing else of tfprov, and it
imports little: every relay compiles what it imports. Its engine pulls from it through the loopback, with the token of its
registry; other relays get layers over TLS, in which both sides show the one certificate of this run. It knows the digests
of this run only, and ends when the connection to the controller does.
"""
