"""The cluster's lock: one run at a time changes a cluster."""
