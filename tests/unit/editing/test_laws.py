"""Properties of edits: each can be undone, and changes nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.examples import MATRIX
from tests.support.paths import ROOT
from tfprov.editing.cst import CollectionEntry, CstNode, Document, NodeKind, NodePath
from tfprov.editing.document import EditableFile, add_entry, parse_file, remove_entry, rename_key, replace_value
from tfprov.editing.scalar_emitter import parse_value
from tfprov.editing.text_edits import head_end
from tfprov.errors import InvalidInput

FILES = sorted(
    [*(ROOT / "tests/cases/edit").glob("*.yml"), *ROOT.glob("inventories/*.yml"), *ROOT.glob("playbooks/*.yml")]
)
TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=12)
NAMES = st.from_regex(r"[a-z][a-z_0-9.-]{0,8}", fullmatch=True)
LINE_BREAK = r"\r\n|[\r\n\x85\u2028\u2029]"
SCALARS = st.one_of(TEXTS, st.integers(-999, 999), st.booleans(), st.none())


def paths_below(node: CstNode, before: NodePath = ()) -> Iterator[tuple[NodePath, CollectionEntry]]:
    """Yield every entry below `place` with the way to it."""
    for number, entry in enumerate(node.entries):
        yield (*before, number), entry
        yield from paths_below(entry.value, (*before, number))


def sample(file: Path) -> tuple[EditableFile, list[tuple[NodePath, CollectionEntry]]]:
    """Return a file and a fifth of its entries, different for each file; in `make matrix` all entries."""
    source = parse_file(file.read_bytes(), file.name)
    every = 1 if MATRIX else 5
    return source, list(paths_below(source.document.root))[FILES.index(file) % every :: every]


each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


ENTRIES: tuple[tuple[list[str], str | None], ...] = ((["zz"], None), (["zz", "yy"], "5"), (["zz"], "a: 1\nb: 2"))


@each_file
def test_an_entry_can_be_added_to_every_mapping_and_removed(file: Path) -> None:
    source, entries = sample(file)
    for path, entry in entries:
        for names, typed in ENTRIES[len(path) % 2 :] if entry.value.kind is NodeKind.MAPPING else ():
            value = parse_value(typed, "VALUE") if typed else None
            edited = add_entry(source, path, names, value).source
            last = len(edited.document.at(path).entries) - 1
            assert remove_entry(edited, (*path, last)).source.text == source.text


@each_file
def test_every_key_can_be_renamed_and_renamed_back(file: Path) -> None:
    source, entries = sample(file)
    for path, entry in entries:
        if entry.key is not None and entry.key.kind is NodeKind.SCALAR and not entry.is_merge:
            edited = rename_key(source, path, "zz").source
            assert rename_key(edited, path, entry.key.text).source.text == source.text


@each_file
def test_every_value_on_one_line_can_be_set_and_set_back(file: Path) -> None:
    source, entries = sample(file)
    for path, entry in entries:
        value = entry.value
        written = source.document.text[value.inner : value.end]
        if value.tag not in ("str", "int", "float") or not written or "\n" in written or entry.is_merge:
            continue
        try:
            old = parse_value(written, "VALUE")
        except InvalidInput:  # a value that `set` refuses
            continue
        is_usual = source.document.text[entry.mark or 0 : value.inner] == " "
        texts = ("fresh", "7", '"7"', "[a, b]", "- a\n- b" if is_usual else "{a: b}")
        for text in (texts[len(written) % 5], texts[path[-1] % 5]):
            edited = replace_value(source, path, parse_value(text, "VALUE")).source
            assert replace_value(edited, path, old).source.text == source.text


def removed(source: EditableFile, path: NodePath) -> EditableFile | None:
    """Remove an entry; None if that is refused."""
    try:
        return remove_entry(source, path).source
    except InvalidInput as error:
        assert "needs it" in str(error) or "without changing more" in str(error)  # noqa: PT017
        return None


def end_with_comments(document: Document, entry: CollectionEntry) -> int:
    """Return where the lines of an entry end: behind the comment beside it, and deeper indented ones below it."""
    over = document.line_end(entry.end)[1]
    deeper = rf"[ \t]{{{document.column(entry.start) + 1},}}#[^\r\n\x85\u2028\u2029]*(?:{LINE_BREAK}|\Z)"
    match = re.compile(rf"(?:(?:[ \t]*(?:{LINE_BREAK}))*{deeper})*").match(document.text, over)
    return match.end() if match else over


def without_entry_of_block(document: Document, path: NodePath) -> str:
    """Return the text without an entry that is not in brackets; a collection becomes `{}` or `[]` without its only one."""
    text, outer, entry = document.text, document.at(path[:-1]), document.entry(path)
    start, only = document.line_start(entry.start), len(outer.entries) == 1
    empty = ("[]" if outer.kind is NodeKind.LIST else "{}") if only else ""
    if text[start : entry.start].strip():  # behind a dash
        end = entry.end if only else outer.entries[path[-1] + 1].start
        assert not text[entry.end : end].strip()
        return text[: entry.start] + empty + text[end:]
    end = end_with_comments(document, entry)
    closing = re.search(rf"(?:{LINE_BREAK})\Z", text[start:end])
    if only and len(path) == 1:
        return text[:start] + empty + (closing[0] if closing else "") + text[end:]
    before = text[:start] if closing else re.sub(rf"(?:{LINE_BREAK})\Z", "", text[:start])  # the last line has no break
    if only:
        head = head_end(document, document.entry(path[:-1]))
        before = f"{before[:head]} {empty}{before[head:]}"
    return before + text[end:]


def has_lost_only(source: EditableFile, path: NodePath, after: EditableFile) -> bool:
    """Whether all bytes but those of the entry at `path` are there; in brackets, blanks and commas go with it."""
    document, left = source.document, after.document.text
    outer, entry = document.at(path[:-1]), document.entry(path)
    if after.bom != source.bom:
        return False
    if outer.is_block:
        return left == without_entry_of_block(document, path)
    text, behind = document.text, entry.end
    line = text[document.line_start(entry.start) : entry.start]
    rest = re.compile(r"[ \t]*,?[ \t]*(?:#[^\r\n\x85\u2028\u2029]*)?").match(text, entry.end)
    if not line.strip() and rest and rest.end() == document.line_end(entry.end)[0]:
        behind = rest.end()  # on lines of its own, with the comment beside it
    inside = left[outer.inner : len(left) - len(text) + outer.end]
    return (
        left.startswith(text[: outer.inner])
        and left.endswith(text[outer.end :])
        and re.sub(r"[\s,]", "", inside)
        == re.sub(r"[\s,]", "", text[outer.inner : entry.start] + text[behind : outer.end])
    )


@each_file
def test_removing_an_entry_removes_nothing_else(file: Path) -> None:
    source, entries = sample(file)
    for path, _ in entries:
        after = removed(source, path)
        assert after is None or has_lost_only(source, path, after), path


# -- generated files --------------------------------------------------------------------------------------------------


@st.composite
def blocks(draw: st.DrawFn, depth: int = 0) -> list[str]:
    """Return the lines of a mapping with comments, blank lines, odd indentation and all kinds of values."""
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
    """Return a file of such lines, with any line breaks, with or without a byte order mark and a last line break."""
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
    mappings = [path for path, entry in paths_below(source.document.root) if entry.value.kind is NodeKind.MAPPING]
    path = data.draw(st.sampled_from([(), *mappings]))
    name = data.draw(st.one_of(NAMES, TEXTS))
    assume(source.document.at(path).key(name) is None and name != "<<")
    edited = add_entry(source, path, [name], parse_value(_typed(data.draw(SCALARS)), "VALUE")).source
    assert remove_entry(edited, (*path, len(edited.document.at(path).entries) - 1)).source.text == source.text


@given(sources(), st.data())
def test_removing_an_entry_of_any_file_keeps_all_other_bytes(source: EditableFile, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([path for path, _ in paths_below(source.document.root)]))
    after = removed(source, path)
    assert after is None or has_lost_only(source, path, after)


@given(sources(), st.data())
def test_setting_and_resetting_restores_the_text(source: EditableFile, data: st.DataObject) -> None:
    scalars = [
        path
        for path, entry in paths_below(source.document.root)
        if entry.value.kind is NodeKind.SCALAR and not entry.value.is_absent
    ]
    assume(scalars)
    path = data.draw(st.sampled_from(scalars))
    node = source.document.at(path)
    written = source.document.text[node.start : node.end]
    try:
        old = parse_value(written, "VALUE")
    except InvalidInput:
        assume(False)
        raise
    edited = replace_value(source, path, parse_value(_typed(data.draw(SCALARS)), "VALUE")).source
    assert replace_value(edited, path, old).source.text == source.text


@given(TEXTS, TEXTS)
def test_any_text_can_be_a_value_and_a_key(value_text: str, key: str) -> None:
    source = parse_file(b"a: {b: 1}\nc: 2\n", "file.yml")
    value = parse_value(_typed(value_text), "VALUE")
    assert replace_value(source, (0, 0), value).source.document.at((0, 0)).text == value_text
    assert replace_value(source, (1,), value).source.document.at((1,)).text == value_text
    if key not in ("a", "b", "c", "<<"):
        for path in ((), (0,)):
            entry = add_entry(source, path, [key], value).source.document.at(path).entries[-1]
            assert entry.key is not None
            assert (entry.key.text, entry.value.text) == (key, value_text)


def _typed(data: object) -> str:
    """Return a value as a user types it."""
    if isinstance(data, str):
        return "'" + data.replace("'", "''") + "'"
    return "null" if data is None else str(data).lower()
