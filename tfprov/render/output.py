"""Rendered files to where they are wanted, whole or not at all; and a second look at what was rendered."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfprov import atomic_write as safely
from tfprov.errors import Usage


def documents(name: str, text: str) -> list[Any]:
    """Return the YAML documents in `text`, the content of the file `name`; ValueError where it is no YAML."""
    import yaml  # noqa: PLC0415  templates that are no YAML are rendered without it

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
    try:
        return [one for one in yaml.load_all(text, loader) if one is not None]
    except yaml.YAMLError as error:
        raise ValueError(f"{name} is no YAML: {error}") from None


def objects(name: str, text: str) -> Iterator[tuple[Any, list[Any]]]:
    """Yield every YAML document in `text`, as a shape and its quoted texts: `text_of(shape…, texts)` is one of them.

    Documents that differ only in what they quote are read once, which makes a thousand tasks a matter of one second. Of
    the entries of a list that do, one behind the other, only the first is in the shape. ValueError where a document is
    no YAML.
    """
    known: dict[str, Any] = {}
    for part in f"\n{text}".split("\n---\n"):
        texts = _QUOTED.findall(part)
        shape = _QUOTED.sub(_Numbered(), part)
        try:
            # In single quotes, or in a text block, what looks like a quoted text is none.
            parsed = None if "'" in shape or "|\n" in shape else json.loads(f"[{','.join(texts)}]")
        except ValueError:
            parsed = None
        if parsed is None:
            yield from ((one, []) for one in documents(name, part))
            continue
        if shape not in known:
            known[shape] = documents(name, _without_repeats(shape))
        yield from ((one, parsed) for one in known[shape])


_QUOTED = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"')
_STANDS_FOR = "\x1a"


def _without_repeats(shape: str) -> str:
    """Return a shape without the entries of lists that are as the one before them, but for what is quoted.

    Where the first of them can be read, so can the others: they are whole lines with the same marks at the same places.
    """
    lines = shape.split("\n")
    alike = [_QUOTED.sub('""', line) for line in lines]
    kept: list[str] = []
    begin = 0
    while begin < len(lines):
        end = _end_of_entry(alike, begin)
        kept += lines[begin:end]
        size, entry = end - begin, alike[begin:end]
        while _begins_entry(entry[0]) and alike[end : end + size] == entry and _end_of_entry(alike, end) == end + size:
            end += size
        begin = end
    return "\n".join(kept)


def _end_of_entry(lines: list[str], begin: int) -> int:
    """Return where the entry of a list that begins in a line ends; what is none ends with its line."""
    if not _begins_entry(lines[begin]):
        return begin + 1
    depth = _depth(lines[begin])
    return next((at for at in range(begin + 1, len(lines)) if lines[at] and _depth(lines[at]) <= depth), len(lines))


def _begins_entry(line: str) -> bool:
    return line.lstrip(" ").startswith("- ")


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


class _Numbered:
    """Puts a number in place of every quoted text."""

    def __init__(self) -> None:
        self.count = -1

    def __call__(self, match: re.Match[str]) -> str:
        self.count += 1
        return f'"\\x1a{self.count}"'


def text_of(value: object, texts: list[Any]) -> object:
    """Return what `value`, from a shape, stands for."""
    if texts and isinstance(value, str) and value.startswith(_STANDS_FOR):
        return texts[int(value[1:])]
    return value


def write(rendered: Mapping[str, str], destination: Path) -> Iterator[Path]:
    """Write the files of a target to `destination`, and yield the path of each.

    A directory, or a name that ends in `/`, takes all of them under their own names; anything else is the file itself,
    and Usage says so where there are several. Nobody ever sees half of a file.
    """
    into = destination.is_dir() or len(rendered) > 1
    if into and destination.exists() and not destination.is_dir():
        raise Usage(f"{destination} is a file, and there are {len(rendered)} to write", "give `-o` a directory")
    for name, text in rendered.items():
        path = destination / name if into else destination
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            safely.replace(path, text.encode())
        except OSError as error:
            raise Usage(f"{path} cannot be written: {error.strerror}", "choose another place with `-o`") from None
        yield path
