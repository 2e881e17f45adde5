"""Settings and the oracle that all unit tests share."""

import os
import shutil
import stat
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.ansible_oracle import Ansible
from tests.support.examples import MATRIX, examples
from tests.support.scratch import directory_in_memory

# The same examples on every machine, and no verdict on how fast it is. `make matrix` tries three times as many.
SHARED = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", SHARED, max_examples=examples(100).max_examples)
settings.register_profile("matrix", SHARED, max_examples=100)
settings.load_profile("matrix" if MATRIX else "quick")


@pytest.fixture(scope="session")
def ansible(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ansible]:
    """Ansible's own code, imported once for all tests of the group `parity`."""
    with Ansible(tmp_path_factory.mktemp("home")) as asked:
        yield asked


_NUMBERS = count()
_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember which tests have failed."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


def _sockets(directory: str, names: list[str]) -> list[str]:
    """Return those names in a directory that are no files, directories or links: only a move within a disk keeps them."""
    modes = {name: (Path(directory) / name).lstat().st_mode for name in names}
    kinds = stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK
    return [name for name, mode in modes.items() if not any(is_kind(mode) for is_kind in kinds)]


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Path]:
    """An empty directory, in memory if possible; if the test fails, it stays among those of pytest.

    pytest's own takes 2 ms, because it looks for the highest number among all directories; half of the tests use one. On a
    disk, files of unit tests take a sixth of all their CPU time.
    """
    kept = tmp_path_factory.getbasetemp() / f"{os.getpid()}-{next(_NUMBERS)}"
    path = (directory_in_memory() or kept.parent) / kept.name
    path.mkdir(mode=0o700)
    yield path
    if request.node.stash.get(_FAILED, False):
        if path != kept:
            shutil.copytree(path, kept, symlinks=True, ignore=_sockets)
            shutil.rmtree(path, ignore_errors=True)
            print(f"{path} is now {kept}")
        return
    try:
        path.rmdir()
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
