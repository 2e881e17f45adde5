"""How output looks: colours, logs, JSON events, and the screen of `status --watch`."""
