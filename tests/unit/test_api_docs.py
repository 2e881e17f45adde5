"""The examples of docs/api.md run as they stand, on hosts in memory."""

import doctest
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.user_directory import enter
from tfprov import api, results
from tfprov.engine.checkpoints.verify import Verification
from tfprov.hosts.memory import MemoryHosts, MemoryRuntime

PAGE = ROOT / "docs" / "api.md"


def save_checkpoint(host: MemoryRuntime, step: int) -> None:
    """Have the chief save a checkpoint."""
    prefix = f"model.ckpt-{step}"
    for extension in ("data-00000-of-00001", "index", "meta"):
        host.saves("worker/0", f"{prefix}.{extension}", b"bytes")
    host.saves("worker/0", "checkpoint", f'model_checkpoint_path: "{prefix}"\n'.encode())


def verify(prefixes: Sequence[Path]) -> dict[str, Verification]:
    """Verify checkpoints without TensorFlow."""
    return {prefix.name: Verification(3) for prefix in prefixes}


def test_the_examples_of_the_api_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = re.search(r"```yaml\n# inventory\.yml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert inventory is not None
    enter(tmp_path, monkeypatch, inventory[1], "program")
    names = {"hosts": MemoryHosts(), "save_checkpoint": save_checkpoint, "verify": verify}
    outcome = doctest.testfile(str(PAGE), module_relative=False, globs=names, encoding="utf-8")
    assert outcome.failed == 0, capsys.readouterr().out
    assert outcome.attempted > 25


def test_the_page_names_every_verb_and_result() -> None:
    page = PAGE.read_text()
    verbs = [name for name in vars(api.Cluster) if not name.startswith("_") and name not in ("definition", "prepare")]
    classes = [
        name
        for name, value in vars(results).items()
        if isinstance(value, type) and value.__module__ == results.__name__
    ]
    internal = {"SavedCheckpoint", "Checkpoint", "StoredImage", "PruneResult"}
    assert [name for name in verbs if f".{name}" not in page] == []
    assert [name for name in classes if name not in page and name not in internal] == []
