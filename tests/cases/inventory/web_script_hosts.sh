#!/bin/sh
case $1 in
--list)
    echo '{"web": {"hosts": ["a.dyn", "b.dyn"]}, "db": {"hosts": ["c.dyn"], "vars": {"port": 3306}}, "empty": {"hosts": []},'
    echo ' "all": {"vars": {"owner": "ops", "nested": {"x": [1, 2.5, null, true]}}}, "lonely": {}}'
    ;;
--host)
    case $2 in
    a.dyn) echo '{"cores": 2}' ;;
    c.dyn) echo '{"cores": 16, "port": 3307}' ;;
    *) echo '{}' ;;
    esac
    ;;
esac
