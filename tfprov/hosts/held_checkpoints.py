"""Checkpoints that are kept from being removed while they are copied: second names of their files, in a folder beside.

A program that keeps one checkpoint and saves several times a second removes each before it can be read over a network.
"""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from tfprov.hosts.base import File

FOLDER = ".tfprov-held"
"""Below the checkpoint directory, because a second name must be in the same file system."""
_FILE = re.compile(r"[^/]+\.(index|meta|data-[0-9]{5}-of-[0-9]{5})", re.ASCII)
HOLD = """cd "$1" || exit
rm -rf .tfprov-held; mkdir .tfprov-held || exit
for name in *.index *.data-?????-of-????? *.meta; do
    [ -f "$name" ] && [ ! -L "$name" ] || continue
    ln "$name" .tfprov-held/ && continue
    cp -p "$name" .tfprov-held/.part && mv .tfprov-held/.part ".tfprov-held/$name"
done 2>/dev/null
exit 0"""
"""For a shell in the task's container: what vanishes meanwhile is left out. Not every file system has second names."""
RELEASE = 'rm -rf "$1/.tfprov-held"'


def apart(files: Mapping[str, File]) -> tuple[dict[str, File], bool]:
    """Return `files` without those that are held, and whether there are any."""
    found = {name: file for name, file in files.items() if not name.startswith(f"{FOLDER}/")}
    return found, len(found) < len(files)


def held(files: Mapping[str, File]) -> dict[str, File]:
    """Return what of a listing of the folder is of checkpoints."""
    return {name: file for name, file in files.items() if _FILE.fullmatch(name)}


def hold(directory: Path) -> dict[str, File]:
    """Hold what of checkpoints there is in `directory`; return the files by their names. Raises OSError."""
    release(directory)
    folder = directory / FOLDER
    folder.mkdir()
    found = {}
    for entry in os.scandir(directory):
        if not (_FILE.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)):
            continue
        try:
            _second_name(Path(entry.path), folder / entry.name)
        except FileNotFoundError:  # removed since it was listed
            continue
        status = (folder / entry.name).stat()
        found[entry.name] = File(status.st_size, status.st_mtime)
    return found


def _second_name(path: Path, beside: Path) -> None:
    try:
        os.link(path, beside, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without second names
        part = beside.with_name(".part")
        shutil.copy2(path, part, follow_symlinks=False)
        part.rename(beside)


def release(directory: Path) -> None:
    """Let go of what is held in `directory`."""
    shutil.rmtree(directory / FOLDER, ignore_errors=True)
