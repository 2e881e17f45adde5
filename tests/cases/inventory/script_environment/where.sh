#!/bin/sh
# A script may say of itself what it likes: its arguments, and unicode
printf '{"asked": {"hosts": ["one"], "vars": {"arguments": "%s", "count": %s, "word": "süß"}}, "_meta": {"hostvars": {}}}' "$1" "$#"
