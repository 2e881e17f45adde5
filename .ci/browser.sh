#!/bin/sh
# The browser for the test that looks at TensorBoard's page: sh .ci/browser.sh
# Installs it where that can be done without asking; says so in one line where it cannot, and never fails: the test is
# then reported as not run.
set -u

# What tests/integration/browser.py looks for.
for command in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$command" >/dev/null && exit 0
done

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

without() {
    echo "note: the test in a browser will not run: $1"
    exit 0
}

# The headless one brings neither a desktop's libraries nor a service; a page without any font has no words.
install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends fonts-liberation "$1"
}

command -v apt-get >/dev/null || without "install Chromium"
as_root true 2>/dev/null || without "install Chromium, as root: apt-get install chromium-headless-shell"
as_root apt-get update -q >/dev/null 2>&1
{ install chromium-headless-shell || install chromium; } >/dev/null 2>&1 ||
    without "apt-get install chromium-headless-shell failed"
