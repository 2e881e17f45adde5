"""Whether every host can do its part, before anything is brought to it."""
