"""Commands that cannot start are explained, with a similar program as a suggestion."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.runtime_bench import ProcessBench, container
from tfprov.hosts.docker.engine_errors import explain
from tfprov.hosts.program_checks import module_command, start_error, suggest_correction
from tfprov.model.state import State

MISSING, NOT_EXECUTABLE = FileNotFoundError(2, "No such file or directory"), PermissionError(13, "Permission denied")


def test_a_command_that_cannot_start_is_named_with_a_suggestion(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("python", "train.sh"):
        (programs / name).touch(mode=0o755)
    (programs / "pythom").touch(mode=0o644)
    cases = {
        ("pyhton", MISSING): "there is no program `pyhton`; did you mean `python`? correct `command:`",
        ("xyz", MISSING): "there is no program `xyz`; correct `command:`",
        ("./trian.sh", MISSING): "the file `./trian.sh` does not exist; did you mean `train.sh`? correct `command:`",
        (
            "./train.sh",
            NOT_EXECUTABLE,
        ): "the program `./train.sh` may not be executed; `chmod +x` it, or name its interpreter in `command:`",
        ("python", OSError(8, "Exec format error")): "Exec format error: python",
    }
    environment = {"PATH": f"/nowhere:{programs}"}
    assert {case: start_error(case[1], case[0], environment, programs) for case in cases} == cases
    assert suggest_correction("/usr/bin/pyton3") == "did you mean `python3`? correct `command:`"


def test_a_module_is_run_without_the_files_of_the_working_directory(tmp_path: Path) -> None:
    work, library = tmp_path / "work", tmp_path / "library"
    for directory in (work, library):
        directory.mkdir()
    for name in ("json", "runpy", "ours"):
        (work / f"{name}.py").write_text("raise SystemExit(9)")
    (library / "ours.py").write_text("import json, sys; print(json.dumps([__name__, *sys.argv[1:]]))")
    argv = module_command(sys.executable, "ours", "an argument")
    done = subprocess.run(
        argv, cwd=work, env={"PYTHONPATH": str(library)}, capture_output=True, check=True, timeout=300
    )
    assert json.loads(done.stdout) == ["__main__", "an argument"]


def test_an_engine_error_has_the_same_suggestion() -> None:
    text = 'OCI runtime create failed: exec: "pyhton": executable file not found in $PATH: unknown'
    assert explain(text) == (
        "the image has no program pyhton that can be run",
        "did you mean `python`? correct `command:`",
    )


def test_a_process_that_cannot_start_has_a_suggestion_from_its_path(tmp_path: Path) -> None:
    bench = ProcessBench(tmp_path)
    try:
        name = Path(sys.executable).name
        bench.start(container(argv=[f"{name[:2]}{name[3]}{name[2]}{name[4:]}"]))
        observed = bench.becomes(State.EXITED)
        assert "did you mean `pyth" in observed.ending, observed.ending
    finally:
        bench.close()
