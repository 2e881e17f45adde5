"""A rendered job: `tfprov render spark-submit` writes a `Job`, which `run_job` runs in Spark's driver.

Its programs are commands. Addresses in them are placeholders until the tasks have executors.
"""

import base64
import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tfprov.errors import TfprovError
from tfprov.spark.distributor.runner import TensorFlowRunner
from tfprov.spark.distributor.slots import gpu_users
from tfprov.tfrecord.extra import require


@dataclass(frozen=True)
class Job:
    """A cluster as a job. `tasks` have a `name`, a `command` and an `env` each; the chief is the first.

    `gpus` are those of a task that computes; `cpus` and `memory_mib` those of a task, 0 for Spark's own settings. `code` is
    a gzipped tar in base64, empty for none. Without a `checkpoint_dir`, the newest checkpoint is written to `gather_to`.
    `ports` has the name of the task for each placeholder port; jobs of earlier versions have none.
    """

    name: str
    strategy: str
    tasks: Sequence[Mapping[str, Any]]
    secrets: Sequence[str]
    gpus: int
    gpu_resource: str
    cpus: int
    memory_mib: int
    trusted_network: bool
    checkpoint_dir: str
    gather_to: str
    domain: str
    checkpoint_placeholder: str
    code: str
    ports: Mapping[str, str] = field(default_factory=dict)


def run_job(job: Job, environ: Mapping[str, str] = os.environ) -> int:
    """Run the job, and return its exit code: that of the task that failed first, else 0."""
    missing = [name for name in job.secrets if not environ.get(name)]
    if missing:
        return _fail(f"{', '.join(missing)} must be set in the environment: secrets are not in the job", 2)
    spark = _session(job)
    try:
        runner = JobRunner(job, spark, {name: environ[name] for name in job.secrets})
        runner.run(partial(run_program, job))
    except (TfprovError, ValueError) as error:
        return _fail(str(error), getattr(error, "code", 0) or getattr(error, "exit_code", 1))
    finally:
        spark.stop()
    if runner.checkpoint is not None:
        sys.stderr.write(f"tfprov: {runner.checkpoint.path} has {runner.checkpoint.tensors} tensors\n")
    return 0


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"tfprov: error: {message}\n")
    return int(code)


def _session(job: Job) -> Any:
    builder = require("pyspark.sql", "spark").SparkSession.builder.appName(job.name)
    for name, value in session_settings(job).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def session_settings(job: Job) -> dict[str, str]:
    """Return what `job` sets of Spark.

    Spark divides `spark.executor.pyspark.memory` by the cores of the executor, which are those of one task here, and limits
    the address space of the task's processes to that. With GPUs it is left out: CUDA reserves tens of GB of addresses.
    """
    memory = 0 if job.gpus else job.memory_mib * max(1, job.cpus)
    settings = {
        f"spark.task.resource.{job.gpu_resource}.amount": job.gpus,
        f"spark.executor.resource.{job.gpu_resource}.amount": job.gpus,
        "spark.task.cpus": job.cpus,
        "spark.executor.cores": job.cpus,
        "spark.executor.pyspark.memory": f"{memory}m" if memory else 0,
    }
    return {name: str(value) for name, value in settings.items() if value}


class JobRunner(TensorFlowRunner):
    """Has the tasks of the inventory, with its names."""

    def __init__(self, job: Job, spark: Any, secrets: Mapping[str, str]) -> None:
        names = tuple(str(task["name"]) for task in job.tasks)
        super().__init__(
            num_slots=len(gpu_users(job.strategy, names)) * max(1, job.gpus),
            use_gpu=job.gpus > 0,
            gpu_resource_name=job.gpu_resource,
            use_custom_strategy=True,
            trusted_network=job.trusted_network,
            env=secrets,
            checkpoint_dir=job.checkpoint_dir or None,
            gather_to=None if job.checkpoint_dir else job.gather_to,
            spark=spark,
        )
        self.strategy, self.names = job.strategy, names


_FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python 3.11.2, of Debian 12, has no filters. tfprov packed the code."""


def run_program(job: Job) -> None:
    """Run the command of this task, in a copy of the code; the function of the training."""
    name = os.environ["TFPROV_TASK"]
    task = next(task for task in job.tasks if task["name"] == name)
    endpoints = _endpoints(job)
    directory = Path.cwd() / "code"
    directory.mkdir()
    if job.code:
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(base64.b64decode(job.code)))) as archive:
            archive.extractall(directory, **_FILTER)  # noqa: S202  see there
    words = [_filled(job, word, endpoints) for word in task["command"]]
    if words[0] in ("python", "python3"):
        words[0] = sys.executable
    own = {variable: _filled(job, value, endpoints) for variable, value in task["env"].items()}
    done = subprocess.run(words, cwd=directory, env={**os.environ, **own}, check=False)
    if done.returncode:
        raise SystemExit(done.returncode if done.returncode > 0 else 128 - done.returncode)


def _endpoints(job: Job) -> dict[str, str]:
    """Return the address and port of each task, by the first label of its placeholder."""
    cluster = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
    named = ((task["name"].partition("/")) for task in job.tasks)
    return {f"{kind}-{index}": cluster[kind][int(index)] for kind, _, index in named if kind in cluster}


def _filled(job: Job, text: str, endpoints: Mapping[str, str]) -> str:
    """Return `text` with the addresses, and the checkpoint directory, of this run."""

    def address(match: re.Match[str]) -> str:
        endpoint = endpoints.get(match[1] or job.ports.get(match[3], ""))
        if endpoint is None:
            return match[0]
        host, _, port = endpoint.rpartition(":")
        return port if match[3] else endpoint if match[2] else host

    kinds = "|".join(sorted({task["name"].partition("/")[0] for task in job.tasks}))
    names = rf"((?:{kinds})-[0-9]+)\.{re.escape(job.domain)}(:[0-9]+)?"
    text = re.sub(rf"{names}|(?<![0-9])([0-9]{{11}})(?![0-9])", address, text)
    return text.replace(job.checkpoint_placeholder, os.environ["TFPROV_CHECKPOINT_DIR"])
