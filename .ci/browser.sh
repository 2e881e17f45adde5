#!/bin/sh
# The browser for the test that looks at TensorBoard's page: sh .ci/browser.sh
# Installs it where that can be done without asking. Where it cannot, it says so in one line: the test is then reported
# as not run, and with TFPROV_TESTS_BROWSER=required this script fails.
set -u
# shellcheck source=.ci/apt.sh
. "$(dirname "$0")/apt.sh"

# What tests/support/browser.py looks for.
for command in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$command" >/dev/null && exit 0
done

without() {
    if [ "${TFPROV_TESTS_BROWSER:-}" = required ]; then
        echo "error: the test in a browser is required, and cannot run: $1" >&2
        exit 1
    fi
    echo "note: the test in a browser will not run: $1"
    exit 0
}

command -v apt-get >/dev/null || without "install Chromium"
as_root true 2>/dev/null || without "install Chromium, as root: apt-get install chromium-headless-shell"
apt_get update
# The headless one brings neither a desktop's libraries nor a service; a page without any font has no words.
for browser in chromium-headless-shell chromium; do
    apt_get install -y --no-install-recommends fonts-liberation "$browser" && exit 0
done
without "apt-get install chromium failed: $(apt_error)"
