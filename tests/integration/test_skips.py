"""A test that is skipped is red on machines that must run everything, and only there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

FILES = {
    "test_some.py": """
import pytest

def test_runs():
    pass

@pytest.mark.skipif(True, reason="needs a program")
def test_marked():
    pass

def test_within():
    pytest.importorskip("no_such_module")

@pytest.fixture
def page():
    pytest.skip("needs a browser")

def test_page(page):
    pass

@pytest.mark.xfail(reason="is known", strict=True)
def test_known():
    raise AssertionError
""",
    "test_whole_file.py": "import pytest\npytest.importorskip('no_such_module')\n",
}


CASES = {
    "nothing": ((), "1 passed, 4 skipped, 1 xfailed"),
    "engine": (("ENGINE",), "1 failed, 1 passed, 1 skipped, 1 xfailed, 2 errors"),
    "browser": (("BROWSER",), "1 passed, 3 skipped, 1 xfailed, 1 error"),
    "both": (("ENGINE", "BROWSER"), "1 failed, 1 passed, 1 xfailed, 3 errors"),
}
"""What is required, and the last line of pytest."""
SESSIONS = """
import os, pytest, sys
for required in sys.argv[1].split():
    os.environ |= dict.fromkeys([f"TFPROV_TESTS_{name}" for name in required.split("+") if name], "required")
    if not (process := os.fork()):  # pytest is imported once for all of them
        code = pytest.main(sys.argv[2:])
        sys.stdout.flush()
        os._exit(code)
    print(f"\\nSESSION {os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])}", flush=True)
    for name in ("ENGINE", "BROWSER"):
        os.environ.pop(f"TFPROV_TESTS_{name}", None)
"""


def test_a_skip_is_red_where_nothing_may_be_left_out(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TFPROV_TESTS_", "PYTEST_"))}
    command = [sys.executable, "-c", SESSIONS, " ".join("+".join(required) or "+" for required, _ in CASES.values())]
    command += ["-q", "-ra", "--continue-on-collection-errors", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path, env=inherited | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    parts = re.split(r"\nSESSION (\d+)\n", done.stdout)
    sessions = zip(CASES.items(), parts[::2], parts[1::2], strict=False)
    assert len(parts) == 2 * len(CASES) + 1, done.stdout + done.stderr
    wrong = {
        name: printed
        for (name, (required, expected)), printed, code in sessions
        if expected not in printed
        or int(code) != (1 if required else 0)
        or ("Nothing may be left out here" in printed) is not bool(required)
    }
    assert wrong == {}
