#!/bin/sh
test "$1" = --list && echo '{"tag_web": {"hosts": ["i-1", "i-2"]}, "tag_db": ["i-3"], "_meta": {"hostvars": {"i-1": {"az": "a"}, "i-9": {"az": "z"}}}}'
