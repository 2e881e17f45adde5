"""What tests in forks report is what they report in one process, and a fork that dies is an error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forks import LONGEST
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
SHARED = """
import os
import pytest

@pytest.fixture(scope="session")
def server():
    yield os.getpid()
    with open("ended", "a") as file:
        file.write(f"{os.getpid()}\\n")
"""
GROUPED = """
import pytest

pytestmark = pytest.mark.lane("one")

def test_group(server):
    with open("used", "a") as file:
        file.write(f"{server}\\n")
"""
MEETS = """
import os
import time
import pytest

pytestmark = {mark}

def test_meets():
    os.close(os.open(f"of {kind} {{os.getpid()}}", os.O_CREAT))

    def begun(kind):
        return len([name for name in os.listdir() if name.startswith(f"of {{kind}} ")])

    for kind, forks in {awaited}.items():
        while begun(kind) < forks:
            time.sleep(0.01)
    with open("log", "a") as file:
        file.write(f"{{os.getpid()}} {kind} {{begun('other')}}\\n")
"""
"""Ends when as many processes have begun tests of each kind, and notes how many have begun others by then."""
STAYS = f"import time\n{GROUPED}    time.sleep(600)\n"
STOPS = """
import pathlib
import time

def test_fails():
    used = pathlib.Path("used")
    while not (used.exists() and used.read_text()):
        time.sleep(0.01)
    assert 1 == 2
"""
"""Fails while the group, which stays until it is stopped, is under way."""
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
    done = in_forks(tmp_path, "-ra")
    assert [line for line in expected if line not in done.stdout] == [], done.stdout
    assert done.returncode == code


def in_forks(directory: Path, *options: str, forks: int = 2) -> "subprocess.CompletedProcess[str]":
    """Run the tests in `directory`, which becomes their working directory."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.forks", "--forks", str(forks), *options]
    return subprocess.run(
        [*command, "--rootdir", str(directory), "-o", "addopts=", str(directory)],
        cwd=directory, env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("group", "other", "more"),
    [(GROUPED, FIRST, ()), (STAYS, STOPS, ("-x",))],
    ids=["to its end", "stopped by a failure"],
)
def test_a_group_shares_a_fixture_in_one_process_which_ends_it(
    tmp_path: Path, group: str, other: str, more: tuple[str, ...]
) -> None:
    (tmp_path / "conftest.py").write_text(SHARED)
    for name in ("one", "two", "three"):
        (tmp_path / f"test_{name}.py").write_text(group)
    (tmp_path / "test_other.py").write_text(other)
    in_forks(tmp_path, *more)
    used, ended = ((tmp_path / name).read_text().split() for name in ("used", "ended"))
    assert ended == [*dict.fromkeys(used)]
    assert len(ended) == 1
    assert more or len(used) == 3


def test_a_further_fork_begins_for_each_that_has_no_long_lane_left(tmp_path: Path) -> None:
    """The first long lane ends by itself; the others when two forks are at work on the rest: that one, and a late one.

    None of them ends before a fourth fork has begun with a unit test.
    """
    for number, lane in enumerate(LONGEST[:3]):
        awaited = {"long": 3, "unit": 1} | ({"other": 2} if number else {})
        text = MEETS.format(mark=f"pytest.mark.lane('{lane}')", awaited=awaited, kind="long")
        (tmp_path / f"test_{lane}.py").write_text(text)
    for number in range(7):
        text = MEETS.format(mark="[]", awaited={"other": 2 if number < 2 else 5}, kind="other")
        (tmp_path / f"test_other{number}.py").write_text(
            text.replace("test_meets", f"test_{number:050}"[: 55 - number])
        )
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "test_unit.py").write_text(MEETS.format(mark="[]", awaited={}, kind="unit"))
    done = in_forks(tmp_path, forks=6)
    assert "11 passed" in done.stdout
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    others = {pid: begun for pid, kind, begun in lines if kind == "long"}
    assert len(others) == 3
    assert next(iter(others.values())) == "0", "no other begins before a long lane has ended"
    assert {pid for pid, kind, _ in lines if kind == "unit"}.isdisjoint(others)


def test_a_fixture_that_cannot_be_ended_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(SHARED.replace("    yield os.getpid()", "    yield 1\n    1 / 0"))
    (tmp_path / "test_one.py").write_text(GROUPED)
    (tmp_path / "test_two.py").write_text(SECOND)
    done = in_forks(tmp_path)
    assert "ZeroDivisionError" in done.stdout + done.stderr
    assert done.returncode not in (0, 1)
