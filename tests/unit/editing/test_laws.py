"""Laws of edits: what is added can be taken away, what is set can be set back, and nothing else changes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.examples import MATRIX
from tests.support.paths import ROOT
from tfprov.editing.cst import CstNode, Entry
from tfprov.editing.cst import NodePath as Way
from tfprov.editing.document import EditableFile, add_entry, parse_file, remove_entry, rename_key, replace_value
from tfprov.editing.scalar_emitter import parse_value
from tfprov.errors import InvalidInput

FILES = sorted(
    [*(ROOT / "tests/cases/edit").glob("*.yml"), *ROOT.glob("inventories/*.yml"), *ROOT.glob("playbooks/*.yml")]
)
TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=12)
NAMES = st.from_regex(r"[a-z][a-z_0-9.-]{0,8}", fullmatch=True)
SCALARS = st.one_of(TEXTS, st.integers(-999, 999), st.booleans(), st.none())


def ways(place: CstNode, before: Way = ()) -> Iterator[tuple[Way, Entry]]:
    """Yield every entry below `place` with the way to it."""
    for number, entry in enumerate(place.entries):
        yield (*before, number), entry
        yield from ways(entry.value, (*before, number))


def tried(path: Path) -> tuple[EditableFile, list[tuple[Way, Entry]]]:
    """Return a file and the entries of it to try: a fifth of them, others for each file; in `make matrix` all."""
    source = parse_file(path.read_bytes(), path.name)
    every = 1 if MATRIX else 5
    return source, list(ways(source.document.root))[FILES.index(path) % every :: every]


each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


ENTRIES: tuple[tuple[list[str], str | None], ...] = ((["zz"], None), (["zz", "yy"], "5"), (["zz"], "a: 1\nb: 2"))


@each_file
def test_an_entry_can_be_added_to_every_mapping_and_removed(path: Path) -> None:
    source, entries = tried(path)
    for way, entry in entries:
        for names, typed in ENTRIES[len(way) % 2 :] if entry.value.kind == "mapping" else ():
            value = parse_value(typed, "VALUE") if typed else None
            there = add_entry(source, way, names, value).source
            last = len(there.document.at(way).entries) - 1
            assert remove_entry(there, (*way, last)).source.text == source.text


@each_file
def test_every_key_can_be_renamed_and_renamed_back(path: Path) -> None:
    source, entries = tried(path)
    for way, entry in entries:
        if entry.key is not None and entry.key.kind == "scalar" and not entry.is_merge:
            there = rename_key(source, way, "zz").source
            assert rename_key(there, way, entry.key.text).source.text == source.text


@each_file
def test_every_value_on_one_line_can_be_set_and_set_back(path: Path) -> None:
    source, entries = tried(path)
    for way, entry in entries:
        value = entry.value
        written = source.document.text[value.inner : value.end]
        if value.tag not in ("str", "int", "float") or not written or "\n" in written or entry.is_merge:
            continue
        try:
            old = parse_value(written, "VALUE")
        except InvalidInput:  # a value that nobody would be let set
            continue
        is_usual = source.document.text[entry.mark or 0 : value.inner] == " "
        texts = ("fresh", "7", '"7"', "[a, b]", "- a\n- b" if is_usual else "{a: b}")
        for text in (texts[len(written) % 5], texts[way[-1] % 5]):
            there = replace_value(source, way, parse_value(text, "VALUE")).source
            assert replace_value(there, way, old).source.text == source.text


@each_file
def test_removing_an_entry_removes_nothing_else(path: Path) -> None:
    source, entries = tried(path)
    for way, _ in entries:
        try:
            text = remove_entry(source, way).source.text
        except InvalidInput as error:
            assert "needs it" in str(error) or "without changing more" in str(error)  # noqa: PT017
            continue
        assert len(text) <= len(source.text) + len(" {}")


# -- generated files --------------------------------------------------------------------------------------------------


@st.composite
def blocks(draw: st.DrawFn, depth: int = 0) -> list[str]:
    """Return the lines of a mapping with comments, blank lines, odd steps and every kind of value in it."""
    lines: list[str] = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        lines += draw(st.sampled_from([[], [""], ["# a comment"], ["", "   ", "# two"]]))
        comment = draw(st.sampled_from(["", "", "  # beside", " #\ttab", "   "]))
        kind = draw(st.integers(0, 6 if depth < 3 else 4))
        if kind == 0:
            lines.append(f"{name}:{comment}")
        elif kind <= 2:
            lines.append(f"{name}: {draw(st.sampled_from(FORMS))}{comment}")
        elif kind <= 4:
            lines.append(f"{name}: {draw(flows())}{comment}")
        else:
            pad = " " * draw(st.integers(1, 5))
            lines.append(f"{name}:{comment}")
            lines += [pad + line if line.strip() else line for line in draw(blocks(depth + 1))]
    return lines


FORMS = ("plain", "'single it''s'", '"double \\u00e9"', "5", "0.50", "~", "yes", "a#b", "http://x:1/#y", '"#"', "ü🚀")


@st.composite
def flows(draw: st.DrawFn, depth: int = 0) -> str:
    """Return a value in brackets."""
    gap = draw(st.sampled_from(["", " "]))
    end = draw(st.sampled_from(["", "", ","]))
    if draw(st.booleans()):
        items = draw(st.lists(st.sampled_from(FORMS[:4]), min_size=1, max_size=3))
        return f"[{gap}{', '.join(items)}{end}{gap}]"
    values = st.sampled_from(["", *FORMS[:4]])
    below = st.one_of(values, flows(depth + 1)) if depth < 2 else values
    pairs = [f"{name}: {draw(below)}" for name in draw(st.lists(NAMES, max_size=3, unique=True))]
    return f"{{{gap}{', '.join(pairs)}{end if pairs else ''}{gap}}}"


@st.composite
def sources(draw: st.DrawFn) -> EditableFile:
    """Return a file of such lines, with any line ends, with a byte order mark or not, with a last line end or not."""
    text = "\n".join(draw(blocks())) + draw(st.sampled_from(["", "\n", "\n\n# end\n", "\n...\n"]))
    text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))
    mark = draw(st.sampled_from(["", "\ufeff"]))
    try:
        return parse_file((mark + text).encode(), "file.yml")
    except InvalidInput:
        assume(False)
        raise


@given(sources(), st.data())
def test_adding_and_removing_restores_the_text(source: EditableFile, data: st.DataObject) -> None:
    mappings = [way for way, entry in ways(source.document.root) if entry.value.kind == "mapping"]
    way = data.draw(st.sampled_from([(), *mappings]))
    name = data.draw(st.one_of(NAMES, TEXTS))
    assume(source.document.at(way).key(name) is None and name != "<<")
    there = add_entry(source, way, [name], parse_value(_typed(data.draw(SCALARS)), "VALUE")).source
    assert remove_entry(there, (*way, len(there.document.at(way).entries) - 1)).source.text == source.text


@given(sources(), st.data())
def test_setting_and_resetting_restores_the_text(source: EditableFile, data: st.DataObject) -> None:
    scalars = [
        way for way, entry in ways(source.document.root) if entry.value.kind == "scalar" and not entry.value.is_absent
    ]
    assume(scalars)
    way = data.draw(st.sampled_from(scalars))
    place = source.document.at(way)
    written = source.document.text[place.start : place.end]
    try:
        old = parse_value(written, "VALUE")
    except InvalidInput:
        assume(False)
        raise
    there = replace_value(source, way, parse_value(_typed(data.draw(SCALARS)), "VALUE")).source
    assert replace_value(there, way, old).source.text == source.text


@given(TEXTS, TEXTS)
def test_any_text_can_be_a_value_and_a_key(one: str, other: str) -> None:
    source = parse_file(b"a: {b: 1}\nc: 2\n", "file.yml")
    value = parse_value(_typed(one), "VALUE")
    assert replace_value(source, (0, 0), value).source.document.at((0, 0)).text == one
    assert replace_value(source, (1,), value).source.document.at((1,)).text == one
    if other not in ("a", "b", "c", "<<"):
        for way in ((), (0,)):
            entry = add_entry(source, way, [other], value).source.document.at(way).entries[-1]
            assert entry.key is not None
            assert (entry.key.text, entry.value.text) == (other, one)


def _typed(data: object) -> str:
    """Return a value as a user would have to type it."""
    if isinstance(data, str):
        return "'" + data.replace("'", "''") + "'"
    return "null" if data is None else str(data).lower()
