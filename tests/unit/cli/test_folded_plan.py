"""`plan` folds what is alike for people; `-v` and `--json` have all of it."""

import json
from pathlib import Path

import pytest

from tests.support.command_output import run_command
from tests.support.ports import free_ports

INVENTORY = """
all: {vars: {tfprov: {cluster: many, command: [python], port: PORT}}}
ps: {hosts: {localhost: }}
worker: {hosts: {localhost: }, vars: {tfprov: {tasks_per_host: 12}}}
"""


def test_many_tasks_are_one_line_unless_more_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(INVENTORY.replace("PORT", str(free_ports(13))))

    def plan(*options: str) -> str:
        result = run_command(capsys, "plan", "-i", str(inventory), *options)
        assert (result.code, result.lines) == (0, ())
        return result.out

    title, ps, workers = plan().splitlines()
    assert title == "many: 1 ps, 12 workers on 1 host"
    assert ps.split()[:2] == ["start", "ps/0"]
    assert workers.split() == ["start", "worker/0-11", "on", "localhost", "(not", "there)"]
    whole = [line.split()[1] for line in plan("-v").splitlines() if line.startswith("  start")]
    assert whole == ["ps/0", *(f"worker/{n}" for n in range(12))]
    assert len(json.loads(plan("--json"))["actions"]) == 13
