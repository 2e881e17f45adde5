"""Forty inventories that a YAML dump would spoil: every edit can be undone to the same bytes."""

import re
import shlex
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from ruamel.yaml import YAML

from tests.support.command_output import run_command
from tests.support.examples import MATRIX
from tests.support.paths import CASES
from tfprov.yamltext.syntax_errors import BREAK

INVENTORIES = sorted((CASES / "edit").glob("*.yml"))
NEW_LINE = "⏎"
"""A line break in the value of an edit."""


def edits(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yield every edit of a case, with its inverse."""
    for line in path.read_text().splitlines():
        if line.startswith("#$ "):
            edit, inverse = line.removeprefix("#$ ").split(" | ")
            yield words(edit), words(inverse)


def words(line: str) -> list[str]:
    return [word.replace(NEW_LINE, "\n") for word in shlex.split(line)]


def as_it_is(data: bytes) -> bytes:
    return data


def with_crlf(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def without_last_end(data: bytes) -> bytes:
    return data.rstrip(b" \n\t")


def with_mark(data: bytes) -> bytes:
    return b"\xef\xbb\xbf" + data


VARIANTS = (as_it_is, with_crlf, as_it_is, without_last_end, as_it_is, with_mark)


Edit = tuple[list[str], list[str], Callable[[bytes], bytes]]


def scenes(path: Path) -> Iterator[Edit]:
    """Yield every edit of a case, its inverse, and a form that the file has meanwhile: in `make matrix`, each in two."""
    for number, (edit, inverse) in enumerate(edits(path)):
        other = VARIANTS[1 + 2 * (number // 2 % 3)]
        for variant in dict.fromkeys((as_it_is, other) if MATRIX else (VARIANTS[number % 6],)):
            # A mark before `%` is an error to libyaml.
            yield edit, inverse, as_it_is if path.stem == "document-marks" and variant is with_mark else variant


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work beside a copy."""
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("TFPROV_INVENTORY", raising=False)


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_every_edit_can_be_undone(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failures = []
    for edit, inverse, variant in scenes(path):
        try:
            check_edit(variant(path.read_bytes()), edit, inverse, capsys)
        except AssertionError as error:
            failures.append(f"{path.name}, {variant.__name__}: {shlex.join(edit)}: {error}")
    assert failures == []


def check_edit(before: bytes, edit: list[str], inverse: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Apply an edit and its inverse to a copy of the file."""
    file = Path("inventory.yml")
    file.write_bytes(before)
    result = run_command(capsys, "inventory", edit[0], "-i", str(file), *edit[1:])
    assert (result.code, result.lines) == (0, ())
    after = file.read_bytes()
    assert after != before
    assert_only_the_edit_changed(before, after, edit, alias="by alias" in result.out)
    assert re.search(r"\(inventory\.yml:\d+", result.out)
    result = run_command(capsys, "inventory", inverse[0], "-i", str(file), *inverse[1:])
    assert (result.code, result.lines) == (0, ())
    assert file.read_bytes() == before


def assert_only_the_edit_changed(before: bytes, after: bytes, argv: list[str], *, alias: bool) -> None:
    """Compare with another parser than that of the edit, and compare the comments."""
    assert comments(before) <= comments(after)
    old, new = values(before), values(after)
    named = set(re.split(r"[^\w-]+", " ".join(argv)))
    changed = {path for path in {*old, *new} if old.get(path) != new.get(path)}
    assert changed
    descriptions = {path: f"{path} {old.get(path)} {new.get(path)}" for path in changed}
    assert alias or all(named & {*re.split(r"[^\w-]+", text)} for text in descriptions.values())


def comments(data: bytes) -> set[str]:
    return {line.strip() for line in BREAK.split(data.decode("utf-8-sig")) if line.lstrip().startswith("#")}


@lru_cache(maxsize=2)  # most edits of a file have the same bytes before them
def values(data: bytes) -> dict[str, str]:
    return dict(flattened(loaded(data)))


def loaded(data: bytes) -> Any:
    if b"\t" in data:  # which it does not read, behind a colon
        return yaml.load(data, Loader=yaml.CSafeLoader)
    reader = YAML(typ="rt", pure=True)
    reader.version = (1, 1)
    return reader.load(data.decode("utf-8-sig").removeprefix("%YAML 1.1\n").removeprefix("%YAML 1.1\r\n"))


def flattened(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        yield path, "mapping"
        for key, below in value.items():
            yield from flattened(below, f"{path}.{key}")
    elif isinstance(value, list):
        yield path, "list"
        for number, below in enumerate(value):
            yield from flattened(below, f"{path}.{number}")
    else:
        yield path, str(getattr(value, "value", value))


def test_at_least_forty_files_have_comments() -> None:
    with_comments = [path for path in INVENTORIES if re.search(r"^\s*#(?!\$)|\s#\s", path.read_text(), re.MULTILINE)]
    assert len(with_comments) >= 40
    assert all(list(edits(path)) for path in INVENTORIES if path.stem != "json")
