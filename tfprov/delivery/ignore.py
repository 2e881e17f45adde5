"""`.dockerignore`, with Docker's rules: the last match decides, `!` brings back, `**` spans directories."""

import re
from collections.abc import Iterable


class Ignore:
    """The patterns of one ignore file. Names are relative to its directory, with `/` between the parts."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [rule for line in lines if (rule := _rule(line))]
        self._has_exceptions = any(not leaves_out for _, leaves_out in self._rules)

    def matches(self, name: str) -> bool:
        """Whether the file `name` is left out: it, or a directory above it, matches."""
        left_out = False
        for pattern, leaves_out in self._rules:
            if leaves_out != left_out and any(pattern.fullmatch(part) for part in _and_parents(name)):
                left_out = leaves_out
        return left_out

    def prunes(self, name: str) -> bool:
        """Whether the directory `name` need not be entered at all: nothing below it could be brought back by a `!`."""
        return not self._has_exceptions and self.matches(name)


def _and_parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _rule(line: str) -> tuple[re.Pattern[str], bool] | None:
    text = line.strip()
    if not text or text.startswith("#"):
        return None
    leaves_out = not text.startswith("!")
    parts = [part for part in text.lstrip("!").strip().split("/") if part not in ("", ".")]
    return (re.compile(_translate("/".join(parts)), re.DOTALL), leaves_out) if parts else None


def _translate(glob: str) -> str:
    pieces = re.findall(r"\*\*/?|\*|\?|\[[^\]]*\]|\\.|.", glob)
    special = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        special.get(piece)
        or (piece if piece.startswith("[") and len(piece) > 1 else re.escape(piece.removeprefix("\\") or "\\"))
        for piece in pieces
    )
