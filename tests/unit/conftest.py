"""Settings and the oracle that all unit tests share."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.ansible_oracle import Ansible
from tests.support.examples import MATRIX, examples

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
