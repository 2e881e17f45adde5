"""Turns PyYAML's syntax errors into problems that name the cause and the fix."""

import re

import yaml

from tfprov.errors import Position, Problem, one_line, printable
from tfprov.vault.redaction import mentions_secret, redact_line

LineColumn = tuple[int, int]
"""A line and a column, counted from 0 as libyaml counts."""

BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""A line break of YAML 1.1."""

_COLON_WITHOUT_SPACE = re.compile(r"\s*(?:- )?([A-Za-z_][\w.-]*):(?![\s/])")
_UNCLOSED = ("unexpected end of stream", "unexpected document indicator")
_HINTS = {
    "unknown escape": ("`\\` and a character that mean nothing in double quotes", "use single quotes, or write `\\\\`"),
    "alphabetic or numeric": ("a value that starts with `*` or `&`", "quote it"),
    "undefined tag handle": ("a tag that means nothing here", "quote a value that starts with `!`"),
    "comment or line break": ("text behind `|` or `>`", "start the text on the next line"),
    "block sequence entries": ("a list that starts behind its key", "start it on the next line, or write `[…]`"),
    "incompatible YAML": ("a YAML version that is not 1.1 or 1.2", "remove the `%YAML` line"),
    "expected node content": ("a comma or bracket where a value should be", "complete the value, or quote it"),
    "tab character": ("a tab in the indentation", "indent with spaces"),
    "invalid Unicode": ("half of a UTF-16 pair, which is no character", "write the character itself"),
    "duplicate %": ("a directive that appears twice", "remove it"),
}


def explain(error: yaml.MarkedYAMLError, text: str, name: str, start: int) -> Problem:
    """Return the problem that `error` reports in `text`; `name` is the file, `start` the number of its first line."""
    mark, opened = error.problem_mark or error.context_mark, error.context_mark
    place = (mark.line, mark.column) if mark else (0, 0)
    context = (opened.line, opened.column) if opened else place
    (line, column), what, fix = _diagnose(error.problem or "not valid YAML", BREAK.split(text), place, context)
    return Problem(Position(name, line + start, column + 1), what, fix)


def _diagnose(problem: str, lines: list[str], place: LineColumn, start: LineColumn) -> tuple[LineColumn, str, str]:
    line = _line_at(lines, place)
    before = line[: place[1]]
    if unclosed := _unclosed(problem, lines, place, start):
        return unclosed
    if "could not find expected ':'" in problem:
        return (
            start,
            f"`{_quote_line(lines, start)}` has no `: ` behind its name",
            "write `name: value`",
        )
    if "cannot start any token" in problem:
        return place, *_illegal_start(line[place[1] : place[1] + 1])
    if "mapping values are not allowed" in problem:
        return _colon_without_space(lines, place) or (place, *_nested_mapping(before))
    if "<document start>" in problem:
        return place, *(_wrong_indentation(before, "") if before.strip() else _text_after_document(lines))
    if "expected key" in problem or "expected '-'" in problem:
        return place, *_wrong_indentation(before, line[place[1] : place[1] + 1])
    what, fix = next(
        (hint for words, hint in _HINTS.items() if words in problem),
        (f"not valid YAML: {one_line(problem)}", "check the indentation and quotes around here"),
    )
    return place, what, fix


def _unclosed(
    problem: str, lines: list[str], place: LineColumn, start: LineColumn
) -> tuple[LineColumn, str, str] | None:
    if "expected node content" in problem and not _line_at(lines, place)[place[1] :].strip():
        last = max(number for number, text in enumerate(lines) if text.strip())
        return (last, len(lines[last].rstrip())), "the file ends within brackets", "close them"
    if any(end in problem for end in _UNCLOSED):
        return start, "a quote that is never closed", "close it"
    if "expected ',' or" not in problem:
        return None
    mark = problem[-2]
    if place[0] == start[0]:
        return place, f"a `,` or `{mark}` is missing here", "add it, or quote the whole value"
    return start, f"a bracket without its `{mark}`, or a comma missing behind it", f"add `{mark}` or `,`"


def _quote_line(lines: list[str], place: LineColumn) -> str:
    """Return the line at `place` for a message: hidden where a password may begin above it."""
    above = (line for line in lines[: place[0]] if not line.lstrip().startswith("#"))
    return "…" if any(map(mentions_secret, above)) else printable(redact_line(_line_at(lines, place).strip()))


def _line_at(lines: list[str], place: LineColumn) -> str:
    return lines[place[0]] if place[0] < len(lines) else ""


def _illegal_start(character: str) -> tuple[str, str]:
    if character == "\t":
        return "a tab in the indentation", "indent with spaces"
    return f"a value cannot start with {'a backtick' if character == '`' else f'`{printable(character)}`'}", "quote it"


def _colon_without_space(lines: list[str], place: LineColumn) -> tuple[LineColumn, str, str] | None:
    """Diagnose `name:value` on the line above: YAML reads it as text that continues on the next line."""
    above = place[0] - 1
    match = _COLON_WITHOUT_SPACE.match(_line_at(lines, (above, 0))) if above >= 0 else None
    if match is None or re.search(r":\s", _line_at(lines, place)[: place[1]]):
        return None
    what = f"`{printable(match[1])}:` without a space behind its colon"
    return (above, match.end(1)), what, f"write `{printable(match[1])}: value`"


def _nested_mapping(before: str) -> tuple[str, str]:
    if re.search(r":\s", before):
        return "a second `: ` on one line", "quote the value"
    return "a key that is indented below a value", "align it, or put a `:` behind the value"


def _text_after_document(lines: list[str]) -> tuple[str, str]:
    if next((line for line in lines if line.strip() and line[0] != "#"), "").startswith("["):
        return "INI, where YAML is read", "write `name: value`"
    return "a line that is indented less than the first", "align the names of the groups"


def _wrong_indentation(before: str, character: str) -> tuple[str, str]:
    if character in ("}", "]"):
        return f"a `{character}` that closes nothing", "remove it, or quote the whole value"
    if before.strip() in ("", "-"):
        return "a line that does not fit the indentation above it", "align it with the lines it belongs to"
    return "text behind the end of a value", "quote the whole value"
