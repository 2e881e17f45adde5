#!/bin/sh
# What the tests with hosts in containers need, and those that hand rendered files to real tools: sh .ci/engine.sh
# Installs it where that can be done without asking. Where it cannot, it says so in one line: the tests that need it are
# then reported as not run, and with TFPROV_TESTS_ENGINE=required this script fails.
set -u
# shellcheck source=.ci/apt.sh
. "$(dirname "$0")/apt.sh"

commands='dockerd docker-init containerd iptables ip debootstrap ssh sshd'
packages='docker.io iptables iproute2 debootstrap openssh-client openssh-server'
# Each by itself: not every distribution has them, and the engine needs neither.
tools='docker-compose:docker-compose kubectl:kubernetes-client'
PATH=$PATH:/usr/sbin:/sbin

missing() {
    for command in $commands; do command -v "$command" >/dev/null || printf ' %s' "$command"; done
}

without() {
    if [ "${TFPROV_TESTS_ENGINE:-}" = required ]; then
        echo "error: the tests with hosts in containers are required, and cannot run: $1" >&2
        exit 1
    fi
    echo "note: the tests with hosts in containers will not run: $1"
    exit 0
}

# The tests start their own dockerd and sshd; the machine's own are not to run because of them.
policy=/usr/sbin/policy-rc.d
without_services() {
    if [ -e "$policy" ]; then "$@"; return; fi
    trap 'as_root rm -f "$policy"' EXIT # also after Ctrl-C, while a lock is waited for
    trap 'exit 130' INT TERM
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null && as_root chmod 755 "$policy"
    "$@"
    result=$?
    as_root rm -f "$policy"
    return $result
}

if [ -n "$(missing)" ]; then
    command -v apt-get >/dev/null || without "install$(missing)"
    as_root true 2>/dev/null || without "install$(missing), as root: apt-get install $packages"
    # shellcheck disable=SC2086  # several words
    without_services apt_install $packages || without "apt-get install $packages failed: $(apt_error)"
fi
[ "$(id -u)" = 0 ] || without "they need root: sudo make test"
for tool in $tools; do
    command -v "${tool%:*}" >/dev/null && continue
    as_root true 2>/dev/null && without_services apt_install "${tool#*:}" && continue
    [ "${TFPROV_TESTS_ENGINE:-}" != required ] ||
        without "the tests of rendered files need ${tool%:*}: apt-get install ${tool#*:} failed: $(apt_error)"
    echo "note: the tests of rendered files that need ${tool%:*} will not run: apt-get install ${tool#*:}"
done
