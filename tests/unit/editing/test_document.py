"""Edits of a YAML text, byte for byte: position, indentation and quotes."""

import json

import pytest

from tfprov.editing.document import add_entry, parse_file, remove_entry, rename_key, replace_value
from tfprov.editing.scalar_emitter import parse_value
from tfprov.errors import InvalidInput

FOUR = """\
a:
    b:
        - c: 1
          d: 2
        - c: 1
        - c: 1
    e: 1
"""
"""Mappings are indented by four columns, and items of lists by two."""
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
def test_an_entry_is_added_in_the_style_of_its_siblings(
    before: str, path: tuple[int, ...], names: list[str], value: str, after: str
) -> None:
    assert add_entry(parse_file(before.encode(), "i.yml"), path, names, parse_value(value, "V")).source.text == after


REMOVED = {
    "the first without blanks behind it": ("{a: 1,b: 2}\n", (0,), "{b: 2}\n"),
    "one between others without blanks": ("{a: 1,b: 2,c: 3}\n", (1,), "{a: 1,c: 3}\n"),
    "its own line": ("a: [\n  x, # c\n  y,\n]\n", (0, 0), "a: [\n  y,\n]\n"),
    "the first of a shared line": ("a: [\n  x, y,\n  z\n]\n", (0, 0), "a: [\n  y,\n  z\n]\n"),
    "the only item behind another dash": ("- - a\n- b\n", (0, 0), "- []\n- b\n"),
    "the only key behind a dash": ("- a: 1\n- b\n", (0, 0), "- {}\n- b\n"),
    "the first key behind a dash": ("- a: 1\n  b: 2\n", (0, 0), "- b: 2\n"),
    "the first of three keys behind a dash": ("- a: 1\n  b: 2\n  c: 3\n", (0, 0), "- b: 2\n  c: 3\n"),
    "its own line without a comment": ("a: [\n  x,\n  y,\n]\n", (0, 0), "a: [\n  y,\n]\n"),
    "a line between others with another break": ("a: 1\r\nb: 2\nc: 3\n", (1,), "a: 1\r\nc: 3\n"),
    "the last key of all": ("a: 1\n", (0,), "{}\n"),
    "the last item of all": ("- 1\n", (0,), "[]\n"),
    "the last key of a mapping": ("a:\n  b: 1\nc: 2\n", (0, 0), "a: {}\nc: 2\n"),
    "the last item of a list": ("a:\n- 1\nc: 2\n", (0, 0), "a: []\nc: 2\n"),
}


@pytest.mark.parametrize(("before", "path", "after"), REMOVED.values(), ids=REMOVED)
def test_a_flow_entry_is_removed_with_its_line(before: str, path: tuple[int, ...], after: str) -> None:
    assert remove_entry(parse_file(before.encode(), "i.yml"), path).source.text == after


@pytest.mark.parametrize("style", ["|", ">", "|-", ">-"])
def test_blank_lines_after_a_replaced_block_scalar_stay(style: str) -> None:
    before = parse_file(TEXT.format(style=style).encode(), "i.yml")
    assert replace_value(before, (0,), parse_value("x", "V")).source.text == "a: x\n\n# about b\nb: 1\n"


CHANGED = {
    "a mapping on the last line without its end": ("a:\n  b: 1", (0,), "x", "a: x"),
    "a mapping": ("a:\n  b: 1\n", (0,), "x", "a: x\n"),
    "nothing before a comma": ("{a: , b: 1}\n", (0,), "x", "{a: x, b: 1}\n"),
    "nothing before a brace": ("{a: }\n", (0,), "x", "{a: x}\n"),
    "nothing before a bracket": ("a: [b: ]\n", (0, 0, 0), "x", "a: [b: x]\n"),
    "lines that were typed with blanks": ("a: 1\n", (0,), "  b: 1\n  c: 2\n", "a:\n  b: 1\n  c: 2\n"),
    "a key alone": ("{a: 1, b}\n", (1,), "x", "{a: 1, b: x}\n"),
    "an item in brackets": ("a: [x, ]\n", (0, 0), "y", "a: [y, ]\n"),
    "nothing": ("a:\nb: 1\n", (0,), "x", "a: x\nb: 1\n"),
    "nothing before a comment": ("a: # c\nb: 1\n", (0,), "x", "a: x # c\nb: 1\n"),
    "an anchored value": ("a: &k 1\nb: *k\n", (0,), "2", "a: &k 2\nb: *k\n"),
    "an anchored mapping": ("a: &k\n  b: 1\nc: 1\n", (0,), "x", "a: &k x\nc: 1\n"),
    "a tagged value": ("a: !!str 1\n", (0,), "x", "a: x\n"),
    "an anchored and tagged value": ("a: &k !!str 1\nb: *k\n", (0,), "x", "a: &k x\nb: *k\n"),
    "braces at the end": ("a: 1", (0,), "{b: 1}", "a: {b: 1}"),
    "lines before a comment": ("a: 1 # c\n", (0,), "b: 1\nc: 2\n", "a: # c\n  b: 1\n  c: 2\n"),
    "lines at the end": ("a: 1", (0,), "b: 1\nc: 2\n", "a:\n  b: 1\n  c: 2"),
    "lines below an anchor": (
        "a: &k\n  b: 1\nc: 1\n", (0,), "d: 1\ne: 2\n", "a: &k\n  d: 1\n  e: 2\nc: 1\n",
    ),
    "other lines": ("a:\n  b: 1\nc: 1\n", (0,), "d: 1\ne: 2\n", "a:\n  d: 1\n  e: 2\nc: 1\n"),
    "a text of lines": ("a: 1\n", (0,), "|\n  one\n  two\n", "a: |\n  one\n  two\n"),
    "a comment within": (
        "a:\n  b: 1\n  # inside\n# outside\nc: 1\n", (0,), "x", "a: x\n  # inside\n# outside\nc: 1\n",
    ),
    "a comment below a blank line": ("a:\n  b: 1\n\n  # inside\n", (0,), "x", "a: x\n\n  # inside\n"),
    "lines in braces": ("a: {b: 1}\n", (0, 0), "c: 1\nd: 2\n", "a: {b: {c: 1, d: 2}}\n"),
    "a line with a comma in braces": ("a: {b: 1}\n", (0, 0), "c: p, q\nd: 2\n", 'a: {b: {c: "p, q", d: 2}}\n'),
    "lines of an item": ("- 1\n- 2\n", (0,), "a: 1\nb: 2\n", "- {a: 1, b: 2}\n- 2\n"),
    "the quotes of before": ("a: 'x'\n", (0,), "y z", "a: 'y z'\n"),
    "a number for a text in quotes": ('a: "x"\n', (0,), "1", "a: 1\n"),
    "JSON": ('{"a": 1}\n', (0,), "x", '{"a": "x"}\n'),
    "JSON keeps letters": ('{"a": 1}\n', (0,), "grün", '{"a": "grün"}\n'),
    "an empty item": ("a:\n  -\n  - b\n", (0, 0), "x", "a:\n  - x\n  - b\n"),
    "a text of lines on the last line": ("a: |\n  t", (0,), "x", "a: x"),
    "a text that keeps its blank lines": ("a: |+\n  x\n\n\nb: 1\n", (0,), "y", "a: y\nb: 1\n"),
    "a text that keeps blank lines at the end": ("a: |+\n  x\n\n", (0,), "y", "a: y\n"),
    "a text that keeps blank lines and has none": ("a: |+\n  x", (0,), "y", "a: y"),
    "an empty text that keeps blank lines": ("a: |+", (0,), "y", "a: y"),
    "a text whose comment has a plus": ("a: | # +\n  x\n\nb: 1\n", (0,), "y", "a: y\n\nb: 1\n"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "path", "value", "after"), CHANGED.values(), ids=CHANGED)
def test_replacing_a_value_changes_nothing_else(before: str, path: tuple[int, ...], value: str, after: str) -> None:
    source = parse_file(before.encode(), "i.json" if before.startswith('{"') else "i.yml")
    assert replace_value(source, path, parse_value(value, "V")).source.text == after


PAIRS = r"""{"\ud83d\ude00 a": "\uD83D\uDE00", "b": ["x", "\ud83d\ude00\ud83d\ude01 y", {"c": 1}],
 "d": "\\ud83d", "e": {"f": "\ud83d\ude02", "g": 2}}
"""
"""JSON that escapes characters beyond U+FFFF, as `json.dumps` does."""


def test_json_with_surrogate_pairs_keeps_them_in_an_edit() -> None:
    source = parse_file(PAIRS.encode(), "i.json")
    added = add_entry(source, (3,), ["h"], parse_value("new", "V")).source
    assert added.text == PAIRS.replace('"g": 2}', '"g": 2, "h": "new"}')
    replaced = replace_value(source, (1, 2, 0), parse_value("7", "V")).source
    assert replaced.text == PAIRS.replace('"c": 1', '"c": 7')
    removed = remove_entry(source, (1, 1)).source
    assert removed.text == PAIRS.replace(r' "\ud83d\ude00\ud83d\ude01 y",', "")
    renamed = rename_key(source, (0,), "k").source
    assert renamed.text == PAIRS.replace(r"\ud83d\ude00 a", "k", 1)
    again = replace_value(replaced, (0,), parse_value("z", "V")).source
    assert json.loads(again.text) == {**json.loads(replaced.text), "\U0001f600 a": "z"}


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        ("a: 1\n", "b", "b: 1\n"), ("'a': 1\n", "b", "'b': 1\n"), ('"a": 1\n', "it's", '"it\'s": 1\n'),
        ("a: 1\n", "1", '"1": 1\n'), ("a: 1\n", "x: y", '"x: y": 1\n'), ("{a: 1}\n", "p, q", '{"p, q": 1}\n'),
        ("a: 1\n", "p, q", "p, q: 1\n"), ("a: 1\n", "yes", '"yes": 1\n'), ("&k a: 1\n", "b", "&k b: 1\n"),
        ("a: 1\n", "x #y", '"x #y": 1\n'), ("a: 1\n", "", '"": 1\n'), ("a: 1\n", "- x", '"- x": 1\n'),
        ("a: 1\n", "&x y", '"&x y": 1\n'), ("a: 1\n", "!x y", '"!x y": 1\n'), ("a: 1\n", "'x'", '"\'x\'": 1\n'),
        ("a: 1\n", "tab\there", '"tab\\there": 1\n'), ("a: 1\n", "\u2028", '"\\u2028": 1\n'),
        ('{"a": 1}\n', "b", '{"b": 1}\n'), ('{"a": 1}\n', "ü", '{"ü": 1}\n'), ("a: 1\n", "ü: x", '"ü: x": 1\n'),
        ("a: 1\n", '"', "'\"': 1\n"), ("a: 1\n", "\\x", "\\x: 1\n"),
    ],
)  # fmt: skip
def test_a_key_is_quoted_only_if_necessary(before: str, name: str, after: str) -> None:
    source = parse_file(before.encode(), "i.json" if before.startswith('{"') else "i.yml")
    assert rename_key(source, (0,), name).source.text == after


@pytest.mark.parametrize(
    ("before", "path", "names", "value", "after"),
    [
        ("{a: }\n", (0,), ["b"], "1", "{a: {b: 1}}\n"), ("a: []\n", (0,), [], "x", "a: [x]\n"),
        ("a: { }\n", (0,), ["b"], "1", "a: { b: 1 }\n"), ("a: [ ]\n", (0,), [], "1", "a: [ 1 ]\n"),
        ("a: &k\nb: *k\n", (0,), ["c"], "1", "a: &k\n  c: 1\nb: *k\n"), ("a: ~\n", (0,), ["b"], "1", "a:\n  b: 1\n"),
        ("a: &k ~ # c\nb: 1\n", (0,), ["b"], "1", "a: &k # c\n  b: 1\nb: 1\n"),
        ("a:\n  b: 1", (0,), ["c"], "2", "a:\n  b: 1\n  c: 2"),
        ("a: # c\nb: 1\n", (0,), ["c"], "2", "a: # c\n  c: 2\nb: 1\n"),
        ("a: {b: 1}\n", (0,), ["c", "d"], "2", "a: {b: 1, c: {d: 2}}\n"),
        ('{"a": {}}', (0,), ["b", "c"], "1", '{"a": {"b": {"c": 1}}}'),
        ("a:\r\n  b: 1\r\n", (0,), ["c", "d"], "2", "a:\r\n  b: 1\r\n  c:\r\n    d: 2\r\n"),
        ("a:\n  'b': 1\n", (0,), ["c"], "2", "a:\n  'b': 1\n  'c': 2\n"),
        ('a: {"b": 1}\n', (0,), ["c"], "2", 'a: {"b": 1, "c": 2}\n'),
        ("a:\n  b: 1\n", (0,), ["c"], "d: 1\ne: 2\n", "a:\n  b: 1\n  c:\n    d: 1\n    e: 2\n"),
        ("a:\n  b: 1\n", (0,), ["c"], "|\n  one\n  two\n", "a:\n  b: 1\n  c: |\n    one\n    two\n"),
        ("a:\n  b: 1\n", (0,), ["c"], "- 1\n- 2\n", "a:\n  b: 1\n  c:\n    - 1\n    - 2\n"),
        ("a: {b: 1}\n", (0,), ["c"], "d: 1\ne: 2\n", "a: {b: 1, c: {d: 1, e: 2}}\n"),
        ("a: [1]\n", (0,), [], "d: 1\ne: 2\n", "a: [1, {d: 1, e: 2}]\n"),
        ("- a: 1\n", (0,), ["b"], "2", "- a: 1\n  b: 2\n"),
        ("a:\n  - b: 1\n    c: 2\n  # d\n", (0, 0), ["e"], "3", "a:\n  - b: 1\n    c: 2\n    e: 3\n  # d\n"),
        ("a:\n  b:\n\n    c: 1\n\n\nd: 1\n", (0, 0), ["e"], "1", "a:\n  b:\n\n    c: 1\n    e: 1\n\n\nd: 1\n"),
        ("{a: 1}", (), ["b"], "2", "{a: 1, b: 2}"), ("a: 1", (), ["b"], "2", "a: 1\nb: 2"),
        ("a: {b: 1, }\n", (0,), ["c"], "2", "a: {b: 1, c: 2, }\n"), ("a: {b: }\n", (0,), ["c"], "2", "a: {b: , c: 2}\n"),
        ("a: [{b: 1}]\n", (0, 0), ["c"], "2", "a: [{b: 1, c: 2}]\n"),
    ],
)  # fmt: skip
def test_an_entry_is_added_and_all_else_stays(
    before: str, path: tuple[int, ...], names: list[str], value: str, after: str
) -> None:
    source = parse_file(before.encode(), "i.json" if before.startswith('{"') else "i.yml")
    assert add_entry(source, path, names, parse_value(value, "V")).source.text == after


@pytest.mark.parametrize(
    ("before", "path", "after"),
    [
        ("a: {b: 1,}\n", (0, 0), "a: {}\n"), ("a: { b: 1 }\n", (0, 0), "a: { }\n"), ("a: [ 1, ]\n", (0, 0), "a: [ ]\n"),
        ("a: [1, 2,]\n", (0, 1), "a: [1,]\n"), ("a: [1, 2, ]\n", (0, 1), "a: [1, ]\n"),
        ("a: [1, 2]\n", (0, 1), "a: [1]\n"), ("a: [\n  1\n]\n", (0, 0), "a: [\n]\n"),
        ("a: [\n  1,\n  2\n]\n", (0, 1), "a: [\n  1\n]\n"),
        ("a: [\n  1, # c\n  2 # d\n]\n", (0, 1), "a: [\n  1 # c\n]\n"), ("a: {b: , c: }\n", (0, 0), "a: {c: }\n"),
        ("a: {b: , c: }\n", (0, 1), "a: {b: }\n"), ("a:\n  b: 1", (0, 0), "a: {}"), ("a: 1\nb: 2", (1,), "a: 1"),
        ("a: 1 # c\nb: 2\n", (0,), "b: 2\n"), ("a: 1\r\nb: 2\r\n", (0,), "b: 2\r\n"), ("a: 1\r\nb: 2", (1,), "a: 1"),
        ("a:\n  b: 1\n    # deep\n  # same\nc: 1\n", (0, 0), "a: {}\n  # same\nc: 1\n"),
        ("a: [x, y,\n  z]\n", (0, 2), "a: [x, y]\n"), ("a: {b: 1, c: 2, d: 3}\n", (0, 2), "a: {b: 1, c: 2}\n"),
        ("- - a\n  - b\n", (0, 1), "- - a\n"), ("a:\n  - b\n  - c: 1\n    d: 2\n", (0, 1, 0), "a:\n  - b\n  - d: 2\n"),
        ("a:\n  - b\n  - c: 1\n    d: 2\n", (0, 1), "a:\n  - b\n"), ('{"a": 1, "b": [1]}', (1, 0), '{"a": 1, "b": []}'),
        ('{"a": 1, "b": [1]}', (0,), '{"b": [1]}'),
    ],
)  # fmt: skip
def test_an_entry_is_removed_and_all_else_stays(before: str, path: tuple[int, ...], after: str) -> None:
    source = parse_file(before.encode(), "i.json" if before.startswith('{"') else "i.yml")
    assert remove_entry(source, path).source.text == after


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        ('a:\n  "x"\nb: 1\n', (0,), "c: 1\nd: 2\n", "a:\n  c: 1\n  d: 2\nb: 1\n"),
        ("a:\n  x\n  y\nb: 1\n", (0,), "c: 1\nd: 2\n", "a:\n  c: 1\n  d: 2\nb: 1\n"),
        ("a: &k\n  x\nb: 1\n", (0,), "c: 1\nd: 2\n", "a: &k\n  c: 1\n  d: 2\nb: 1\n"),
        ("a:\n  x\nb: 1\n", (0,), "y", "a:\n  y\nb: 1\n"), ("a:\n  &k x\nb: *k\n", (0,), "y", "a:\n  &k y\nb: *k\n"),
        ("- \n- b\n", (0,), "x", "- x \n- b\n"), ("-   # c\n- b\n", (0,), "x", "- x   # c\n- b\n"),
        ("a: ! {b: 1}\n", (0,), "x", "a: x\n"), ("a: ! [b]\n", (0,), "x", "a: x\n"),
        ("a: !!map {b: 1}\n", (0,), "x", "a: x\n"), ("a: 1\n", (0,), "!!map {x: 1,\n  y: 2}\n", "a: {x: 1, y: 2}\n"),
        ("a: 1\n", (0,), "! {x: 1,\n  y: 2}\n", "a: {x: 1, y: 2}\n"),
        ("a: 1\n", (0,), "[1,2]", "a: [1,2]\n"),
        ("a: 1\n", (0,), "[1,2,'#']", "a: [1, 2, '#']\n"),
        ("a: 1\n", (0,), "!!seq [1,\n  2]\n", "a: [1, 2]\n"),
        ("a: 1\n", (0,), "[1,\n  'x: y']\n", "a: [1, 'x: y']\n"), ("? a\n: b\n", (0,), "x", "? a\n: x\n"),
        ("a: &k # c\n  b: 1\nd: 1\n", (0,), "x", "a: &k x # c\nd: 1\n"),
        ("a:\n  - 1\n  - 2\nb: 1\n", (0,), "- 3\n- 4\n", "a:\n  - 3\n  - 4\nb: 1\n"),
        ("a:\n- 1\n- 2\nb: 1\n", (0,), "- 3\n- 4\n", "a:\n- 3\n- 4\nb: 1\n"),
        ("a:\n- 1\nb: 1\n", (1,), "- 3\n- 4\n", "a:\n- 1\nb:\n- 3\n- 4\n"),
        ("a: {b: 1}\n", (0,), "|\n  x\n  y\n", "a: |\n  x\n  y\n"),
        ("a: |\n  x\n  y\nb: 1\n", (0,), "|-\n  z\n", "a: |-\n  z\nb: 1\n"),
        ("a: |\n  x\n", (0,), ">\n  z\n  y\n", "a: >\n  z\n  y\n"), ("a: x\n", (0,), "!!str 1", 'a: "1"\n'),
        ("a: x\n", (0,), "!unsafe x", 'a: !unsafe "x"\n'), ("a: x\n", (0,), "'x'", "a: x\n"),
        ('a: "x"\n', (0,), "x\ty", 'a: "x\\ty"\n'), ("a: 'x'\n", (0,), "it's", "a: 'it''s'\n"),
        ("a: x\n", (0,), '"a\\"b"', 'a: a"b\n'), ("a: x\n", (0,), "null", "a: null\n"),
        ("a: x\n", (0,), "{{ b }}", 'a: "{{ b }}"\n'),
        ("a: x\r\nb: 1\r\n", (0,), "c: 1\nd: 2\n", "a:\r\n  c: 1\r\n  d: 2\r\nb: 1\r\n"),
        ("a:\n  b: 1\n  c: 2\n\nd: 1\n", (0,), "e: 1\nf: 2\n", "a:\n  e: 1\n  f: 2\n\nd: 1\n"),
        ("{a: 1,b: 2}\n", (0,), "[1, 2]", "{a: [1, 2],b: 2}\n"),
        ('{"a": 1}\n', (0,), "[1, {b: null}]", '{"a": [1, {"b": null}]}\n'),
    ],
)  # fmt: skip
def test_a_value_is_replaced_and_all_else_stays(before: str, path: tuple[int, ...], value: str, after: str) -> None:
    source = parse_file(before.encode(), "i.json" if before.startswith('{"') else "i.yml")
    assert replace_value(source, path, parse_value(value, "V")).source.text == after


def test_an_edit_whose_result_would_not_be_valid_is_refused() -> None:
    for before, name in (("a: 1\nb: 2\n", "b"), ("{a: 1, b: 2}\n", "b")):
        with pytest.raises(
            InvalidInput, match=r"^i.yml:1:[12]: error: this cannot be changed without changing more of the text; "
        ):
            rename_key(parse_file(before.encode(), "i.yml"), (0,), name)
