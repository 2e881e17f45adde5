#!/bin/sh
# Makes a virtual environment: sh .ci/venv.sh PYTHON DIRECTORY
# Debian splits the standard library: without python3-venv, `python3 -m venv` exists and fails. What can be done about
# that is tried in turn, from the least to the most intrusive.
set -eu
# shellcheck source=.ci/apt.sh
. "$(dirname "$0")/apt.sh"
python=$1 directory=$2
locked=$(dirname "$0")/../locks/venv.txt

if [ -z "$python" ] || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "error: Python 3.11 or newer is needed; install it, or say which with make PYTHON=/path/to/python3" >&2
    exit 2
fi
[ -x "$directory/bin/python" ] && "$directory/bin/python" -m pip --version >/dev/null 2>&1 && exit 0

try() {
    rm -rf "$directory"
    "$@" >/dev/null 2>&1 && "$directory/bin/python" -m pip --version >/dev/null 2>&1
}

from_debian() {
    command -v apt-get && apt_install "$1" && "$python" -m venv "$directory"
}

with_virtualenv() {
    tools=$(mktemp -d) && "$python" -m pip install --quiet --target "$tools" --require-hashes -r "$locked" &&
        PYTHONPATH=$tools "$python" -m virtualenv --quiet "$directory" && rm -rf "$tools"
}

# Without root: apt fetches Debian's own copy of pip into a directory of ours, and that pip installs itself.
with_debians_pip() {
    tools=$(mktemp -d) && mkdir -p "$tools/lists/partial" "$tools/cache/archives/partial" &&
        apt="apt-get -q -o Dir::State::Lists=$tools/lists -o Dir::Cache=$tools/cache -o APT::Sandbox::User=$(id -un)" &&
        $apt update && (cd "$tools" && $apt download python3-pip-whl && dpkg-deb -x python3-pip-whl_*.deb .) &&
        "$python" -m venv --without-pip "$directory" &&
        PYTHONPATH=$(echo "$tools"/usr/share/python-wheels/pip-*.whl) "$directory/bin/python" -m pip install --quiet \
            --require-hashes -r "$locked" &&
        rm -rf "$tools"
}

version=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
try "$python" -m venv "$directory" || try with_virtualenv || try from_debian "$version" || try with_debians_pip || {
    echo "error: $python cannot make a virtual environment; install it with: apt-get install $version" >&2
    exit 2
}
