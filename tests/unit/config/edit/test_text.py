"""Edits of a text, byte for byte: what is written where, how far it is indented, and what is quoted."""

import pytest

from tfprov.config.edit.text import add_entry, put, read_source, remove
from tfprov.config.edit.value import read_value

FOUR = """\
a:
    b:
        - c: 1
          d: 2
        - c: 1
        - c: 1
    e: 1
"""
"""Its mappings are indented by four columns, and those in its list by two behind their dash."""
TEXT = """\
a: {style}
  one
  two

# about b
b: 1
"""


ADDED = {
    "an item with a comma": ("a:\n- x\n", (0,), [], "p, q", "a:\n- x\n- p, q\n"),
    "an item in quotes": ("a:\n- x\n", (0,), [], "'1'", "a:\n- x\n- '1'\n"),
    "a comma in brackets": ("a: [x]\n", (0,), [], "p, q", 'a: [x, "p, q"]\n'),
    "a comma in braces": ("a: {x: 1}\n", (0,), ["b"], "p, q", 'a: {x: 1, b: "p, q"}\n'),
    "no comma in braces": ("a: {x: 1}\n", (0,), ["b"], "p", "a: {x: 1, b: p}\n"),
    "as far as other mappings": (FOUR, (0,), ["f", "g"], "1", FOUR + "    f:\n        g: 1\n"),
    # In brackets: a line of its own where the last entry and the closing bracket have one.
    "its own line": ("a: [\n  x,\n  y\n]\n", (0,), [], "z", "a: [\n  x,\n  y,\n  z\n]\n"),
    "behind a comment": ("a: [\n  x,\n  y # c\n]\n", (0,), [], "z", "a: [\n  x,\n  y, # c\n  z\n]\n"),
    "with a last comma": ("a: [\n  x,\n  y, # c\n]\n", (0,), [], "z", "a: [\n  x,\n  y, # c\n  z,\n]\n"),
    "a shared line": ("a: [\n  x, y\n]\n", (0,), [], "z", "a: [\n  x, y, z\n]\n"),
    "a shared line with a last comma": ("a: [\n  x, y,\n]\n", (0,), [], "z", "a: [\n  x, y, z,\n]\n"),
    "a bracket on the last line": ("a: [\n  x,\n  y]\n", (0,), [], "z", "a: [\n  x,\n  y, z]\n"),
    "only the first shares its line": ("a: [x,\n  y\n  ]\n", (0,), [], "z", "a: [x,\n  y,\n  z\n  ]\n"),
}


@pytest.mark.parametrize(("before", "path", "names", "value", "after"), ADDED.values(), ids=ADDED)
def test_an_entry_is_added_like_those_before_it(
    before: str, path: tuple[int, ...], names: list[str], value: str, after: str
) -> None:
    assert add_entry(read_source(before.encode(), "i.yml"), path, names, read_value(value, "V")).source.text == after


REMOVED = {
    "its own line": ("a: [\n  x, # c\n  y,\n]\n", (0, 0), "a: [\n  y,\n]\n"),
    "the first of a shared line": ("a: [\n  x, y,\n  z\n]\n", (0, 0), "a: [\n  y,\n  z\n]\n"),
    "the only item behind another dash": ("- - a\n- b\n", (0, 0), "- []\n- b\n"),
    "the only key behind a dash": ("- a: 1\n- b\n", (0, 0), "- {}\n- b\n"),
    "the first key behind a dash": ("- a: 1\n  b: 2\n", (0, 0), "- b: 2\n"),
    "the last key of all": ("a: 1\n", (0,), "{}\n"),
    "the last item of all": ("- 1\n", (0,), "[]\n"),
    "the last key of a mapping": ("a:\n  b: 1\nc: 2\n", (0, 0), "a: {}\nc: 2\n"),
    "the last item of a list": ("a:\n- 1\nc: 2\n", (0, 0), "a: []\nc: 2\n"),
}


@pytest.mark.parametrize(("before", "path", "after"), REMOVED.values(), ids=REMOVED)
def test_an_entry_in_brackets_goes_with_its_line_if_it_has_one(before: str, path: tuple[int, ...], after: str) -> None:
    assert remove(read_source(before.encode(), "i.yml"), path).source.text == after


@pytest.mark.parametrize("style", ["|", ">", "|-", ">-"])
def test_the_blank_lines_behind_a_text_stay_where_it_is_replaced(style: str) -> None:
    before = read_source(TEXT.format(style=style).encode(), "i.yml")
    assert put(before, (0,), read_value("x", "V")).source.text == "a: x\n\n# about b\nb: 1\n"
