#!/bin/sh
# What a cloud's API would say, as an inventory script says it
if [ "$1" = --list ]; then
    cat <<'JSON'
{
  "kube_control_plane": {"hosts": ["i-0a1", "i-0a2"], "vars": {"instance_type": "m5.large"}},
  "kube_node": {"hosts": ["i-0b1"], "vars": {"instance_type": "c5.4xlarge"}},
  "k8s_cluster": {"children": ["kube_control_plane", "kube_node"], "vars": {"region": "eu-central-1"}},
  "etcd": ["i-0a1"],
  "_meta": {"hostvars": {
    "i-0a1": {"ansible_host": "198.51.100.1", "tags": {"Name": "cp-1"}},
    "i-0a2": {"ansible_host": "198.51.100.2"}
  }}
}
JSON
fi
