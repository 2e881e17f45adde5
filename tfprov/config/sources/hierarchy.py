"""Which group is above which: loops, and how deep each lies. No recursion: a file may nest a thousand groups."""

from collections.abc import Iterator, Mapping, Sequence

Children = Mapping[str, Sequence[str]]
MAX_LEVELS = 100


def ordered(children: Children) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the groups, each behind its parents, and every (parent, child) that closes a loop.

    The order takes no notice of those that close a loop.
    """
    done: dict[str, None] = {}
    loops: list[tuple[str, str]] = []
    for start in children:
        if start not in done:
            _walk(children, start, done, loops)
    return list(reversed(done)), loops


def _walk(children: Children, start: str, done: dict[str, None], loops: list[tuple[str, str]]) -> None:
    path: dict[str, Iterator[str]] = {start: iter(children[start])}
    while path:
        name, ahead = next(reversed(path.items()))
        child = next(ahead, None)
        if child is None:
            del path[name]
            done[name] = None
        elif child in path:
            loops.append((name, child))
        elif child not in done:
            path[child] = iter(children[child])


def depths(order: Sequence[str], children: Children) -> dict[str, int]:
    """Return the length of the longest way to each group; `order` has each behind its parents."""
    found = dict.fromkeys(order, 0)
    for name in order:
        for child in children[name]:
            found[child] = max(found[child], found[name] + 1)
    return found
