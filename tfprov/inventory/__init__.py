"""Where inventories come from: every kind of source Ansible reads, and the hosts and groups they make together."""
