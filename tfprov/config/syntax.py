"""libyaml's complaints in the words of someone who wants to mend the file."""

import re

import yaml

from tfprov.config.shown import one_line, shown
from tfprov.errors import Position, Problem

Place = tuple[int, int]
"""A line and a column, counting from 0 as libyaml does."""

_UNCLOSED = ("unexpected end of stream", "unexpected document indicator")
_HINTS = {
    "unknown escape": ("`\\` and a character that mean nothing in double quotes", "use single quotes, or write `\\\\`"),
    "alphabetic or numeric": ("a value that starts with `*` or `&`", "quote it"),
    "undefined tag handle": ("a tag that means nothing here", "quote a value that starts with `!`"),
    "comment or line break": ("text behind `|` or `>`", "start the text on the next line"),
    "block sequence entries": ("a list that starts behind its key", "start it on the next line, or write `[…]`"),
    "incompatible YAML": ("a YAML version that is not 1.1 or 1.2", "remove the `%YAML` line"),
    "expected node content": ("a comma or bracket where a value should be", "complete the value, or quote it"),
    "duplicate %": ("a directive that is given twice", "remove it"),
}


def explain(error: yaml.MarkedYAMLError, text: str, name: str, start: int) -> Problem:
    """Return `error`, met in `text`, as a Problem; `name` and `start` are the file and its first line's number."""
    mark, opened = error.problem_mark or error.context_mark, error.context_mark
    place = (mark.line, mark.column) if mark else (0, 0)
    begun = (opened.line, opened.column) if opened else place
    (line, column), what, fix = _explain(error.problem or "not valid YAML", text.split("\n"), place, begun)
    return Problem(Position(name, line + start, column + 1), what, fix)


def _explain(problem: str, lines: list[str], place: Place, begun: Place) -> tuple[Place, str, str]:
    line = lines[place[0]] if place[0] < len(lines) else ""
    before = line[: place[1]]
    if any(end in problem for end in _UNCLOSED):
        return begun, "a quote that is never closed", "close it"
    if "expected ',' or" in problem:
        mark = problem[-2]
        return begun, f"a list or mapping in brackets without its `{mark}`, or with a comma missing", f"add `{mark}`"
    if "could not find expected ':'" in problem:
        return begun, f"`{shown(_line(lines, begun).strip())}` has no `: ` behind its name", "write `name: value`"
    if "cannot start any token" in problem:
        return place, *_character(line[place[1] : place[1] + 1])
    if "mapping values are not allowed" in problem:
        return place, *_second_value(before)
    if "<document start>" in problem:
        return place, *_after_the_end(lines)
    if "expected key" in problem or "expected '-'" in problem:
        return place, *_misfit(before)
    what, fix = next(
        (hint for words, hint in _HINTS.items() if words in problem),
        (f"not valid YAML: {one_line(problem)}", "check the indentation and quotes around here"),
    )
    return place, what, fix


def _line(lines: list[str], place: Place) -> str:
    return lines[place[0]] if place[0] < len(lines) else ""


def _character(found: str) -> tuple[str, str]:
    if found == "\t":
        return "a tab in the indentation", "indent with spaces"
    return f"a value cannot start with `{shown(found)}`", "quote it"


def _second_value(before: str) -> tuple[str, str]:
    if re.search(r":\s", before):
        return "a second `: ` on one line", "quote the value"
    return "a key that is indented below a value", "align it with the key above, or remove the value above"


def _after_the_end(lines: list[str]) -> tuple[str, str]:
    if next((line for line in lines if line.strip() and line[0] not in "#;"), "").startswith("["):
        return "an inventory in INI form", "write it as YAML: `ansible-inventory -i FILE --list --yaml`"
    return "a line that is indented less than the first", "align the names of the groups"


def _misfit(before: str) -> tuple[str, str]:
    if before.strip() in ("", "-"):
        return "a line that does not fit the indentation above it", "align it with the lines it belongs to"
    return "text behind the end of a value", "quote the whole value"
