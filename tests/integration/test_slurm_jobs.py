"""The jobs that are rendered for Slurm, run to their end: a stand-in for srun starts real tasks."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.support.slurm import Allocation
from tests.support.slurm_jobs import INVENTORY, SCRIPTS, script, write_program
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path)


def run(mode: str, inventory: str = INVENTORY, tasks: tuple[int, ...] = (1, 2)) -> tuple[int, str]:
    """Run the job in one of the program's modes."""
    text = script(inventory.replace("MODE: plain", f"MODE: {mode}"))
    return Allocation(Path("bin").absolute(), tasks, job=os.getpid()).run(text)


def run_in_containers(inventory: str, command: str) -> str:
    """Return what a job prints whose apptainer is a `command` of the shell."""
    allocation = Allocation(Path("bin").absolute(), (1, 2))
    apptainer = allocation.directory / "apptainer"
    apptainer.write_text(f"#!/bin/sh\n{command}\n")
    apptainer.chmod(0o755)
    code, printed = allocation.run(script(inventory, f"checkpoints={Path('shared').absolute()}"))
    assert code == 0, printed
    return printed


def test_the_job_ends_with_its_chief() -> None:
    code, printed = run("plain")
    assert code == 0, printed
    lines = printed.splitlines()
    assert "worker/0 | tfprov: worker/0 ended with 0" in lines
    assert "ps/0 | greeting: $HOME 'x'" in lines
    assert "ps/0 | from beside the program" in lines
    assert any(line.startswith("ps/0 | leaving") for line in lines)
    assert any(line.endswith('--note=it\'s $HOME `id` "q" é') for line in lines)
    assert Path("saved/law-slurm").is_dir()


def test_the_jobs_exit_code_is_the_chiefs() -> None:
    assert run("fails")[0] == 5


def test_a_worker_that_ends_early_does_not_end_the_job() -> None:
    text = script(INVENTORY.replace("MODE: plain", "MODE: early"))
    with Allocation(Path("bin").absolute(), (1, 2), job=os.getpid()).start(text) as process:
        assert process.stdout
        assert any(line == "worker/1 | tfprov: worker/1 ended with 0\n" for line in process.stdout)
        assert process.poll() is None
        Path("saved/law-slurm/early").touch()
        assert "worker/0 | tfprov: worker/0 ended with 0\n" in list(process.stdout)
    assert process.returncode == 0


def test_a_failed_task_ends_the_job_after_the_chief_has_saved() -> None:
    code, printed = run("breaks")
    assert code == 1
    assert "worker/1 | tfprov: worker/1 ended with 9" in printed
    (leaving,) = (line for line in printed.splitlines() if line.startswith("worker/0 | leaving"))
    assert leaving.endswith("ps-up")  # its ps still ran
    assert "No such file" not in leaving


def test_a_failed_task_is_restarted() -> None:
    code, printed = run("again", INVENTORY.replace("restart: never", "restart: on-failure"))
    assert code == 0, printed
    assert "worker/1 | worker/1 ended with 9 and is started again" in printed
    assert "worker/1 | again" in printed


def test_before_the_time_limit_the_chief_leaves_while_its_ps_runs() -> None:
    text = script(INVENTORY.replace("MODE: plain", "MODE: runs"))
    assert "#SBATCH --signal=B:TERM@45" in text
    process = Allocation(Path("bin").absolute(), (3,), job=os.getpid()).start(text)
    assert process.stdout
    lines = []
    for line in process.stdout:
        lines.append(line)
        if sum("beside the program" in text_line for text_line in lines) == 3:
            break
    until(Path("saved/law-slurm/ps-up").exists)
    process.send_signal(signal.SIGTERM)
    printed = process.communicate(timeout=300)[0]
    assert process.returncode == 143, printed
    (leaving,) = (line for line in printed.splitlines() if line.startswith("worker/0 | leaving"))
    assert "No such file" not in leaving


def test_tasks_that_slurm_did_not_start_are_reported() -> None:
    text = script()
    allocation = Allocation(Path("bin").absolute(), (1, 1))
    code, printed = allocation.run(text)
    assert code != 0
    assert "3 tasks were requested, and Slurm started 2" in printed


def test_containers_run_under_apptainer() -> None:
    inventory = SCRIPTS["containers"][0].replace("gpus: 1", "mounts: [{source: /srv, target: /data}]")
    printed = run_in_containers(inventory, 'echo "apptainer: $*"')
    line = next(line for line in printed.splitlines() if line.startswith("worker/0 | apptainer"))
    assert f"exec --bind {Path('shared').absolute()}:/checkpoints --bind /srv:/data:ro --bind /tmp/" in line
    assert "docker://img:v1 sh program.sh --job_name=worker --task_index=0" in line
    code_mount = re.search(r"--bind \S+:/code\S*", line)
    assert code_mount, "each task starts in a copy of its own"
    assert code_mount[0].endswith("/code:/code"), "and may write there"
    assert Path("shared").is_dir()


def test_variables_of_the_program_are_not_those_of_the_script() -> None:
    own = "env: {jobs: x, chief: 7, code: y, work: z, UID: 3, last: l, PYTHONPATH: /mine, "
    Path("code/show.sh").write_text('echo "env: $jobs $chief $code $work $last $PYTHONPATH"; env | grep ^UID=')
    inventory = INVENTORY.replace("env: {", own).replace("program.sh", "show.sh")
    code, printed = Allocation(Path("bin").absolute(), (1, 2)).run(script(inventory))
    assert code == 0, printed
    assert re.search(r"^worker/0 \| env: x 7 y z l /\S+/tfprov:/mine$", printed, re.MULTILINE), printed
    assert "worker/0 | UID=3\n" in printed


def test_without_a_container_the_python_of_the_inventory_is_used() -> None:
    inventory = INVENTORY.replace("[sh, program.sh]", "[python3, show.py]\n      python: venv/bin/py")
    Path("venv/bin").mkdir(parents=True)
    Path("venv/bin/py").write_text('#!/bin/sh\necho "mine: $1, first in PATH: ${PATH%%:*}"\n')
    Path("venv/bin/py").chmod(0o755)
    code, printed = Allocation(Path("bin").absolute(), (1, 2)).run(script(inventory))
    assert code == 0, printed
    assert f"worker/0 | mine: show.py, first in PATH: {Path('venv/bin').absolute()}\n" in printed


def test_what_a_killed_program_has_printed_is_in_the_log() -> None:
    Path("code/killed.py").write_text("import os\nprint('so far')\nos.kill(os.getpid(), 9)\n")
    inventory = INVENTORY.replace("[sh, program.sh]", f"[{sys.executable}, killed.py]")
    _, printed = Allocation(Path("bin").absolute(), (1, 2)).run(script(inventory), env={"PYTHONUNBUFFERED": ""})
    assert " | so far\n" in printed, "of the first one, whose failure ends the others"


def test_the_path_of_a_container_is_not_that_of_the_script() -> None:
    inventory = SCRIPTS["containers"][0].replace("env: {", "env: {PATH: /inside, LD_LIBRARY_PATH: /lib/inside, ")
    printed = run_in_containers(inventory, 'echo "inside: $APPTAINERENV_PATH $APPTAINERENV_LD_LIBRARY_PATH"')
    assert "worker/0 | inside: /inside /lib/inside" in printed.splitlines()
