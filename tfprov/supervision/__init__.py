"""The supervisor of a detached run: a process that follows a training without a terminal."""
