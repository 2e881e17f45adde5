"""What tests in forks report is what they report in one process, and a fork that dies is an error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

FIRST = """
import pytest

def test_good():
    pass

def test_bad():
    assert 1 == 2

@pytest.mark.skip(reason="not today")
def test_left_out():
    pass

@pytest.fixture(scope="module")
def broken():
    raise ValueError("cannot be made")

def test_needs_it(broken):
    pass
"""
SECOND = "def test_second():\n    pass\n"
DIES = "import os\n\ndef test_dies():\n    os._exit(3)\n"


@pytest.mark.parametrize(
    ("third", "expected", "code"),
    [
        (
            SECOND,
            ["test_bad", "assert 1 == 2", "ValueError: cannot be made", "1 failed, 3 passed, 1 skipped, 1 error"],
            1,
        ),
        (DIES, ["a process of the tests ended before its last test"], 3),
    ],
    ids=["all ways to end", "a fork that dies"],
)
def test_forks_report_as_one_process_does(tmp_path: Path, third: str, expected: list[str], code: int) -> None:
    for name, text in {"first": FIRST, "second": SECOND, "third": third}.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "tests.forks", "--forks", "2"]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), "-o", "addopts=", str(tmp_path)],
        cwd=ROOT, env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert [line for line in expected if line not in done.stdout] == [], done.stdout
    assert done.returncode == code
