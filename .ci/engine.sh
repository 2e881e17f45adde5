#!/bin/sh
# What the tests with hosts in containers need: sh .ci/engine.sh
# Installs it where that can be done without asking; says so in one line where it cannot, and never fails: the tests that
# need it are then reported as not run.
set -u

commands='dockerd docker-init containerd iptables ip debootstrap ssh sshd docker-compose'
packages='docker.io iptables iproute2 debootstrap openssh-client openssh-server docker-compose'
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

if [ -n "$(missing)" ]; then
    command -v apt-get >/dev/null || without "install$(missing)"
    as_root true 2>/dev/null || without "install$(missing), as root: apt-get install $packages"
    { as_root apt-get update -q && without_services as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
        --no-install-recommends $packages; } >/dev/null 2>&1 || without "apt-get install $packages failed"
fi
[ "$(id -u)" = 0 ] || without "they need root: sudo make test"
