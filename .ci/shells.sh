#!/bin/sh
# The shells and man(1) for the tests that type into them: sh .ci/shells.sh
# Installs them where that can be done without asking. Where it cannot, it says so in one line: the tests are then reported
# as not run, and with TFPROV_TESTS_SHELLS=required this script fails.
set -u
# shellcheck source=.ci/apt.sh
. "$(dirname "$0")/apt.sh"

missing=''
for command in bash zsh fish man; do
    command -v "$command" >/dev/null || missing="$missing $command"
done
[ -n "$missing" ] || exit 0

without() {
    if [ "${TFPROV_TESTS_SHELLS:-}" = required ]; then
        echo "error: the tests in shells are required, and cannot run: $1" >&2
        exit 1
    fi
    echo "note: the tests in shells will not run: $1"
    exit 0
}

command -v apt-get >/dev/null || without "install$missing"
as_root true 2>/dev/null || without "install bash, zsh, fish and man-db, as root"
apt_install bash zsh fish man-db || without "apt-get install failed: $(apt_error)"
