#!/bin/sh
echo '{"web": {"hosts": ["w4"]}, "_meta": {"hostvars": {"w4": {"dynamic": true}, "w1": {"also": "here"}}}}'
