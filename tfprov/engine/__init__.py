"""Effects on hosts: observe, execute a plan, wait, gather, lock."""
