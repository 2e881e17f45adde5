"""The history of runs on the controller: recorded as they happen, read, compared and removed."""
