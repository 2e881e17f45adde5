"""A table of the installed dependencies: name, version and licence. `python -m tests.support.licences [EXTRA]...`."""

import sys
from collections.abc import Callable, Sequence
from email.message import Message
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

Metadata = Callable[[str], Message]
"""Returns the metadata of an installed package by its name."""


def installed(name: str) -> Message:
    """Return the metadata of a package of this environment."""
    return metadata.metadata(name)  # type: ignore[return-value]  # email.message.Message, as its documentation says


def licence(package: Message) -> str:
    """Return the licence that a package states: an SPDX expression, or the words of its classifiers or of its field."""
    if expression := package.get("License-Expression"):
        return str(expression)
    classifiers = [str(text).split(" :: ") for text in package.get_all("Classifier", [])]
    named = [parts[-1] for parts in classifiers if parts[0] == "License" and len(parts) > 2]
    if named:
        return ", ".join(named)
    lines = str(package.get("License") or "").strip().splitlines()  # some put the whole text there
    return lines[0].strip() if lines and lines[0].strip() != "UNKNOWN" else "not stated"


def rows(name: str, extras: Sequence[str], look: Metadata = installed) -> list[tuple[str, str, str]]:
    """Return name, version and licence of a package and of all that it needs here, by name."""
    table = dict[str, tuple[str, str, str]]()
    left = [(name, ("", *extras))]
    while left:
        wanted, chosen = left.pop()
        package = look(wanted)
        new = wanted not in table
        table[wanted] = (str(package["Name"]), str(package["Version"]), licence(package))
        for text in package.get_all("Requires-Dist", []):
            requirement = Requirement(str(text))
            needed = [not requirement.marker or requirement.marker.evaluate({"extra": each}) for each in chosen]
            key = canonicalize_name(requirement.name)
            if any(needed) and (new or key not in table):
                left.append((key, ("", *sorted(requirement.extras))))
    return sorted(table.values(), key=lambda row: row[0].lower())


def text(table: Sequence[tuple[str, str, str]]) -> str:
    """Return rows as columns."""
    widths = [max(len(row[column]) for row in table) for column in (0, 1)]
    return "".join(f"{name:{widths[0]}}  {version:{widths[1]}}  {terms}\n" for name, version, terms in table)


if __name__ == "__main__":
    sys.stdout.write(text(rows("tfprov", sys.argv[1:])))
