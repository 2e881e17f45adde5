"""The verb `check`: whether every host can run its tasks."""
