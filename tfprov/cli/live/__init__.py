"""The live view of `status --watch`."""
