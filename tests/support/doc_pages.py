"""The pages of the documentation: their links, and their examples as one program per page.

An HTML comment above a fenced block says what becomes of it, and is not shown to readers:

    <!-- file: inventory.yml -->                     written to this file, before the commands that follow
    <!-- not run: it needs two hosts; tests/... -->  why it is not run here, and what shows the same

A block of `sh` or `python` without one is run. The blocks of a page are one session: the same directory, and one shell.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT

RUN = ("sh", "python")
_FENCE = re.compile(
    r"(?:^<!-- (?P<verb>file|not run): (?P<note>[^\n]*) -->\n)?^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)|!\[[^\]]*\]\((?P<picture>[^)\s]+)\)")


@dataclass(frozen=True)
class Example:
    """A fenced block. `file` is where it is written to, `skipped` why it is not run; both are empty for most."""

    place: str
    """Page and line, as editors open them."""
    language: str
    code: str
    file: str = ""
    skipped: str = ""


def pages() -> list[Path]:
    """Return all pages but the decisions, which are a record and not maintained."""
    docs = (path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions")
    return [ROOT / "README.md", ROOT / "SECURITY.md", *sorted(docs)]


def examples(page: Path, root: Path = ROOT) -> list[Example]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text()
    return [_example(str(page.relative_to(root)), text, match) for match in _FENCE.finditer(text)]


def _example(page: str, text: str, match: "re.Match[str]") -> Example:
    note = {match["verb"]: match["note"]}
    return Example(
        f"{page}:{text.count(chr(10), 0, match.start('language')) + 1}",
        match["language"],
        re.sub(f"^{match['indent']}", "", match["code"], flags=re.MULTILINE),
        note.get("file", ""),
        note.get("not run", ""),
    )


def script(page: Path, blocks: Path, root: Path = ROOT) -> str:
    """Return a bash program that runs the examples of a page; `blocks` is a directory for the texts of files."""
    return "\n".join(["set -euo pipefail", *_steps(examples(page, root), blocks)])


def _steps(of: Sequence[Example], blocks: Path) -> Iterator[str]:
    for number, example in enumerate(of):
        if example.skipped or not (example.file or example.language in RUN):
            continue
        yield f"echo '== {example.place}' >&2"
        if example.language == "sh" and not example.file:
            yield example.code
            continue
        block = blocks / f"{number}"
        block.write_text(example.code)
        if example.file:
            yield f"mkdir -p $(dirname {example.file}) && cp {block} {example.file}"
        else:
            yield f"python {block}"


def broken_links(page: Path, root: Path = ROOT) -> list[str]:
    """Return the links of a page to files and headings that are not there; addresses of the network are not asked."""
    text = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), page.read_text())
    return [
        f"{page.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}: {target}"
        for match in _LINK.finditer(text)
        for target in [match["target"] or match["picture"]]
        if not re.match(r"[a-z]+:", target) and not _leads_somewhere(page, target)
    ]


def _leads_somewhere(page: Path, target: str) -> bool:
    name, _, fragment = target.partition("#")
    file = page.parent / name if name else page
    if not file.exists():
        return False
    return not fragment or file.suffix != ".md" or fragment in headings(file.read_text())


@cache
def headings(text: str) -> frozenset[str]:
    """Return the fragments by which the headings of a page are linked, as repository hosts derive them."""
    lines = re.findall(
        r"^#+ (.*)$", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    fragments: list[str] = []
    for line in lines:
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line).strip().lower()
        kept = "".join(c for c in plain if c in "-_ " or unicodedata.category(c)[0] in "LN")
        fragment = kept.replace(" ", "-")
        earlier = sum(re.fullmatch(re.escape(fragment) + r"(-\d+)?", each) is not None for each in fragments)
        fragments.append(f"{fragment}-{earlier}" if earlier else fragment)
    return frozenset(fragments)
