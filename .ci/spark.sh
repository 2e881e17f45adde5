#!/bin/sh
# Adds Spark to a virtual environment: sh .ci/spark.sh DIRECTORY
# It is published as a source distribution only, of 430 MB, which changes nothing but where its files are. It is built once
# for each hash in locks/spark.txt, by the environment's locked setuptools; every environment refers to that directory.
set -eu
directory=$1
locked=$(dirname "$0")/../locks/spark.txt
hash=$(sed -n '/^pyspark==/,$ s/.*--hash=sha256:\([0-9a-f]*\).*/\1/p' "$locked")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tfprov-tests/pyspark
installed=$cache/$hash

if [ ! -d "$installed" ]; then
    mkdir -p "$cache"
    part=$(mktemp -d "$cache/.part.XXXXXX")
    trap 'rm -rf "$part"' EXIT # also after Ctrl-C
    trap 'exit 130' INT TERM
    "$directory/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps \
        --no-build-isolation --require-hashes --target "$part" -r "$locked"
    chmod 755 "$part"
    # Another one may have been faster: both have the same files.
    mv -T "$part" "$installed" 2>/dev/null || [ -d "$installed" ]
fi
"$directory/bin/python" -c 'import pathlib, sys, sysconfig
pathlib.Path(sysconfig.get_path("purelib"), "pyspark-installed.pth").write_text(sys.argv[1] + "\n")' "$installed"
