"""Commands that cannot be run are told with the program that was probably meant."""

import sys
from pathlib import Path

from tests.support.runtime_bench import ProcessBench, container
from tfprov.hosts.docker.engine_errors import explain
from tfprov.hosts.program_checks import correction, unstartable
from tfprov.model.state import State

MISSING, SHUT = FileNotFoundError(2, "No such file or directory"), PermissionError(13, "Permission denied")


def test_why_a_command_could_not_be_started_names_it_and_what_was_meant(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("python", "train.sh"):
        (programs / name).touch(mode=0o755)
    (programs / "pythom").touch(mode=0o644)
    cases = {
        ("pyhton", MISSING): "there is no program `pyhton`; did you mean `python`? correct `command:`",
        ("xyz", MISSING): "there is no program `xyz`; correct `command:`",
        ("./trian.sh", MISSING): "the file `./trian.sh` does not exist; did you mean `train.sh`? correct `command:`",
        ("./train.sh", SHUT): "the program `./train.sh` may not be executed; `chmod +x` it, or name its interpreter in "
        "`command:`",
        ("python", OSError(8, "Exec format error")): "Exec format error: python",
    }
    environment = {"PATH": f"/nowhere:{programs}"}
    assert {case: unstartable(case[1], case[0], environment, programs) for case in cases} == cases
    assert correction("/usr/bin/pyton3") == "did you mean `python3`? correct `command:`"


def test_an_engine_says_it_in_the_same_words() -> None:
    text = 'OCI runtime create failed: exec: "pyhton": executable file not found in $PATH: unknown'
    assert explain(text) == (
        "the image has no program pyhton that can be run",
        "did you mean `python`? correct `command:`",
    )


def test_a_process_that_cannot_be_started_says_so_with_its_path(tmp_path: Path) -> None:
    bench = ProcessBench(tmp_path)
    try:
        name = Path(sys.executable).name
        bench.start(container(argv=[f"{name[:2]}{name[3]}{name[2]}{name[4:]}"]))
        seen = bench.becomes(State.EXITED)
        assert "did you mean `pyth" in seen.ending, seen.ending
    finally:
        bench.close()
