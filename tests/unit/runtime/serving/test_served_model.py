"""Which version the model server loads, and what it answers while there is none."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.permissions import forbidden
from tfprov.runtime.serving.model import Loaded, ServedModel, _values
from tfprov.runtime.serving.rest import BadRequest
from tfprov.runtime.serving.versions import newest, versions


def write_version(base: Path, name: str, content: str = "whole") -> None:
    (base / name / "variables").mkdir(parents=True)
    if content:
        (base / name / "saved_model.pb").write_text(content)


def load(version: int, path: Path) -> Loaded:
    """Load a model that is damaged unless its file says otherwise."""
    content = (path / "saved_model.pb").read_text()
    if content != "whole":
        raise ValueError(f"cannot parse\n{content}")
    return Loaded(version, content)


def served(base: Path) -> tuple[ServedModel, list[str]]:
    log: list[str] = []
    return ServedModel("digits", base, log.append, load), log


@pytest.mark.parametrize(
    ("output", "value"),
    [(b"yes", b"yes"), (np.float32(0.5), 0.5), (np.array([1, 2]), [1, 2]), (np.array([b"a"], object), [b"a"])],
)
def test_outputs_of_every_rank_are_values(output: object, value: object) -> None:
    assert (
        _values(SimpleNamespace(numpy=lambda: output, shape=SimpleNamespace(rank=getattr(output, "ndim", 0)))) == value
    )


def test_versions_are_complete_numbered_directories(tmp_path: Path) -> None:
    assert versions(tmp_path / "export") == {}
    for name in ("3", "0012", ".export-x", "temp-4", "\u0665"):
        write_version(tmp_path, name)
    write_version(tmp_path, "99", content="")
    (tmp_path / "100").write_text("a file")
    assert sorted(versions(tmp_path)) == [3, 12]
    assert newest(versions(tmp_path)) == 12


def test_a_newer_version_replaces_the_older_one(tmp_path: Path) -> None:
    model, log = served(tmp_path / "export")
    assert not model.refresh()
    write_version(tmp_path / "export", "1")
    assert model.refresh()
    assert not model.refresh()
    write_version(tmp_path / "export", "2")
    assert model.refresh()
    assert log == ["serves version 1 of digits", "serves version 2 of digits"]
    assert model.answer("GET", "/v1/models/digits", b"") == {
        "model_version_status": [
            {"version": "2", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        ]
    }


def test_a_damaged_version_is_reported_once_and_the_one_before_it_stays(tmp_path: Path) -> None:
    model, log = served(tmp_path)
    write_version(tmp_path, "1")
    write_version(tmp_path, "2", "torn")
    (tmp_path / "1").rename(tmp_path / "0")
    assert not model.refresh()
    assert not model.refresh()
    assert log == ["cannot load version 2 of digits: cannot parse torn"]
    (tmp_path / "2/saved_model.pb").write_text("whole")
    assert model.refresh()
    assert model.failed == {}


def test_the_version_that_is_served_stays_while_a_newer_one_is_damaged(tmp_path: Path) -> None:
    model, _ = served(tmp_path)
    write_version(tmp_path, "1")
    model.refresh()
    write_version(tmp_path, "2", "torn")
    assert not model.refresh()
    assert model.loaded is not None
    assert model.loaded.version == 1
    states: Any = model.answer("GET", "/v1/models/digits", b"")["model_version_status"]
    assert [(entry["version"], entry["state"]) for entry in states] == [("2", "END"), ("1", "AVAILABLE")]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/models/digits", 404),
        ("POST", "/v1/models/digits:predict", 404),
        ("GET", "/v1/models/other", 404),
        ("GET", "/", 404),
    ],
)
def test_without_a_version_each_answer_is_not_found(tmp_path: Path, method: str, path: str, status: int) -> None:
    model, _ = served(tmp_path)
    with pytest.raises(BadRequest) as refusal:
        model.answer(method, path, b"{}")
    assert refusal.value.status == status


def test_requests_for_other_versions_and_methods_are_refused(tmp_path: Path) -> None:
    model, _ = served(tmp_path)
    write_version(tmp_path, "5")
    model.refresh()
    for method, path, status in (
        ("POST", "/v1/models/digits/versions/4:predict", 404),
        ("GET", "/v1/models/digits:predict", 405),
        ("GET", "/v1/models/digits/versions/4", 404),
        ("POST", "/v1/models/digits:predict", 400),  # the model has no signature
    ):
        with pytest.raises(BadRequest) as refusal:
            model.answer(method, path, b'{"instances": [1]}')
        assert refusal.value.status == status


@pytest.mark.parametrize("unread", ["", "2"], ids=["the directory", "a version in it"])
def test_what_is_served_stays_while_the_versions_cannot_be_read(tmp_path: Path, unread: str) -> None:
    model, log = served(tmp_path)
    write_version(tmp_path, "1")
    assert model.refresh()
    write_version(tmp_path, "2")
    with forbidden(tmp_path / unread):
        assert not model.refresh()
        assert not model.refresh()
    assert model.loaded is not None
    assert model.loaded.version == 1
    at, then = tmp_path / "2/saved_model.pb" if unread else tmp_path, "looks again for versions of digits"
    assert log[1:] == [f"{at} cannot be read: Permission denied; {then}"]
    assert model.refresh()
    with forbidden(tmp_path):
        assert not model.refresh()
    assert log[2:] == ["serves version 2 of digits", f"{tmp_path} cannot be read: Permission denied; {then}"]
