"""Each example program without imports of other tests or of tfprov: in a fork of an interpreter that has TensorFlow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import PROGRAMS, ROOT
from tests.support.programs import whole
from tests.support.waiting import LONG

pytestmark = pytest.mark.tensorflow

NAMES = ("digits", "digits_in_graph", "digits_parameter_server", "digits_all_reduce", "digits_fit", "mnist")
ONE_AFTER_THE_OTHER = """
import os, runpy, sys
import tensorflow  # what takes 5 seconds, and what every program begins with; nothing else
programs, data, *names = sys.argv[1:]
for name in names:
    if child := os.fork():
        print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.mkdir(name)
    os.chdir(name)
    for number, stream in ((1, "out"), (2, "err")):
        os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT), number)
    sys.argv, sys.path[0] = [f"{programs}/{name}.py", f"--data_dir={data}", "--train_steps=20"], programs
    runpy.run_path(sys.argv[0], run_name="__main__")
    break
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> tuple[Path, list[str]]:
    """The directory with one for each program, and lines with the exit code of each."""
    base = tmp_path_factory.mktemp("programs")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TFPROV_CHECKPOINT_DIR": "saved"}
    environment.pop("TF_CONFIG", None)
    done = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_THE_OTHER, str(PROGRAMS), str(digits), *NAMES],
        cwd=base, env=environment, capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return base, done.stdout.splitlines()


@pytest.mark.parametrize("program", NAMES)
def test_a_program_imports_all_it_needs_and_ends_well(ended: tuple[Path, list[str]], program: str) -> None:
    base, codes = ended
    errors = (base / program / "err").read_text()
    assert f"{program} 0" in codes, errors
    assert "Traceback" not in errors
    assert max(whole(base / program / "saved")) == 20
