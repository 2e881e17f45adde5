#!/bin/sh
# The JDK for the tests of Spark and of the Hadoop formats: sh .ci/java.sh
# Installs it where that can be done without asking. Where it cannot, it says so in one line: the tests are then reported
# as not run, and with TFPROV_TESTS_JAVA=required this script fails.
set -u
# shellcheck source=.ci/apt.sh
. "$(dirname "$0")/apt.sh"

# What tests/support/spark.py looks for. Spark 4 needs Java 17 or newer.
package=openjdk-17-jdk-headless
command -v java >/dev/null && command -v javac >/dev/null && command -v jar >/dev/null && exit 0

without() {
    if [ "${TFPROV_TESTS_JAVA:-}" = required ]; then
        echo "error: the tests of Spark are required, and cannot run: $1" >&2
        exit 1
    fi
    echo "note: the tests of Spark will not run: $1"
    exit 0
}

command -v apt-get >/dev/null || without "install $package"
as_root true 2>/dev/null || without "install $package, as root: apt-get install $package"
apt_install "$package" || without "apt-get install $package failed: $(apt_error)"
