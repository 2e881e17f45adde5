"""Effects, in order: observe, execute a plan, wait, gather, and the playbooks that put them together."""
