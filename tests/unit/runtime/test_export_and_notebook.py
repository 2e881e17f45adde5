"""Exported models appear whole or not at all; a notebook's token is private and survives a restart."""

import stat
import tempfile
from collections.abc import Container
from pathlib import Path
from typing import NoReturn

import pytest

from tfprov.runtime import notebook
from tfprov.runtime.export import export_model


class Model:
    """Writes itself as Keras 3 does."""

    def __init__(self, content: str) -> None:
        self.content = content

    def export(self, path: str) -> None:
        Path(path, "saved_model.pb").write_text(self.content)
        if self.content == "fails":
            raise OSError("disk full")


def test_an_export_is_a_numbered_directory_that_others_can_read(tmp_path: Path) -> None:
    path = export_model(Model("one"), 3, tmp_path / "export")
    assert path == tmp_path / "export/3"
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert [entry.name for entry in path.parent.iterdir()] == ["3"]


def test_an_export_of_the_same_version_replaces_it(tmp_path: Path) -> None:
    export_model(Model("one"), 3, tmp_path)
    export_model(Model("two"), 3, tmp_path)
    assert (tmp_path / "3/saved_model.pb").read_text() == "two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["3"]


def test_an_export_that_fails_leaves_nothing_and_keeps_the_version_before_it(tmp_path: Path) -> None:
    export_model(Model("one"), 3, tmp_path)
    with pytest.raises(OSError, match="disk full"):
        export_model(Model("fails"), 3, tmp_path)
    with pytest.raises(ValueError, match="0 or more, not -1"):
        export_model(Model("one"), -1, tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["3"]
    assert (tmp_path / "3/saved_model.pb").read_text() == "one"


def test_an_export_removes_what_killed_ones_left_and_puts_the_version_back_that_they_moved_away(tmp_path: Path) -> None:
    for left in (".export-a1", ".replaced-b2/3", ".replaced-c3/4", ".replaced-d4", "4"):
        (tmp_path / left).mkdir(parents=True)
        (tmp_path / left / "saved_model.pb").write_text(left)
    (tmp_path / ".replaced-d4/saved_model.pb").unlink()
    export_model(Model("new"), 5, tmp_path)
    versions = {path.name: (path / "saved_model.pb").read_text() for path in tmp_path.iterdir()}
    assert versions == {"3": ".replaced-b2/3", "4": "4", "5": "new"}


def test_an_export_replaces_the_version_that_a_killed_one_moved_away(tmp_path: Path) -> None:
    (tmp_path / ".replaced-b2/3").mkdir(parents=True)
    export_model(Model("new"), 3, tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["3"]
    assert (tmp_path / "3/saved_model.pb").read_text() == "new"


def test_a_notebooks_token_is_new_private_and_kept_by_a_restart(tmp_path: Path) -> None:
    first = notebook.token(tmp_path, "")
    file = tmp_path / notebook.TOKEN_FILE
    assert len(first) >= 40
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (first, 0o600)
    assert notebook.token(tmp_path, "") == first
    assert notebook.token(tmp_path, "chosen") == "chosen"
    other = tmp_path / "other"
    other.mkdir()
    assert notebook.token(other, "") != first


def test_a_file_that_others_can_read_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / notebook.TOKEN_FILE
    file.write_bytes(b"\xff")
    file.chmod(0o644)
    fresh = notebook.token(tmp_path, "")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (fresh, 0o600)


class Became(Exception):
    """The process would be Jupyter now."""


class Jupyter:
    """Stands for an installed Jupyter; `environment` and `command` are those that it was started with."""

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}
        self.command: list[str] = []

    def start(self, *argv: str, packages: Container[str] = ("jupyterlab", "jupyter_core"), **environ: str) -> None:
        """Start it where `packages` are installed; raises Became unless tfprov ends before."""
        notebook.main(argv, environ, lambda name: name in packages, self._become)

    def _become(self, _path: str, command: list[str], environ: dict[str, str]) -> NoReturn:
        self.environment, self.command = environ, command
        raise Became


@pytest.fixture
def jupyter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jupyter:
    monkeypatch.chdir(tmp_path)
    return Jupyter()


def test_a_notebook_in_a_directory_without_its_token_has_the_one_that_was_chosen(
    tmp_path: Path, jupyter: Jupyter
) -> None:
    (tmp_path / notebook.TOKEN_FILE).mkdir()  # no file can be written there
    with pytest.raises(Became):
        jupyter.start(**{notebook.VARIABLE: "chosen", "HOME": "/no/such"})
    assert jupyter.environment == {notebook.VARIABLE: "chosen", "HOME": tempfile.gettempdir()}


def test_a_notebook_that_cannot_write_its_token_ends_with_one_line(
    tmp_path: Path, jupyter: Jupyter, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / notebook.TOKEN_FILE).mkdir()
    with pytest.raises(SystemExit) as ended:
        jupyter.start()
    assert (ended.value.code, jupyter.environment) == (1, {})
    fix = "set JUPYTER_TOKEN in `env` of the notebook"
    assert capsys.readouterr().err == f"tfprov: error: no token can be written to {tmp_path}: Is a directory; {fix}\n"


def test_a_home_that_can_be_written_to_stays(tmp_path: Path, jupyter: Jupyter) -> None:
    with pytest.raises(Became):
        jupyter.start(HOME=str(tmp_path))
    token = (tmp_path / notebook.TOKEN_FILE).read_text()
    assert jupyter.environment == {notebook.VARIABLE: token, "HOME": str(tmp_path)}


@pytest.mark.parametrize(
    ("package", "verb"), [("jupyterlab", "lab"), ("notebook", "notebook"), ("jupyter_server", "server")]
)
def test_every_server_of_jupyter_has_its_address_in_options_that_all_versions_know(
    package: str, verb: str, jupyter: Jupyter
) -> None:
    """Version 6 of the package notebook has no `ServerApp`, and listened on its default port."""
    with pytest.raises(Became):
        jupyter.start("--ip=10.0.0.1", "--port=9000", "--ServerApp.base_url=/x", packages=(package, "jupyter_core"))
    assert jupyter.command[1:8] == [
        *("-m", "jupyter", verb, "--no-browser", "--ip=10.0.0.1", "--port=9000", "--port-retries=0")
    ]
    assert jupyter.command[-1] == "--ServerApp.base_url=/x"
