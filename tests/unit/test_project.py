"""What the repository promises about itself."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tfprov.cli.main import VERBS
from tfprov.config.load import load
from tfprov.config.playbooks import read_playbook
from tfprov.planning.place import place

INVENTORIES = sorted((ROOT / "inventories").glob("*.yml"))
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.name)
def test_every_example_is_a_cluster(path: Path) -> None:
    _, roles = load(path)
    assert place(roles).chief.name in ("chief/0", "worker/0")


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.name)
def test_every_shipped_playbook_can_be_read(path: Path) -> None:
    assert read_playbook(path)


def test_there_is_something_to_test() -> None:
    assert INVENTORIES
    assert {path.stem for path in PLAYBOOKS} >= {"up", "run", "down"}


def test_the_wheel_brings_playbooks_and_programs(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {"tfprov/playbooks/up.yml", "tfprov/programs/linear.py", "tfprov/py.typed"} <= names
    assert "tfprov/images/Dockerfile" in names
    assert "tfprov/schemas/inventory.schema.json" in names
    assert not any(name.startswith("tests") or name.endswith(".pyc") for name in names)


def test_the_readme_names_every_verb() -> None:
    verbs = (ROOT / "README.md").read_text().partition("\n## Verbs\n")[2].partition("\n## ")[0]
    table = re.findall(r"^\| `(\w+)", verbs, re.MULTILINE)
    assert list(dict.fromkeys(table)) == list(VERBS)


def test_the_example_with_the_helper_is_short() -> None:
    program = (ROOT / "images/train/programs/linear.py").read_text()
    assert len(program.splitlines()) < 60


def test_the_changelog_has_an_entry_for_what_is_coming() -> None:
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()
