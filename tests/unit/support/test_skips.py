"""A test that is skipped is red on machines that must run everything, and only there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("required", "expected"),
    [
        ((), "1 passed, 4 skipped, 1 xfailed"),
        (("ENGINE",), "1 failed, 1 passed, 1 skipped, 1 xfailed, 2 errors"),
        (("BROWSER",), "1 passed, 3 skipped, 1 xfailed, 1 error"),
        (("ENGINE", "BROWSER"), "1 failed, 1 passed, 1 xfailed, 3 errors"),
    ],
    ids=["nothing", "engine", "browser", "both"],
)
def test_a_skip_is_red_where_nothing_may_be_left_out(tmp_path: Path, required: tuple[str, ...], expected: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    variables = {f"TFPROV_TESTS_{name}": "required" for name in required}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TFPROV_TESTS_", "PYTEST_"))}
    variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-ra",
        "--continue-on-collection-errors",
        "-p",
        "no:cacheprovider",
        "-p",
        "xdist.plugin",
    ]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path, env=inherited | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert expected in done.stdout, done.stdout
    assert done.returncode == (1 if required else 0)
    assert ("Nothing may be left out here" in done.stdout) is bool(required)
