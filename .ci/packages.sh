#!/bin/sh
# Makes a virtual environment with the packages of a lock file: sh .ci/packages.sh PYTHON DIRECTORY LOCK
# pip takes a minute to unpack and compile them. So a new environment is kept outside of the tree, one for each lock file
# and interpreter, and the next new one has links to its files. An environment that exists is completed by pip.
set -eu
python=$1 directory=$2 lock=$3
here=$(dirname "$0")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tfprov-tests/environments
days=30 # an environment that was not used for so long goes

with_pip() {
    sh "$here/venv.sh" "$python" "$directory"
    "$directory/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$lock"
}

# Programs begin with the path of their interpreter; one that is too long for that, or has spaces, is written in other ways.
path=$(pwd -P)/$directory
case $path in *[!A-Za-z0-9_./+-]*) path= ;; esac
if [ -e "$directory" ] || [ -z "$path" ] || [ ${#path} -gt 110 ] || [ -z "$python" ]; then
    with_pip
    exit
fi

# A lock file names others.
key=$({ "$python" -c 'import sys, sysconfig; print(sys.version, sysconfig.get_platform(), sys.executable)' &&
    cat "$(dirname "$lock")"/*.txt "$0" "$here/venv.sh"; } | sha256sum | cut -c1-32)
kept=$cache/$key
mkdir -p "$cache" build
part=$(mktemp -d "$cache/.part.XXXXXX")
new=$(mktemp -d build/.environment.XXXXXX)
trap 'rm -rf "$part" "$new"' EXIT # also after Ctrl-C
trap 'exit 130' INT TERM

# Links, or copies where the cache is on another file system.
copy() {
    cp -al "$1/." "$2" 2>/dev/null || { rm -rf "$2" && cp -a "$1" "$2"; }
}

if [ ! -d "$kept" ]; then
    with_pip
    copy "$directory" "$part"
    echo "$path" >"$part/path"
    # What is linked must not be changed in one place for all.
    find "$part" -type f -exec chmod a-w {} +
    # Another one may have been faster: both have the same files.
    mv -T "$part" "$kept" 2>/dev/null || [ -d "$kept" ]
    exit
fi

touch "$kept"
copy "$kept" "$new"
"$new/bin/python" -c 'if True:
    import pathlib, sys
    new, path = pathlib.Path(sys.argv[1]), sys.argv[2].encode()
    old = (new / "path").read_bytes().strip()
    for file in [*(new / "bin").iterdir(), new / "pyvenv.cfg"]:
        if not file.is_symlink() and file.is_file() and old in (content := file.read_bytes()):
            mode = file.stat().st_mode
            file.unlink()  # and not written to: it is a link to the file of all
            file.write_bytes(content.replace(old, path))
            file.chmod(mode | 0o200)
    (new / "path").unlink()' "$new" "$path"
chmod 755 "$new"
mv -T "$new" "$directory"
find "$cache" -mindepth 1 -maxdepth 1 -mtime "+$days" -exec rm -rf {} +
