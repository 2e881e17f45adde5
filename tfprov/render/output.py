"""Writes rendered files atomically, and parses rendered YAML fast enough to check it."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfprov import atomic_write
from tfprov.errors import Usage


def documents(name: str, text: str) -> list[Any]:
    """Return the YAML documents in `text`, the content of the file `name`; ValueError if it is not YAML."""
    import yaml  # noqa: PLC0415  templates that are no YAML are rendered without it

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
    try:
        return [document for document in yaml.load_all(text, loader) if document is not None]
    except yaml.YAMLError as error:
        raise ValueError(f"{name} is not YAML: {error}") from None


def objects(name: str, text: str) -> Iterator[tuple[Any, list[Any]]]:
    """Yield every YAML document in `text` as a shape and its quoted texts; `text_of(value, texts)` is a value of it.

    Documents that differ only in quoted texts are parsed once: a thousand tasks take a second. For the same reason only
    the first of consecutive list entries that differ only in quoted texts is in the shape. ValueError if a document is
    not YAML.
    """
    shapes: dict[str, Any] = {}
    for part in text.split("\n---\n"):
        texts = _QUOTED.findall(part)
        shape = _QUOTED.sub(_Numbering(), part)
        try:
            # Inside single quotes and text blocks, double quotes do not delimit a text.
            parsed = None if "'" in shape or "|\n" in shape else json.loads(f"[{','.join(texts)}]")
        except ValueError:
            parsed = None
        if parsed is None:
            yield from ((document, []) for document in documents(name, part))
            continue
        if shape not in shapes:
            shapes[shape] = documents(name, _without_repeats(shape))
        yield from ((document, parsed) for document in shapes[shape])


_QUOTED = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"')
_PLACEHOLDER = "\x1a"


def _without_repeats(shape: str) -> str:
    """Return a shape without list entries that repeat the previous entry except for quoted texts.

    If the first of them is valid YAML, so are the others: they are whole lines with the same punctuation.
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
    """Return the end of the list entry that begins at a line; any other line ends by itself."""
    if not _begins_entry(lines[begin]):
        return begin + 1
    depth = _depth(lines[begin])
    after = range(begin + 1, len(lines))
    return next((end for end in after if lines[end] and _depth(lines[end]) <= depth), len(lines))


def _begins_entry(line: str) -> bool:
    return line.lstrip(" ").startswith("- ")


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


class _Numbering:
    """Replaces every quoted text by its number."""

    def __init__(self) -> None:
        self.count = -1

    def __call__(self, match: re.Match[str]) -> str:
        self.count += 1
        return f'"\\x1a{self.count}"'


def text_of(value: object, texts: list[Any]) -> object:
    """Return the text for a placeholder from a shape, and any other value as it is."""
    if texts and isinstance(value, str) and value.startswith(_PLACEHOLDER):
        return texts[int(value[1:])]
    return value


def write(rendered: Mapping[str, str], destination: Path, keep: Collection[Path] = ()) -> Iterator[Path]:
    """Write the files of a target to `destination` and yield the path of each. Usage is raised for a file in `keep`.

    A directory receives all of them under their own names; any other path is the file itself, and Usage is raised for
    several files. Each file is replaced atomically; a device or a pipe takes the text.
    """
    into = destination.is_dir() or len(rendered) > 1
    if into and destination.exists() and not destination.is_dir():
        raise Usage(f"{destination} is a file, and there are {len(rendered)} to write", "use a directory with `-o`")
    for name, text in rendered.items():
        path = destination / name if into else destination
        try:
            if path.is_file() and any(one.is_file() and one.samefile(path) for one in keep):
                raise Usage(f"{path} is the inventory, and would be replaced", "choose another path with `-o`")
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write.replace_output(path, text.encode())
        except OSError as error:
            raise Usage(f"{path} cannot be written: {error.strerror}", "choose another path with `-o`") from None
        yield path
