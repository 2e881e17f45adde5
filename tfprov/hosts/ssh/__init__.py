"""SSH connections: authentication, host keys, commands, streams and port forwards."""
