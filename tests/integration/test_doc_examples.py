"""The examples of the documentation, as a reader types them: page by page, each in an empty directory and one shell.

Pages whose examples are shown by other tests (api, notebook, data, spark) are left to them.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.doc_pages import RUN, examples, pages, script
from tests.support.paths import ROOT

ELSEWHERE = {"api.md", "data.md", "notebook.md", "spark.md", "spark-training.md"}
"""Pages with a test of their own, which has the objects that their examples use."""
TRAINING = {"README.md", "runtime.md", "tutorial.md"}
"""Pages that import TensorFlow ten times; other tests of the suite show the same."""
TIME = 400
"""Seconds for a page."""


def _shown() -> list[object]:
    """Return pages with anything to run; those of TRAINING are for `make docs` and `make matrix`."""
    with_examples = [
        page
        for page in pages()
        if page.name not in ELSEWHERE and any(it.language in RUN and not it.skipped for it in examples(page))
    ]
    return [
        pytest.param(
            page, id=page.stem, marks=[pytest.mark.matrix, pytest.mark.tensorflow] if page.name in TRAINING else []
        )
        for page in with_examples
    ]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A user's environment with tfprov in its PATH and an empty home; clusters that a page leaves are taken down."""
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "TFPROV_"))}
    programs = Path(sys.executable).parent
    env = {**kept, "HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}", "TF_CPP_MIN_LOG_LEVEL": "2"}
    yield env
    for inventory in tmp_path.rglob("inventory.yml"):
        subprocess.run([f"{programs}/tfprov", "down", "--discard", "-i", str(inventory)], env=env, check=False)


@pytest.mark.parametrize("page", _shown())
def test_the_examples_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    blocks, here = tmp_path / "blocks", tmp_path / "here"
    blocks.mkdir()
    here.mkdir()
    for name in ("inventories", "images", "playbooks"):
        (here / name).symlink_to(ROOT / name)
    done = subprocess.run(
        ["bash", "-c", script(page, blocks)], cwd=here, env=environment, stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIME, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"bash -c {shlex.quote(page.name)}:\n{done.stdout}"
