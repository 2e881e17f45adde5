"""What people wrote in a notebook stays when its task is removed, or the task stays."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.memory_cluster import make_context, run_up
from tests.support.reporters import RecordingReporter
from tests.support.runtime_bench import ProcessBench, container
from tfprov.engine.context import Context
from tfprov.engine.monitoring.kept_notebooks import written_by_people
from tfprov.engine.observe import observe
from tfprov.errors import HostError, TfprovError
from tfprov.hosts.base import OutsideFile, Pick, Tree
from tfprov.hosts.memory import MemoryRuntime
from tfprov.paths import shipped_directory
from tfprov.playbook.parse import read_playbook
from tfprov.playbook.player import PlayOptions
from tfprov.playbook.run import play

INVENTORY = """
all: {vars: {tfprov: {cluster: lab, command: [python], checkpoints: none, restart: never}}}
worker: {hosts: {h1: }}
notebook: {hosts: {h1: }, vars: {tfprov: {command: [jupyter, lab]}}}
"""
WRITTEN = {
    "a.ipynb": b"{}", "plots/b.ipynb": b"{1}", "helper.py": b"x = 1", "data.csv": b"1,2",
    ".ipynb_checkpoints/a.ipynb": b"{}", "venv/lib/site-packages/m.py": b"",
}  # fmt: skip
KEPT = {"a.ipynb": b"{}", "plots/b.ipynb": b"{1}", "helper.py": b"x = 1"}


class Lab:
    """A chief and a notebook, in which somebody has written."""

    def __init__(self, directory: Path) -> None:
        self.hosts: dict[str, MemoryRuntime] = {}
        self.report, self.target = RecordingReporter(), directory / "lab"
        self.context = self.loaded()
        run_up(self.context)
        self.host = self.hosts["h1"]
        self.run = observe(self.context).containers()[0].run
        self.to = self.target / "logs" / self.run / "notebook-0"
        for name, data in WRITTEN.items():
            self.host.places["notebook/0"].written[name] = data, 1.0

    def loaded(self, *settings: str) -> Context:
        made = make_context(INVENTORY, settings, self.hosts)
        home, logs = self.target.parent / "home", self.target / "logs"
        return replace(made, home=home, target=self.target, logs=logs, report=self.report, verify=lambda _: {})

    def play(self, verb: str, *settings: str, discard: bool = False) -> str:
        book = read_playbook(shipped_directory("playbooks") / f"{verb}.yml")
        try:
            play(self.loaded(*settings), book, PlayOptions(verb, discard=discard))
        except TfprovError as error:
            return str(error)
        return ""

    def kept(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.to)): path.read_bytes() for path in self.to.rglob("*") if path.is_file()}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_what_people_write_in_jupyter_is_kept_and_what_is_installed_or_hidden_is_not() -> None:
    kept = ["a/b.ipynb", "helper.py", "notes.md", "packages/x.py"]
    others = [
        "site-packages/m.py", "a/dist-packages/m.py", "__pycache__/m.py", ".local/x.py", "a/.ipynb_checkpoints/b.ipynb",
        ".hidden.md", "data.csv", "model.keras", "x.pyc",
    ]  # fmt: skip
    assert written_by_people([*others, *reversed(kept)]) == kept


def test_down_keeps_what_people_wrote(lab: Lab) -> None:
    assert lab.play("down") == ""
    assert lab.kept() == KEPT
    assert f"3 files of notebook/0 are kept in {lab.to}" in lab.report.notes
    assert {path.stat().st_mode & 0o777 for path in (lab.to, lab.to / "plots")} == {0o700}


def test_one_file_is_kept_as_well(lab: Lab) -> None:
    written = lab.host.places["notebook/0"].written
    written.clear()
    written["a.ipynb"] = b"{}", 1.0
    assert lab.play("down") == ""
    assert f"1 file of notebook/0 is kept in {lab.to}" in lab.report.notes


def test_an_up_that_replaces_the_notebook_keeps_it_too(lab: Lab) -> None:
    assert lab.play("up", '{"tfprov": {"env": {"NEW": "1"}}}') == ""
    assert "stop notebook/0" in str(lab.host.calls)
    assert lab.kept() == KEPT
    lab.host.writes("notebook/0", "a.ipynb", b"a new one of that name")
    assert lab.play("down") == ""
    assert lab.kept() == {"a.ipynb": b"a new one of that name"}
    (aside,) = lab.to.parent.glob("notebook-0.*Z")
    assert (aside / "a.ipynb").read_bytes() == b"{}"


def test_a_notebook_that_cannot_be_kept_is_not_removed(lab: Lab) -> None:
    lab.target.mkdir(exist_ok=True)
    (lab.target / "logs").mkdir()
    (lab.target / "logs" / lab.run).mkdir()
    lab.to.write_text("in the way")
    what = f"notebook/0 on h1 is kept, as its notebooks cannot be copied: {lab.to}: Not a directory"
    assert lab.play("down") == f"{what}; run this again, or remove it for good with `tfprov down --discard`"
    assert list(lab.host.places) == ["worker/0", "notebook/0"], "the chief is removed last"
    assert lab.play("down", discard=True) == ""
    assert not lab.host.places
    assert lab.to.read_text() == "in the way"


@pytest.mark.parametrize(
    ("work", "kept"),
    [("/code", ["a.ipynb", "helper.py", "srv/b.ipynb"]), ("/", ["code/a.ipynb", "srv/b.ipynb"])],
)
def test_files_of_a_container_have_absolute_paths(lab: Lab, work: str, kept: list[str]) -> None:
    """Python files outside of the working directory belong to programs that were installed."""
    place = lab.host.places["notebook/0"]

    class Container:
        def written(self, _task: str, pick: Pick) -> dict[str, OutsideFile]:
            names = ["/code/a.ipynb", "/code/helper.py", "/srv/b.ipynb", "/opt/tool/main.py"]
            return {name: OutsideFile(2, 1.0, lasting=False) for name in pick(names)}

        def tree(self, task: str, path: str) -> Tree:
            if path == "." and work == "/":
                raise HostError("h1", "it is the whole file system")
            return Tree(work if path == "." else path, place.tree("a.ipynb").files)

    lab.host.outside = Container()  # type: ignore[assignment]
    assert lab.play("down") == ""
    assert sorted(lab.kept()) == kept


def test_a_lost_host_keeps_its_notebook(lab: Lab) -> None:
    class Lost:
        def written(self, _task: str, _pick: Pick) -> dict[str, OutsideFile]:
            raise HostError("h1", "the connection was lost")

    lab.host.outside = Lost()  # type: ignore[assignment]
    assert lab.play("down").startswith(
        "notebook/0 on h1 is kept, as its notebooks cannot be copied: h1: the connection was lost"
    )


def test_the_code_of_a_process_is_not_written_by_people(tmp_path: Path) -> None:
    """Delivered files are older than the task."""
    bench = ProcessBench(tmp_path)
    bench.start(container())
    bench.write("worker/0", "mine.ipynb", b"{}")
    bench.runtime.stop("worker/0", 0)
    assert list(bench.runtime.outside.written("worker/0", written_by_people)) == ["mine.ipynb"]
