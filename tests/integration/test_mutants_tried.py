"""tests/mutation reports surviving and killed mutants; each try is a run of pytest."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

FILES = {
    "tfprov/__init__.py": "",
    "tfprov/pure.py": """\
LIMIT = 3


def small(number: int) -> bool:
    return number < LIMIT


def far(number: int) -> int:
    if number == 99:
        return 1
    return number


def named(name: str | None = None) -> str:
    return name or "nobody"
""",
    "tests/__init__.py": "",
    "tests/unit/__init__.py": "",
    "tests/unit/test_pure.py": """\
from tfprov.pure import far, named, small


def test_small():
    assert small(2)
    assert not small(4)


def test_named():
    assert named() == "nobody"
    assert named("a") == "a"


def test_far():
    assert far(1) == 1
""",
}
SURVIVORS = [
    ("10", "constant"),
    ("10", "constant"),
    ("1", "constant"),
    ("5", "compare"),
    ("9", "constant"),
    ("9", "constant"),
    ("9", "compare"),
]


def run(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Try the mutants of a small package in a process of its own, which may fork as it has no threads."""
    for name, text in FILES.items():
        (directory / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / "tree" / name).write_text(text)
    code = "import sys; from pathlib import Path; from tests.mutants import main; "
    code += "sys.exit(main(sys.argv[2:], Path(sys.argv[1]), ['tfprov/pure.py']))"
    argv = [sys.executable, "-c", code, str(directory / "tree"), "--sample", "0", *options]
    environ = {**os.environ, "XDG_CACHE_HOME": str(directory / "cache"), "TMPDIR": str(directory)}
    done = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert not done.stderr, done.stderr
    return done


def test_surviving_and_killed_mutants_are_reported(tmp_path: Path) -> None:
    done = run(tmp_path, "--least", "90")
    alive = re.findall(r"^tfprov/pure\.py:(\d+): (\w+);", done.stdout, re.MULTILINE)
    # Nobody asks for 3, nor for 98 to 100; line 10 is not run, and `!= 99` returns 1 for 1 as well.
    assert alive == SURVIVORS
    assert (
        "tfprov/pure.py:10: constant; is reached by no test\n  -         return 1\n  +         return 2\n"
        in done.stdout
    )
    assert re.search(r"pure\.py:11:11:return:0 killed by tests/unit/test_pure\.py::test_far", done.stdout)
    assert re.search(r"pure\.py:14:29:constant:0 killed by types: .*ncompatible default", done.stdout)
    assert "1 by types" in done.stdout
    again = run(tmp_path, "--only", "tfprov/pure.py:5:11:compare:0")
    assert "killed 0 of 1 mutants" in again.stdout
    assert "are run to see" not in again.stdout, "which test runs which line is known from before"
    assert done.returncode == 1
    assert again.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "tree"]


def test_a_control_that_fails_makes_the_run_void(tmp_path: Path) -> None:
    run(tmp_path, "--only", "tfprov/pure.py:5:11:compare:0")
    flag = tmp_path / "flag"
    text = FILES["tests/unit/test_pure.py"].replace("assert far(1) == 1", f"open({str(flag)!r}, 'x').close()")
    files = dict(FILES)
    FILES["tests/unit/test_pure.py"] = text + "    assert far(1) == 1\n"
    try:
        done = run(tmp_path, "--only", "tfprov/pure.py:11:*")
    finally:
        FILES.update(files)
    assert done.returncode == 2
    assert "void: the control fails" in done.stdout
    assert "test_far" in done.stdout
    assert "killed" not in done.stdout
