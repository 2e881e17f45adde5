"""What the repository promises about itself."""

import re
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tfprov.cli.main import VERBS
from tfprov.planning.tasks import assign_tasks
from tfprov.playbook.parse import read_playbook
from tfprov.settings.load import load

INVENTORIES = sorted((ROOT / "inventories").glob("*.yml"))
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.name)
def test_every_example_is_a_cluster(path: Path) -> None:
    _, roles = load(path)
    assert assign_tasks(roles).chief.name in ("chief/0", "worker/0")


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.name)
def test_every_shipped_playbook_can_be_read(path: Path) -> None:
    assert read_playbook(path)


def test_the_first_playbook_of_the_docs_can_be_copied(tmp_path: Path) -> None:
    match = re.search(r"```yaml\n(.*?)```", (ROOT / "docs" / "playbooks.md").read_text(), re.DOTALL)
    assert match
    (tmp_path / "mine.yml").write_text(match[1])
    assert [play.name for play in read_playbook(tmp_path / "mine.yml")] == ["start the cluster", "train", "roll out"]
    (tmp_path / "up.yml").write_text("- {name: my own, hosts: all, tasks: [{start: }]}\n")
    names = [play.name for play in read_playbook(tmp_path / "mine.yml")]
    assert names == ["my own", "train", "roll out"], "what lies there counts"


def test_there_is_something_to_test() -> None:
    assert INVENTORIES
    assert {path.stem for path in PLAYBOOKS} >= {"up", "run", "down"}


def test_the_wheel_brings_playbooks_and_programs(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {"tfprov/playbooks/up.yml", "tfprov/programs/linear.py", "tfprov/py.typed"} <= names
    assert "tfprov/train_image/Dockerfile" in names
    assert "tfprov/schemas/inventory.schema.json" in names
    assert any(name.endswith(".data/data/share/man/man1/tfprov.1") for name in names), "`man tfprov` in an environment"
    assert not any(name.startswith("tests") or name.endswith(".pyc") for name in names)


def test_the_page_of_the_command_line_names_every_verb() -> None:
    verbs = (ROOT / "docs/command-line.md").read_text().partition("\n## Verbs\n")[2].partition("\n## ")[0]
    table = re.findall(r"^\| `(\w+)", verbs, re.MULTILINE)
    assert list(dict.fromkeys(table)) == list(VERBS)


def test_the_example_with_the_helper_is_short() -> None:
    program = (ROOT / "images/train/programs/linear.py").read_text()
    assert len(program.splitlines()) < 60


def test_the_changelog_has_an_entry_for_what_is_coming() -> None:
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()


TESTS = sorted(path for folder in ("unit", "integration") for path in (ROOT / "tests" / folder).rglob("test_*.py"))


def test_the_readme_of_the_tests_leads_to_every_file() -> None:
    named, folder = set[str](), ""
    for name in re.findall(r"`([\w/]+\.py)`", (ROOT / "tests" / "README.md").read_text()):
        folder = name.rpartition("/")[0] or folder  # a bare name lies beside the one before it
        named.add(f"{folder}/{name.rpartition('/')[2]}")
    files = {str(path.relative_to(ROOT / "tests")) for path in TESTS}
    assert files - named == set(), "not in tests/README.md"
    assert {name for name in named if "/test_" in name} - files == set(), "in tests/README.md, and not there"


def test_every_fault_of_the_docs_has_tests_that_are_there() -> None:
    rows = re.findall(r"^\| (.*) \|$", (ROOT / "docs" / "reliability.md").read_text(), re.MULTILINE)
    named = {row: re.findall(r"`(test_\w+)`", row) for row in rows if " tests" not in row and not row.startswith("---")}
    assert [row for row, tests in named.items() if not tests] == [], "no row without a test"
    assert [row.partition(" ")[0] for row in rows if row[0].isdigit()] == [str(number) for number in range(1, 34)]


def test_every_promise_of_the_docs_names_tests_that_exist() -> None:
    names = {name for path in TESTS for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}
    unknown, untested = [], []
    for page in sorted((ROOT / "docs").glob("*.md")):
        for number, line in enumerate(page.read_text().splitlines(), 1):
            named = re.findall(r"`(test_\w+)`", line)
            unknown += [f"{page.name}:{number}: {name}" for name in named if name not in names]
            row = line.startswith("| ") and not line.startswith("| promise |")
            if page.name == "security.md" and row and not named:
                untested.append(f"{page.name}:{number}")
    assert unknown == [], "tests that do not exist"
    assert untested == [], "promises without a test"


def test_no_test_imports_another_one_and_no_two_have_the_same_name() -> None:
    names = Counter[str]()
    for path in TESTS:
        text = path.read_text()
        assert not re.search(r"^\s*(from|import) tests\.(unit|integration)\b", text, re.MULTILINE), path
        names.update(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
    assert {name for name, count in names.items() if count > 1} == set()
