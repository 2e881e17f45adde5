"""One run at a time changes a cluster."""
