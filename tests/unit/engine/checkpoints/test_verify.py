"""What becomes of the reader of gathered tensors: its verdicts, and its own end."""

from pathlib import Path

import pytest

from tfprov.engine.checkpoints.verify import Verification, verify


@pytest.fixture
def tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for TensorFlow, which the reader imports instead; what it does is to be written into it."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "tensorflow.py"


PREFIXES = [Path("/nowhere/model.ckpt-5"), Path("/nowhere/model.ckpt-9")]


def test_each_prefix_has_its_verdict(tensorflow: Path) -> None:
    tensorflow.write_text("raise ImportError('no such luck')")
    assert verify(PREFIXES) == {
        "model.ckpt-5": Verification(0, "ImportError: no such luck"),
        "model.ckpt-9": Verification(0, "ImportError: no such luck"),
    }


def test_a_reader_that_is_killed_has_verified_nothing_more(tensorflow: Path) -> None:
    tensorflow.write_text("import os, sys\nprint('out of memory', file=sys.stderr, flush=True)\nos._exit(9)")
    unread = Verification(0, "the reader ended with 9: out of memory")
    assert verify(PREFIXES) == {"model.ckpt-5": unread, "model.ckpt-9": unread}


def test_without_prefixes_nothing_is_started() -> None:
    assert verify([]) == {}
