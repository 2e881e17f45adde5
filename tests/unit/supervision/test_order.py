"""What a supervisor is started with: passwords go through its pipe only, and nothing secret is stored."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.run_history import description, run_id
from tfprov.errors import TfprovError
from tfprov.history.run_dir import RunDir
from tfprov.supervision.launch import last_words, launch
from tfprov.supervision.order import SupervisorOrder

ORDER = SupervisorOrder(
    "/work",
    ["lab.yml"],
    5.0,
    extra=["steps=5", "db_password=letmein-123", "@vars.yml", "@token.yml"],
    vault_files=["/keys/vault"],
    discard=True,
    may_start=True,
    secrets=[("default", b"\xffopen sesame")],
)


def directory(tmp_path: Path) -> RunDir:
    run = RunDir(tmp_path / run_id(1))
    run.path.mkdir(parents=True)
    return run


def test_an_order_comes_through_the_pipe_as_it_was() -> None:
    read = SupervisorOrder.from_json(ORDER.to_json())
    assert (read.extra, read.discard, read.may_start, read.begun) == (ORDER.extra, True, True, 5.0)
    assert read.secrets == (("default", b"\xffopen sesame"),)
    assert "sesame" not in repr(ORDER)


def test_an_order_has_what_run_was_to_do_and_one_of_an_earlier_version_does_not() -> None:
    options = {"sources": (), "partial": True, "resume": True, "discard": True}
    order = replace(SupervisorOrder.of_options(options, ["lab.yml"], 5.0), drain=True, only_running=True)
    read = SupervisorOrder.from_json(order.to_json())
    assert (read.partial, read.resume, read.discard, read.drain, read.only_running) == (True,) * 5
    earlier = SupervisorOrder.from_json(json.dumps({"directory": "/work", "sources": ["lab.yml"], "begun": 5.0}))
    assert (earlier.partial, earlier.resume, earlier.drain, earlier.only_running) == (False,) * 4


def test_a_stored_order_has_no_secrets_and_says_so(tmp_path: Path) -> None:
    run = directory(tmp_path)
    replace(ORDER, drain=True, partial=True).store(run)
    text = run.supervisor_file.read_text()
    assert "letmein" not in text
    assert "sesame" not in text
    assert run.supervisor_file.stat().st_mode & 0o777 == 0o600
    stored = SupervisorOrder.stored(run)
    assert stored is not None
    assert (list(stored.extra), stored.left_out) == (["steps=5", "@vars.yml", "@token.yml"], True)
    assert (stored.may_start, stored.drain, stored.secrets) == (False, False, ())
    assert (stored.discard, stored.partial) == (True, True)
    replace(ORDER, extra=["tfprov.env.WANDB_API_KEY=letmein"]).store(run)
    assert "letmein" not in run.supervisor_file.read_text()
    replace(ORDER, extra=["steps=5"]).store(run)
    assert (again := SupervisorOrder.stored(run)) is not None
    assert not again.left_out


def test_two_processes_store_their_orders_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = directory(tmp_path)
    flush, others = os.fsync, iter([lambda: replace(ORDER, extra=["steps=6"]).store(run)])

    def fsync(descriptor: int) -> None:
        next(others, lambda: None)()
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    ORDER.store(run)
    assert (stored := SupervisorOrder.stored(run)) is not None
    assert list(stored.extra) == ["steps=5", "@vars.yml", "@token.yml"]
    assert [path.name for path in run.path.iterdir()] == ["supervisor.json"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": 1}', '{"schema": 99}', "\x00"])
def test_a_damaged_order_is_like_none(tmp_path: Path, content: str) -> None:
    run = directory(tmp_path)
    run.supervisor_file.write_text(content)
    assert SupervisorOrder.stored(run) is None
    assert SupervisorOrder.stored(RunDir(tmp_path / "nowhere")) is None


def test_a_supervisor_that_cannot_begin_says_why(tmp_path: Path) -> None:
    run = directory(tmp_path / "state")
    run.write(run.run_file, description())
    (tmp_path / "json.py").write_text("raise SystemExit('a module of the user')")
    order = SupervisorOrder(str(tmp_path), [str(tmp_path / "missing.yml")], 0.0)
    launched = launch(run, order)
    launched.begin()
    launched.process.wait(60)
    assert launched.has_refused
    with pytest.raises(TfprovError, match=rf"the supervisor of {run.id} did not start: .*missing.yml") as caught:
        launched.wait()
    assert caught.value.exit_code == 2
    assert "user" not in last_words(run)
    assert json.loads(run.supervisor_file.read_text())["sources"] == [str(tmp_path / "missing.yml")]
