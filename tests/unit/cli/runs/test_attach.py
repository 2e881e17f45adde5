"""`tfprov attach` to a run without a supervisor: with which options the new one is started."""

import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.clock import ManualClock
from tests.support.run_history import record_run, run_id, scripted
from tfprov.cli.output import Printer
from tfprov.cli.runs import attach
from tfprov.cli.runs import supervise as supervisor
from tfprov.errors import TfprovError, Usage
from tfprov.history.reader import RunHistory
from tfprov.history.run_dir import RunDir
from tfprov.supervision.order import SupervisorOrder

NO_OPTIONS: dict[str, Any] = {
    "sources": (),
    "extra": (),
    "ask_vault_pass": False,
    "vault_ids": (),
    "vault_files": (),
}


class Launched:
    def __init__(self, *, has_refused: bool = False) -> None:
        self.has_refused = has_refused

    def begin(self) -> None:
        pass

    def wait(self) -> None:
        pass


Supervise = Callable[..., SupervisorOrder]


@pytest.fixture
def supervise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Supervise:
    """Return a function that returns the order of the new supervisor."""
    run = RunDir(tmp_path / run_id(1))
    run.path.mkdir(parents=True)
    orders: list[SupervisorOrder] = []

    def launch(_directory: RunDir, order: SupervisorOrder) -> Launched:
        orders.append(order)
        return Launched()

    monkeypatch.chdir(tmp_path)

    def started(stored: SupervisorOrder | None = None, **options: Any) -> SupervisorOrder:
        if stored is not None:
            stored.store(run)
        named = NO_OPTIONS | options
        attach._supervise(run, attach._order(run, named), named, launch)  # noqa: SLF001
        return orders[-1]

    return started


def test_the_inventory_of_a_run_without_an_order_is_that_of_the_environment(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TFPROV_INVENTORY", raising=False)
    assert supervise().sources == ("inventory.yml",)
    monkeypatch.setenv("TFPROV_INVENTORY", "/lab/lab.yml")
    assert (supervise().sources, supervise().directory) == (("/lab/lab.yml",), os.getcwd())  # noqa: PTH109


def test_files_of_the_options_are_those_of_the_working_directory(supervise: Supervise, tmp_path: Path) -> None:
    stored = SupervisorOrder("/of/run", ["lab.yml"], 1.0, extra=["@lab-vars.yml"])
    assert (supervise(stored).sources, supervise(stored).extra) == (["lab.yml"], ["@lab-vars.yml"])
    (tmp_path / "other.yml").touch()
    (tmp_path / "vars.yml").touch()
    order = supervise(stored, sources=("other.yml", "node1,node2"), extra=("@vars.yml", "steps=5"))
    assert (order.directory, order.begun) == ("/of/run", 1.0)
    assert order.sources == (f"{tmp_path}/other.yml", "node1,node2")
    assert order.extra == (f"@{tmp_path}/vars.yml", "steps=5")


def test_the_inventory_of_another_cluster_is_not_taken_for_that_of_the_run(tmp_path: Path) -> None:
    """Its cluster was followed, and taken down at its end, under the id of the run."""
    (tmp_path / "inventory.yml").write_text(
        "all: {vars: {ansible_connection: local, tfprov: {cluster: other, code: src, command: [python, train.py]}}}\n"
        "worker: {hosts: {localhost: }}\n"
    )
    run = RunDir(tmp_path / "clusters" / "lab" / "runs" / run_id(1))
    order = SupervisorOrder(str(tmp_path), [f"{tmp_path}/inventory.yml"], 1.0)
    with pytest.raises(Usage, match=r"inventory.yml has the cluster other, and the run .* is of lab; .*attach -i FILE"):
        supervisor._supervise(run, order, {})  # noqa: SLF001


@pytest.mark.parametrize(
    ("verbs", "only_running", "line"),
    [
        (["up", "wait"], True, r", which `up` began: .* takes the cluster down at the end of the training$"),
        (["up", "run"], False, r" any more: a new supervisor goes on with it$"),
    ],
)
def test_who_goes_on_with_a_run_takes_down_what_up_began_at_the_end_of_the_training_only(
    tmp_path: Path, verbs: list[str], only_running: bool, line: str
) -> None:
    run = RunDir(tmp_path / run_id(1))
    run.path.mkdir()
    run.events.write_text("".join(f'{{"event": "verb_started", "verb": "{verb}"}}\n' for verb in verbs))
    order = attach._order(run, NO_OPTIONS)  # noqa: SLF001
    assert order.only_running is only_running
    assert re.match(f"nobody follows {run.id}{line}", attach._taking_over(run, order))  # noqa: SLF001
    order.store(run)
    assert attach._order(run, NO_OPTIONS).only_running is only_running, "also for the supervisor after this one"  # noqa: SLF001


def test_what_a_new_supervisor_refuses_is_the_error_of_attach(tmp_path: Path) -> None:
    run = record_run(tmp_path / "lab" / "runs", 1, scripted())
    (run.path / "supervisor.log").write_text("error: run A is over: the cluster has run B\n")
    record = RunHistory(tmp_path, tmp_path / "runs.sqlite").load(run.id)
    with pytest.raises(Usage, match=r"^run A is over: the cluster has run B$"):
        attach._exit_code(record, Launched(has_refused=True))  # noqa: SLF001
    with pytest.raises(TfprovError, match=r"the process that followed .* has ended: .*; `tfprov attach` goes on"):
        attach._exit_code(record, Launched())  # noqa: SLF001


def test_a_quiet_run_has_a_live_line_that_waits_for_output_and_asks_no_host(tmp_path: Path) -> None:
    run = record_run(tmp_path / "lab" / "runs", 1, iter(()))
    record = RunHistory(tmp_path, tmp_path / "runs.sqlite").load(run.id)
    clock, lines = ManualClock(), list[str]()

    def sleep(_seconds: float) -> None:
        clock.sleep(6)
        lines.append(printer.under_way.text(clock.now()))

    with Printer(live=True, out=io.StringIO(), now=clock.now) as printer:
        attach._follow(printer, record, sleep)  # noqa: SLF001
    assert lines == ["waiting for output · 6s"]


def test_a_damaged_run_is_not_the_one_that_goes_on(tmp_path: Path) -> None:
    runs, history = tmp_path / "lab" / "runs", RunHistory(tmp_path, tmp_path / "runs.sqlite")
    record_run(runs, 1, scripted()).run_file.write_text("{")
    record_run(runs, 2, scripted(), end={})
    assert attach._newest(history, None) == ""  # noqa: SLF001
    going = record_run(runs, 3, scripted())
    record_run(runs, 4, scripted()).run_file.write_text("{")
    assert attach._newest(history, None) == going.id  # noqa: SLF001


def _events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_the_last_event_is_the_error_when_there_is_no_such_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    done = CliRunner().invoke(attach.attach_command, ["nosuch", "--json"])
    assert isinstance(done.exception, Usage)
    [event] = _events(done.stdout)
    assert (event["event"], event["message"], event["exit_code"]) == ("error", str(done.exception), 2)


def test_the_last_event_after_ctrl_c_is_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def follow(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(attach, "_follow", follow)
    run = record_run(tmp_path / "tfprov" / "clusters" / "lab" / "runs", 1, scripted(), end={})
    done = CliRunner().invoke(attach.attach_command, [run.id, "--json"])
    assert [event["event"] for event in _events(done.stdout)] == ["note", "interrupted"]
    plain = CliRunner().invoke(attach.attach_command, [run.id])
    assert f"detached: {run.id} goes on" in plain.output
