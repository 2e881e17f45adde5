"""tfprov.spark as a client of a Spark Connect server, whose driver is another process."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.support import spark
from tests.support.paths import ROOT

pytestmark = [pytest.mark.matrix, pytest.mark.tensorflow]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if reason := spark.unavailable():
        (pytest.fail if os.environ.get("TFPROV_TESTS_JAVA") == "required" else pytest.skip)(reason)
    directory = tmp_path_factory.mktemp("connect")
    command = [sys.executable, "-m", "tests.support.connect_client", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_a_client_of_spark_connect_writes_reads_and_streams(facts: dict[str, Any]) -> None:
    assert facts["type"] == "pyspark.sql.connect.session"
    assert facts["schema"] == "struct<a:bigint,b:string,part:int>"
    assert facts["rows"] == list(range(20))
    assert (facts["filtered"], facts["copied"]) == (5, 10)
    assert "the path exists; use mode=`append` or `overwrite`" in facts["refused"]


def test_a_client_of_spark_connect_trains(facts: dict[str, Any]) -> None:
    assert facts["returned"] == [2, 42]
    assert facts["tensors"] > 0
    assert facts["gathered"] == ["checkpoint", "ckpt-1.data-00000-of-00001", "ckpt-1.index"]
    assert facts["failed"].startswith("worker/")
    assert facts["failed"].endswith("ValueError: out of luck")
    assert "last words" in facts["failed"]
    assert facts["slots"].startswith("Spark has started none of the 3 tasks of the training in 0.5 s")
    assert "Spark Connect does not have; pass `use_gpu=False`" in facts["gpus"]
