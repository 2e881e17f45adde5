"""What a task runs, brought to where it runs: content-addressed, so that only what changed travels."""
