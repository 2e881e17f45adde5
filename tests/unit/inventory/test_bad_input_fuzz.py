"""Any input is accepted, or each of its problems is one line with a position, within a second."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fuzz import ATTEMPTS
from tests.support.scratch import directory_in_memory


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=directory_in_memory()) as name:
        yield Path(name)


@pytest.mark.parametrize("name", ATTEMPTS)
@examples(75)
@given(data=st.data())
def test_no_input_crashes_the_reader(name: str, data: st.DataObject, directory: Path) -> None:
    attempt = ATTEMPTS[name]
    # A directory for each attempt, so that the vars files of another attempt are not read.
    attempt(data.draw(attempt.strategy), directory / name.replace(" ", "-"))
