#!/bin/sh
# What the tests with hosts in containers need, and those that hand rendered files to real tools: sh .ci/engine.sh
# Installs it where that can be done without asking; says so in one line where it cannot, and never fails: the tests that
# need it are then reported as not run.
set -u

commands='dockerd docker-init containerd iptables ip debootstrap ssh sshd'
packages='docker.io iptables iproute2 debootstrap openssh-client openssh-server'
# Each by itself: not every distribution has them, and the engine needs neither.
tools='docker-compose:docker-compose kubectl:kubernetes-client'
PATH=$PATH:/usr/sbin:/sbin

missing() {
    for command in $commands; do command -v "$command" >/dev/null || printf ' %s' "$command"; done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

without() {
    echo "note: the tests with hosts in containers will not run: $1"
    exit 0
}

# The tests start their own dockerd and sshd; the machine's own are not to run because of them.
policy=/usr/sbin/policy-rc.d
without_services() {
    if [ -e "$policy" ]; then "$@"; return; fi
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null && as_root chmod 755 "$policy"
    "$@"
    result=$?
    as_root rm -f "$policy"
    return $result
}

install() {
    { as_root apt-get update -q && without_services as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
        --no-install-recommends "$@"; } >/dev/null 2>&1
}

if [ -n "$(missing)" ]; then
    command -v apt-get >/dev/null || without "install$(missing)"
    as_root true 2>/dev/null || without "install$(missing), as root: apt-get install $packages"
    # shellcheck disable=SC2086  # several words
    install $packages || without "apt-get install $packages failed"
fi
for tool in $tools; do
    command -v "${tool%:*}" >/dev/null || { as_root true 2>/dev/null && install "${tool#*:}"; } ||
        echo "note: the tests of rendered files that need ${tool%:*} will not run: apt-get install ${tool#*:}"
done
[ "$(id -u)" = 0 ] || without "they need root: sudo make test"
