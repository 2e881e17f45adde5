#!/usr/bin/env -S python3 -IS
"""An inventory without `_meta`: every host is asked for by itself."""

import json
import sys

HOSTS = {f"cab{cabinet}n{node}": {"cabinet": cabinet, "cores": 32 * node} for cabinet in (1, 2) for node in (1, 2)}

if sys.argv[1] == "--list":
    groups = {f"cabinet{number}": [name for name in HOSTS if name.startswith(f"cab{number}")] for number in (1, 2)}
    print(json.dumps({**groups, "compute": {"children": sorted(groups), "vars": {"fabric": "slingshot"}}}))
else:
    print(json.dumps(HOSTS[sys.argv[2]]))
