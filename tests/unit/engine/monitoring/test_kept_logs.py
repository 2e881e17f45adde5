"""What tasks printed stays, with the settings of their run, when they are removed."""

import gzip
import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.clock import ManualClock
from tests.support.memory_cluster import make_context, run_up
from tests.support.reporters import RecordingReporter
from tfprov.engine.checkpoints import manifest
from tfprov.engine.monitoring.kept_logs import KeptLogs, ended, kept_logs, lines_of
from tfprov.engine.observe import observe
from tfprov.errors import HostError, TfprovError, hide_secret
from tfprov.hosts.log_lines import Line, LogTimes
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.state import Observed, State
from tfprov.paths import shipped_directory
from tfprov.playbook.parse import read_playbook
from tfprov.playbook.player import PlayOptions
from tfprov.playbook.run import play

INVENTORY = """
all:
  vars: {tfprov: {cluster: lab, command: [python], restart: never, env: {API_TOKEN: plain, STEPS: "5ü"}}}
ps: {hosts: {h1: }}
worker: {hosts: {h2: }}
"""
SECRET = "correct horse battery staple"


class Lab:
    """A ps and a chief that train and print, and a verb to end that with."""

    def __init__(self, directory: Path, **hosts: MemoryRuntime) -> None:
        self.hosts = hosts
        self.report, self.target = RecordingReporter(), directory / "lab"
        made = make_context(INVENTORY, (), self.hosts)
        self.logs = self.target / "logs"
        self.context = replace(
            made, home=directory / "home", target=self.target, logs=self.logs, report=self.report, verify=lambda _: {}
        )

    def trains(self) -> str:
        """Start the cluster; return the id of its run."""
        run_up(self.context)
        return observe(self.context).containers()[0].run

    def play(self, verb: str, code: int | None = None) -> str:
        clock = ManualClock()
        if code is not None:
            clock.at(1.0, lambda: self.hosts["h2"].exits("worker/0", code))
        try:
            book = read_playbook(shipped_directory("playbooks") / f"{verb}.yml")
            play(replace(self.context, clock=clock), book, PlayOptions(verb))
        except TfprovError as error:
            return str(error)
        return ""

    def names(self, run: str) -> list[str]:
        return sorted(path.name for path in (self.logs / run).iterdir())


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.mark.parametrize("how", ["run, done", "run, failed", "down"])
def test_the_logs_of_all_tasks_and_the_settings_stay(lab: Lab, how: str) -> None:
    run = lab.trains()
    lab.hosts["h1"].prints("ps/0", "serving")
    lab.hosts["h2"].prints("worker/0", "step 1", "step 2 \udcff")
    lab.play(how.partition(",")[0], {"run, done": 0, "run, failed": 3, "down": None}[how])
    assert observe(lab.context).containers() == []
    assert lab.names(run) == ["ps-0.log", "settings.json", "worker-0.log"]
    assert {path.stat().st_mode & 0o777 for path in (lab.logs / run).iterdir()} == {0o600}
    kept = kept_logs(lab.logs)
    assert kept is not None
    assert (kept[0].name, {task: lines_of(path, 1) for task, path in kept[1].items()}) == (
        run,
        {"ps/0": ["serving"], "worker/0": ["step 2 ?"]},
    )
    assert f"logs are kept in {lab.logs / run}" in lab.report.notes
    text = (lab.logs / run / "settings.json").read_text()
    assert '\n     "STEPS": "5ü"' in text, "people read it, too"
    settings = json.loads(text)
    assert (settings["run"], settings["cluster"]) == (run, "lab")
    assert set(settings) == {"run", "cluster", "roles", "tasks"}
    chief = settings["tasks"]["worker/0"]
    assert chief.pop("spec")["env"] == {"API_TOKEN": "******", "STEPS": "5ü"}
    ended = {"run, done": "exited with code 0", "run, failed": "exited with code 3", "down": "stopped"}[how]
    assert {name: chief[name] for name in ("host", "ended", "tensorflow")} == {
        "host": "h2", "ended": ended, "tensorflow": ""
    }  # fmt: skip
    assert set(chief) == {"host", "ended", "tensorflow", "started", "finished"}


def test_a_start_that_failed_leaves_its_logs(lab: Lab) -> None:
    lab.hosts["h2"].silent.add("worker/0")
    assert "worker/0" in lab.play("up")
    assert observe(lab.context).containers() == []
    (run,) = lab.logs.iterdir()
    assert lab.names(run.name) == ["ps-0.log", "settings.json", "worker-0.log"]


def test_the_log_of_a_task_that_was_undone_says_how_and_when_it_ended(lab: Lab) -> None:
    """And the log of the next container of the task in the same run does not take its place."""
    lab.hosts["h2"].now = 60.0
    run = lab.trains()
    lab.hosts["h2"].prints("worker/0", "the disk is on fire")
    lab.hosts["h2"].now = 120.0
    lab.hosts["h2"].exits("worker/0", 3)
    KeptLogs(lab.context, observe(lab.context)).keep("worker/0", "h2")
    path = lab.logs / run / "worker-0.log"
    assert ended("worker/0", path) == (
        f"worker/0 is not there any more (exited with code 3, 1970-01-01 00:02:00 UTC); its log is kept in {path}:"
    )
    KeptLogs(lab.context, observe(lab.context)).keep("worker/0", "h2")
    assert lab.names(run) == ["settings.json", "worker-0.log"], "the same container"
    lab.hosts["h2"].now = 180.0
    lab.hosts["h2"].remove("worker/0")
    lab.hosts["h2"].start(lab.context.wanted[1], run)
    lab.hosts["h2"].prints("worker/0", "again")
    logs = KeptLogs(lab.context, observe(lab.context))
    logs.keep("worker/0", "h2")
    settings, aside, newest = sorted((lab.logs / run).iterdir())
    assert (settings.name, newest.read_text(), aside.read_text()) == (
        "settings.json",
        "again\n",
        "the disk is on fire\n",
    )
    assert re.fullmatch(r"worker-0\.\d{8}T\d{6}Z\.log", aside.name)
    kept = kept_logs(lab.logs, "worker/0")
    assert kept is not None
    assert kept[1] == {"worker/0": newest}
    assert "(stopped, " in ended("worker/0", newest)
    (lab.logs / run / "settings.json").unlink()
    assert "(removed, 20" in ended("worker/0", newest), "one of an earlier version: when it was kept"


def test_a_task_that_was_moved_has_a_log_on_each_of_its_hosts(lab: Lab) -> None:
    run = lab.trains()
    lab.hosts["h1"].puts(Observed("worker/0", "h1", State.EXITED, {}, run=run, exit_code=1))
    logs = KeptLogs(lab.context, observe(lab.context))
    for host in ("h1", "h2"):
        logs.keep("worker/0", host)
    assert lab.names(run) == ["settings.json", "worker-0.log", "worker-0@h1.log"]


def test_a_chief_that_is_kept_has_its_log_kept_too(lab: Lab) -> None:
    run = lab.trains()
    lab.hosts["h2"].writes("worker/0", "my.keras", b"weights")
    assert "is kept" in lab.play("down")
    assert [one.task for one in observe(lab.context).containers()] == ["worker/0"]
    assert lab.names(run) == ["ps-0.log", "settings.json", "worker-0.log"]


@pytest.mark.parametrize(("size", "name"), [(1024 * 1024, "worker-0.log"), (1024 * 1024 + 1, "worker-0.log.gz")])
def test_a_log_above_a_mebibyte_is_compressed(lab: Lab, size: int, name: str) -> None:
    run = lab.trains()
    lab.hosts["h2"].prints("worker/0", "x" * (size - 1))
    for left in (lab.logs / run / ".worker-0.log", lab.logs / run / ".worker-0.log.gz"):
        left.parent.mkdir(parents=True, exist_ok=True)
        left.touch(mode=0o644)
    KeptLogs(lab.context, observe(lab.context)).keep("worker/0", "h2")
    assert lab.names(run) == ["settings.json", name]
    assert (lab.logs / run / name).stat().st_mode & 0o777 == 0o600, "also what a run that was killed has left"


def test_a_large_log_is_compressed_and_secrets_are_masked(lab: Lab) -> None:
    hide_secret(SECRET)
    run = lab.trains()
    lab.hosts["h2"].prints("worker/0", *("x" * 1000 for _ in range(1100)), f"token {SECRET}!")
    lab.hosts["h1"].prints("ps/0", SECRET)
    logs = KeptLogs(lab.context, observe(lab.context))
    logs.keep("worker/0", "h2")
    logs.keep("ps/0", "h1")
    assert lab.names(run) == ["ps-0.log", "settings.json", "worker-0.log.gz"]
    assert (lab.logs / run / "ps-0.log").read_text() == "******\n"
    assert gzip.decompress((lab.logs / run / "worker-0.log.gz").read_bytes()).endswith(b"\ntoken ******!\n")
    lab.hosts["h2"].places["worker/0"].log[:] = [Line("short")]
    logs.keep("worker/0", "h2")
    assert lab.names(run) == ["ps-0.log", "settings.json", "worker-0.log"], "a later one takes its place"
    (lab.logs / run / "worker-0.log").rename(lab.logs / run / "worker-0.log.gz")
    place = lab.hosts["h2"].places["worker/0"]
    place.observed = replace(place.observed, started_at=77.0)
    KeptLogs(lab.context, observe(lab.context)).keep("worker/0", "h2")
    assert [re.sub(r"\d{8}T\d{6}Z", "TIME", name) for name in lab.names(run)] == [
        "ps-0.log", "settings.json", "worker-0.TIME.log.gz", "worker-0.log"
    ]  # fmt: skip


class Unreadable(MemoryRuntime):
    """A host that has lost its logs."""

    def logs(
        self, task: str, *, tail: int | None = None, follow: bool = False, times: LogTimes | None = None
    ) -> Iterator[str]:
        raise HostError(self.host, "the engine lost it")


def test_a_log_that_cannot_be_kept_holds_nothing_up(tmp_path: Path) -> None:
    lab = Lab(tmp_path, h2=Unreadable("h2"))
    lab.trains()
    lab.play("down")
    assert observe(lab.context).containers() == []
    assert "the log of worker/0 is not kept: h2: the engine lost it" in lab.report.notes


def test_a_file_in_the_way_is_reported(lab: Lab) -> None:
    run = lab.trains()
    lab.target.mkdir()
    lab.logs.write_text("mine")
    lab.play("down")
    unkept = [note for note in lab.report.notes if "is not kept" in note]
    assert unkept == [
        f"the log of {task} is not kept: {lab.logs / run}: Not a directory" for task in ("worker/0", "ps/0")
    ]
    assert lab.logs.read_text() == "mine"


def test_the_newest_run_is_located_and_other_directories_are_not_taken_for_one(lab: Lab) -> None:
    assert kept_logs(None) is None
    assert kept_logs(lab.logs) is None
    for run, tasks in (
        ("20260101T000000Z-aaaaaa", "ps-0 worker-0"),
        ("20260102T000000Z-bbbbbb", "ps-0"),
        ("train", "x-0"),
    ):
        (lab.logs / run).mkdir(parents=True)
        for task in tasks.split():
            (lab.logs / run / f"{task}.log").write_text("")
    newest, of_worker = kept_logs(lab.logs), kept_logs(lab.logs, "worker/0")
    assert newest is not None
    assert of_worker is not None
    assert (newest[0].name, list(newest[1])) == ("20260102T000000Z-bbbbbb", ["ps/0"])
    assert (of_worker[0].name, list(of_worker[1])) == ("20260101T000000Z-aaaaaa", ["worker/0"])
    assert kept_logs(lab.logs, "worker/7") is None
    assert manifest.read(lab.target) is None, "a directory with nothing but logs can be gathered into"


@pytest.mark.parametrize("damage", ["cut", "flipped", "no gzip"])
def test_a_damaged_log_is_shown_up_to_the_damage(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "worker-0.log.gz"
    dice = random.Random(1)
    whole = gzip.compress("".join(f"line {n} {dice.random()}\n" for n in range(5000)).encode())
    half = len(whole) // 2
    path.write_bytes({"cut": whole[:half], "flipped": whole[:half] + b"\xff" * 100, "no gzip": b"text"}[damage])
    lines = list(lines_of(path, None))
    assert lines[-1] == f"… the rest is missing: {path} is damaged"
    assert (damage == "no gzip") == (len(lines) == 1)
    assert all(line.startswith("line ") for line in lines[:-1])
