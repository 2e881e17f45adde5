"""Which files of a container come as one archive of their directory: to ask for each takes far longer than to read it."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from tfprov.hosts.base import File

_REQUEST = 256 * 1024
"""Bytes that are moved in the time that a file takes which is asked for alone: 25 ms over 10 MB/s."""
LARGE = 64 * 1024 * 1024
"""Bytes from which on a file may be worth asking for alone: should it be sparse, its holes need not be sent."""
_HEADER = 1024
"""Bytes that an archive needs for a file, besides its content."""


def bundles(names: Collection[str], files: Mapping[str, File]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield directories to be read whole, with those of `names` below; the checkpoint directory itself is "".

    An archive of a directory has all of `files` below it: it is worth that where what is not wanted takes less time than
    to ask for each file that is. What is in none of them is better asked for alone, as large files are beside a few others.
    """
    wanted = frozenset(names) & files.keys()
    small = frozenset(name for name in wanted if files[name].size < LARGE)
    alone = _REQUEST * len(small) <= sum(files[name].size for name in wanted - small)
    yield from _below("", small if alone else wanted, files)


def _below(top: str, names: frozenset[str], files: Mapping[str, File]) -> Iterator[tuple[str, frozenset[str]]]:
    unwanted = sum(file.size + _HEADER for name, file in files.items() if name not in names)
    if len(names) > 1 and unwanted <= _REQUEST * (len(names) - 1):
        yield top, names
        return
    cut = len(top) + 1 if top else 0
    inside: dict[str, dict[str, File]] = defaultdict(dict)
    for name, file in files.items():
        folder, slash, _ = name[cut:].partition("/")
        if slash:
            inside[name[:cut] + folder][name] = file
    for folder, there in inside.items():
        yield from _below(folder, names & there.keys(), there)
