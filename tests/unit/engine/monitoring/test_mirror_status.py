"""What `status` says of the remote checkpoint directory."""

import json
from pathlib import Path

import pytest

from tests.support.remote_dirs import URL
from tests.support.split_training import INVENTORY, SplitTraining
from tfprov.cli.watch import status_lines
from tfprov.engine.monitoring.mirror_status import parse
from tfprov.engine.monitoring.status import status


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"newest": "model.ckpt-5", "problem": ""}, f"{URL} has model.ckpt-5"),
        ({"newest": None, "problem": ""}, f"{URL} has no checkpoint yet"),
        ({"newest": "ckpt-1", "problem": "no\nroute"}, f"{URL} has ckpt-1, and is behind: no route"),
    ],
)
def test_status_has_a_line_for_the_remote_directory(tmp_path: Path, facts: dict[str, str | None], line: str) -> None:
    inventory = INVENTORY.replace("textbook.py]", f'textbook.py], checkpoints: {{dir: "{URL}"}}')
    split = SplitTraining(tmp_path, inventory).runs()
    split.hosts["w0"].saves("worker/0", "mirror.json", json.dumps({"url": URL, **facts}).encode())
    result = status(split.context, 10.0)
    assert line in list(status_lines(result))
    assert result.to_dict()["mirror"]["url"] == URL


def test_without_one_nothing_is_said(tmp_path: Path) -> None:
    split = SplitTraining(tmp_path).runs()
    result = status(split.context, 10.0)
    assert result.mirror is None
    assert "mirror" not in result.to_dict()


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b'{"url": 1, "newest": null, "problem": ""}', b'{"url": "s3://b/r"}', b"[" * 9999],
)
def test_another_file_of_that_name_says_nothing(data: bytes) -> None:
    assert parse(data) is None
