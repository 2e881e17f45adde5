"""Each example program as a user starts it: in a fresh interpreter, without the imports of other tests."""

from pathlib import Path

import pytest

from tests.support.paths import PROGRAMS
from tests.support.programs import ProgramHosts, whole

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    "program", ["digits", "digits_in_graph", "digits_parameter_server", "digits_all_reduce", "digits_fit", "mnist"]
)
def test_a_program_imports_all_it_needs_and_ends_well(hosts: ProgramHosts, digits: Path, program: str) -> None:
    alone = hosts.start(PROGRAMS / f"{program}.py", f"--data_dir={digits}", "--train_steps=20", fresh=True)
    alone.ends()
    assert max(whole(alone.folder / "saved")) == 20
    assert "Traceback" not in alone.err
