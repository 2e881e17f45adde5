"""The driver program for spark-submit: its tasks, what it refuses, and how a task fills in its command."""

import ast
import base64
import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.kubernetes_objects import files_of, roles_of
from tfprov.errors import InvalidInput
from tfprov.images.code import Code
from tfprov.render.render import render
from tfprov.render.spark import CHECKPOINTS, DOMAIN
from tfprov.render.target import find_target
from tfprov.spark.distributor.job import Job, JobRunner, session_settings

INVENTORY = """
all:
  vars:
    tfprov:
      cluster: lab
      image: {name: "train:1.0"}
      command: [python, train.py, "{{ checkpoint_dir }}", "--first={{ worker_hosts.split(',')[0] }}"]
      env: {API_TOKEN: very-secret, LEVEL: "it's \\"2\\" \\\\ é"}
      checkpoints: {to: saved}
      MORE
  children:
    ps: {hosts: {a: {ansible_host: 10.0.0.1}}}
    worker: {hosts: {b: {ansible_host: 10.0.0.2}, c: {ansible_host: 10.0.0.3}}, vars: {tfprov: {gpus: 2}}}
"""


def job_of(*settings: str, more: str = "cpus: 2", extra: str = "") -> dict[str, Any]:
    """Return the arguments of the Job in the rendered program."""
    (text,) = files_of(INVENTORY.replace("MORE", more) + extra, "spark-submit", *settings).values()
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    (job,) = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Job"]
    return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in job.keywords}


def test_the_chief_is_the_first_task_and_the_ps_are_the_last() -> None:
    job = job_of()
    assert [task["name"] for task in job["tasks"]] == ["worker/0", "worker/1", "ps/0"]
    assert (job["strategy"], job["gpus"], job["cpus"], job["trusted_network"]) == ("between_graph", 2, 2, False)
    assert job["gather_to"] == str(Path("saved/lab").absolute())
    assert job_of("trusted_network=true", "checkpoints=/shared")["checkpoint_dir"] == "/shared"


def test_secrets_are_named_and_not_written() -> None:
    assert job_of()["secrets"] == ["API_TOKEN"]
    (text,) = files_of(INVENTORY.replace("MORE", ""), "spark-submit").values()
    assert "very-secret" not in text
    environment = job_of()["tasks"][0]["env"]
    assert environment["LEVEL"] == 'it\'s "2" \\ é'
    assert not {"TF_CONFIG", "TFPROV_CHECKPOINT_DIR", "TFPROV_TASK", "API_TOKEN"} & set(environment)


def test_data_have_the_path_of_the_executors() -> None:
    environment = job_of(more="data: {path: /data, to: /elsewhere}")["tasks"][0]["env"]
    assert environment["TFPROV_DATA_DIR"] == "/data"


def test_addresses_and_the_checkpoint_directory_are_placeholders() -> None:
    command = job_of()["tasks"][1]["command"]
    assert command[:4] == ["python", "train.py", CHECKPOINTS, f"--first=worker-0.{DOMAIN}:90000000001"]
    assert f"--worker_hosts=worker-0.{DOMAIN}:90000000001,worker-1.{DOMAIN}:90000000002" in command


ELSEWHERE = "remove the group; run it elsewhere, on the gathered checkpoints or with `data_service: {address: …}`"
GPUS = "13:97: error: the worker on b has another number of GPUs than the other tasks; " + (
    ALIKE := "set the same `gpus` for all: Spark has one number for a stage"
)


@pytest.mark.parametrize(
    ("more", "extra", "messages"),
    [
        *(
            (
                "cpus: 2",
                f"    {role}: {{hosts: {{b: }}}}\n",
                [f"14:5: error: Spark runs only tasks that train, and not the role `{role}`; {ELSEWHERE}"],
            )
            for role in ("evaluator", "serving", "notebook")
        ),
        ("cpus: 2", "    chief: {hosts: {a: }, vars: {tfprov: {gpus: 1}}}\n", [GPUS]),
        (
            "cpus: 2",
            "    other: {hosts: {c: {tfprov: {gpus: all}}}}\n",
            [
                "14:34: error: `gpus: all`: Spark counts GPUs; set a number, such as `gpus: 1`",
                f"14:34: error: the worker on c has another number of GPUs than the other tasks; {ALIKE}",
            ],
        ),
        (
            "mounts: [{source: /data, target: /data}, {source: /a, target: /b}]",
            "",
            [
                (
                    "10:48: error: `mounts[1]`: without containers a directory keeps its path, /a; "
                    "set the same `target`, or remove the mount"
                )
            ],
        ),
        (
            "code: one",
            "    chief: {hosts: {d: }, vars: {tfprov: {code: two}}}\n",
            ["10:7: error: a job carries only one `code`, and the roles have several; set the same for all", GPUS],
        ),
        (
            "checkpoints: {dir: 's3://b/run'}",
            "",
            [
                (
                    "9:21: error: `checkpoints.dir` is a URL, and tasks on Spark do not copy their checkpoints; "
                    "remove it; `--set checkpoints=/PATH` is a directory that all executors share"
                )
            ],
        ),
        (
            "checkpoints: {to: x, link: logs}",
            "",
            [
                (
                    "9:28: error: `checkpoints.link` works on tfprov's own hosts only: spark-submit does not create links; "
                    "remove it, and have the program save to `{{ checkpoint_dir }}`"
                )
            ],
        ),
    ],
)
def test_what_spark_does_not_have_is_refused_at_its_line(more: str, extra: str, messages: list[str]) -> None:
    text = INVENTORY.replace("      checkpoints: {to: saved}\n", "") if "checkpoints" in more else INVENTORY
    with pytest.raises(InvalidInput) as refusal:
        files_of(text.replace("MORE", more) + extra, "spark-submit")
    assert [str(problem) for problem in refusal.value.problems] == [f"inventory.yml:{message}" for message in messages]


RUN = """
import json, sys
from tfprov.spark.distributor.job import Job, run_program
run_program(Job(**json.load(sys.stdin)))
"""
PROGRAM = "import os, sys; print(sys.argv[1:], os.environ['LEVEL'], os.getcwd()); sys.exit(7)"


def test_the_same_mount_of_several_tasks_is_one_problem() -> None:
    with pytest.raises(InvalidInput) as refusal:
        files_of(INVENTORY.replace("MORE", "mounts: [{source: /a, target: /b}]"), "spark-submit")
    assert len([it for it in refusal.value.problems if "mounts[0]" in str(it)]) == 1
    assert "inventory.yml:10:" in str(refusal.value.problems[0])


def test_executors_need_no_image() -> None:
    """They run in the environment of the Spark cluster, so that the program is the one of an inventory with an image."""
    inventory = INVENTORY.replace("MORE", "").replace(", vars: {tfprov: {gpus: 2}}", "")
    without = inventory.replace('image: {name: "train:1.0"}', "")
    assert files_of(without, "spark-submit") == files_of(inventory, "spark-submit")


@pytest.mark.parametrize(("target", "settings"), [("spark-submit", ()), ("slurm", ("container=none",))])
def test_an_nfs_mount_is_refused_once(target: str, settings: tuple[str, ...]) -> None:
    mount = "mounts: [{nfs: {server: nas, path: /export}, target: /data}]"
    with pytest.raises(InvalidInput) as refusal:
        files_of(INVENTORY.replace("MORE", mount), target, *settings)
    (problem,) = (str(it) for it in refusal.value.problems)
    assert f"`mounts[0].nfs` works on tfprov's own hosts and on Kubernetes, and not in {target}" in problem


def test_large_code_is_refused_unless_it_is_on_the_executors_already() -> None:
    roles = roles_of(INVENTORY.replace("MORE", "code: lab"))
    target = find_target("spark-submit")

    def rendered(size: int, *settings: str) -> object:
        code = Code("lab", "sha256:1", bytes(size))
        return render(roles, target, settings, codes={(role.role, role.host): code for role in roles})

    assert rendered(64 << 20)
    with pytest.raises(
        InvalidInput, match="`code` is larger than the 64 MiB that a job carries; leave data out"
    ) as refused:
        rendered((64 << 20) + 1)
    assert {problem.at for problem in refused.value.problems} == {roles[-1].at("code")} != {roles[-1].at("")}
    assert rendered((64 << 20) + 1, "code=image")


def test_the_largest_needs_of_the_tasks_are_those_of_the_stage() -> None:
    job = job_of(
        more="cpus: 1.6\n      memory: 3g", extra="    chief: {hosts: {d: }, vars: {tfprov: {gpus: 2, memory: 4g}}}\n"
    )
    assert (job["cpus"], job["memory_mib"], job["gpus"]) == (2, 4096, 2)
    nothing = job_of(more="")
    assert (nothing["cpus"], nothing["memory_mib"]) == (0, 0)
    assert [job_of(more=f"cpus: {number}")["cpus"] for number in ("0.5", "2.5", "1.2")] == [1, 3, 2], "never less"


def test_a_task_fills_in_its_command_and_ends_with_its_exit_code(tmp_path: Path) -> None:
    job = job_of()
    words = ["python", "-c", PROGRAM, CHECKPOINTS, f"a=worker-1.{DOMAIN}:3", f"worker-0.{DOMAIN}", f"chief-9.{DOMAIN}"]
    words += ["--port=90000000001", "90000000009", "190000000001", f"xworker-1.{DOMAIN}:3"]
    job["tasks"][1]["command"] = words
    config = {"cluster": {"worker": ["h0:70", "h1:71"], "ps": ["h2:72"]}, "task": {"type": "worker", "index": 1}}
    own = {"TFPROV_TASK": "worker/1", "TFPROV_CHECKPOINT_DIR": "/run/ck", "TF_CONFIG": json.dumps(config)}
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(job), env={**os.environ, **own}, cwd=tmp_path,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    filled = ["/run/ck", "a=h1:71", "h0", f"chief-9.{DOMAIN}", "--port=70", "90000000009", "190000000001", "xh1:71"]
    assert done.stdout == f'{filled} it\'s "2" \\ é {tmp_path}/code\n'


WITHOUT_FILTERS = """
import tarfile
vars(tarfile).pop("data_filter", None)
whole = tarfile.TarFile.extractall
tarfile.TarFile.extractall = lambda archive, path: whole(archive, path)
"""


def test_code_is_unpacked_by_a_python_without_filters_of_archives(tmp_path: Path) -> None:
    job = job_of()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as files:
        files.addfile(tarfile.TarInfo("train.py"))
    job["code"] = base64.b64encode(gzip.compress(archive.getvalue())).decode()
    job["tasks"][1]["command"] = ["ls"]
    own = {"TFPROV_TASK": "worker/1", "TFPROV_CHECKPOINT_DIR": "/run/ck", "TF_CONFIG": "{}"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_FILTERS + RUN], input=json.dumps(job), env={**os.environ, **own},
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("train.py\n", 0), done.stderr


@pytest.mark.parametrize(("strategy", "slots"), [("between_graph", 6), ("in_graph", 4)])
def test_a_chief_of_its_own_that_computes_has_gpus_as_the_workers_have(strategy: str, slots: int) -> None:
    tasks: list[dict[str, Any]] = [
        {"name": name, "command": [], "env": {}} for name in ("chief/0", "worker/0", "worker/1", "ps/0")
    ]
    settings = {"spark.task.resource.gpu.amount": "2", "spark.master": "local[4]"}
    spark = SimpleNamespace(conf=SimpleNamespace(get=settings.get))
    job = Job(
        name="lab", strategy=strategy, tasks=tasks, secrets=(), gpus=2, gpu_resource="gpu", cpus=0, memory_mib=0,
        trusted_network=False, checkpoint_dir="", gather_to="x", domain=DOMAIN, checkpoint_placeholder=CHECKPOINTS, code="",
    )  # fmt: skip
    assert JobRunner(job, spark, {}).num_slots == slots


def job_with(cpus: int, memory_mib: int, gpus: int) -> Job:
    return Job(
        name="lab", strategy="single", tasks=(), secrets=(), gpu_resource="gpu", trusted_network=False, checkpoint_dir="",
        gather_to="x", domain=DOMAIN, checkpoint_placeholder=CHECKPOINTS, code="", cpus=cpus,
        memory_mib=memory_mib, gpus=gpus,
    )  # fmt: skip


MEMORY = "spark.executor.pyspark.memory"


@pytest.mark.parametrize(("cpus", "setting"), [(0, "4096m"), (1, "4096m"), (8, "32768m")])
def test_a_task_on_spark_has_all_of_its_memory(cpus: int, setting: str) -> None:
    settings = session_settings(job_with(cpus, 4096, gpus=0))
    assert settings[MEMORY] == setting
    assert settings.get("spark.executor.cores") == settings.get("spark.task.cpus") == (str(cpus) if cpus else None)


def test_a_task_with_gpus_on_spark_has_no_limit_of_addresses() -> None:
    settings = session_settings(job_with(2, 4096, gpus=1))
    assert MEMORY not in settings
    assert settings["spark.task.resource.gpu.amount"] == settings["spark.executor.resource.gpu.amount"] == "1"


def test_a_chief_alone_has_its_gpus() -> None:
    settings = (
        'cluster: lab, image: {name: "x:1"}, command: [python, x.py], strategy: single, wiring: tf_config, gpus: 1'
    )
    (text,) = files_of(
        f"all: {{vars: {{tfprov: {{{settings}}}}}}}\nchief: {{hosts: {{a: }}}}\n", "spark-submit"
    ).values()
    assert "    gpus=1,\n" in text
