"""Keep checkpoints from being removed while they are copied, by hard links in a folder next to them.

A program that keeps one checkpoint and saves several times a second removes each before it can be read over a network.
"""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from tfprov.hosts.base import File

FOLDER = ".tfprov-held"
"""Below the checkpoint directory: hard links need the same file system."""
_FOLDERS = (f"{FOLDER}/", ".tfprov-mirror/", ".tfprov-restore/")
"""Also those in which the mirror of a checkpoint directory holds files."""
_FILE = re.compile(r"[^/]+\.(index|meta|data-[0-9]{5}-of-[0-9]{5})", re.ASCII)
HOLD = """cd "$1" || exit
rm -rf .tfprov-held; mkdir .tfprov-held || exit
for name in *.index *.data-?????-of-????? *.meta; do
    [ -f "$name" ] && [ ! -L "$name" ] || continue
    ln "$name" .tfprov-held/ && continue
    cp -p "$name" .tfprov-held/.part && mv .tfprov-held/.part ".tfprov-held/$name"
done 2>/dev/null
exit 0"""
"""For a shell in the task's container. Files that vanish meanwhile are left out. Not every file system has hard links."""
RELEASE = 'rm -rf "$1/.tfprov-held"'


def split_held(files: Mapping[str, File]) -> tuple[dict[str, File], bool]:
    """Return `files` without the held ones, and whether there are held ones."""
    files_by_name = {name: file for name, file in files.items() if not name.startswith(_FOLDERS)}
    return files_by_name, len(files_by_name) < len(files)


def checkpoint_files(files: Mapping[str, File]) -> dict[str, File]:
    """Return the checkpoint files of a listing of the folder."""
    return {name: file for name, file in files.items() if _FILE.fullmatch(name)}


def hold(directory: Path) -> dict[str, File]:
    """Hold the checkpoint files in `directory`; return them by name. Raises OSError."""
    release(directory)
    folder = directory / FOLDER
    folder.mkdir()
    files_by_name = {}
    for entry in os.scandir(directory):
        if not (_FILE.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)):
            continue
        try:
            _link_or_copy(Path(entry.path), folder / entry.name)
        except FileNotFoundError:  # removed meanwhile
            continue
        status = (folder / entry.name).stat()
        files_by_name[entry.name] = File(status.st_size, status.st_mtime)
    return files_by_name


def _link_or_copy(path: Path, target: Path) -> None:
    try:
        os.link(path, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without hard links
        part = target.with_name(".part")
        shutil.copy2(path, part, follow_symlinks=False)
        part.rename(target)


def release(directory: Path) -> None:
    """Release the held files of `directory`."""
    shutil.rmtree(directory / FOLDER, ignore_errors=True)
