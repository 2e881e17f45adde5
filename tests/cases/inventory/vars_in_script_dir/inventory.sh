#!/bin/sh
[ "$1" = --list ] && echo '{"g": {"hosts": ["h1", "h2"], "vars": {"v": "script", "s": 1}, "children": ["sub"]}, "sub": {"hosts": ["h3"]}, "_meta": {"hostvars": {"h1": {"v": "meta"}}}}'
