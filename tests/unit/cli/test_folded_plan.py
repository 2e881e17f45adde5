"""`plan` folds what is alike for people; `-v` and `--json` have all of it."""

import json
import os
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.ports import free_ports

INVENTORY = """
all: {vars: {tfprov: {cluster: many, command: [python], port: PORT}}}
ps: {hosts: {localhost: }}
worker: {hosts: {localhost: }, vars: {tfprov: {tasks_per_host: 12}}}
"""


@pytest.fixture
def many(tmp_path: Path) -> CommandLine:
    line = CommandLine(tmp_path, {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")})
    line.inventory.write_text(INVENTORY.replace("PORT", str(free_ports(13))))
    return line


def test_many_tasks_are_one_line_unless_more_is_asked_for(many: CommandLine) -> None:
    # A warm interpreter would import TensorFlow for these three.
    title, ps, workers = many("plan", fresh=True).splitlines()
    assert title == "many: 1 ps, 12 workers on 1 host"
    assert ps.split()[:2] == ["start", "ps/0"]
    assert workers.split() == ["start", "worker/0-11", "on", "localhost", "(not", "there)"]
    whole = [line.split()[1] for line in many("plan", "-v", fresh=True).splitlines() if line.startswith("  start")]
    assert whole == ["ps/0", *(f"worker/{n}" for n in range(12))]
    assert len(json.loads(many("plan", "--json", fresh=True))["actions"]) == 13
