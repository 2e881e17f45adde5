"""Rendered clusters run under docker-compose, on a swarm of one node, and as a Slurm job; the last test of each trains."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import docker
import pytest

from tests.support.engine import Engine
from tests.support.images import Images
from tests.support.paths import PROGRAMS, ROOT
from tests.support.ports import free_ports
from tests.support.slurm import Allocation
from tests.support.waiting import LONG, until
from tests.support.warm import interpreter

STANDIN = """
all:
  vars:
    tfprov:
      cluster: law
      image: {name: "IMAGE"}
      command: [task]
      flags: {train_steps: 12, step_seconds: "0.2", save_every: 4, note: "it's $HOME and ${PATH} \\"q\\""}
      env: {GREETING: "$HOME 'x'"}
      restart: never
      stop_grace: 5
  children:
    ps: {hosts: {a: }}
    chief: {hosts: {b: }}
    worker: {hosts: {c: }, vars: {tfprov: {flags: {train_steps: 2}}}}
    evaluator:
      hosts: {b: }
      vars: {tfprov: {command: [sh, -c, "while ! ls /checkpoints/checkpoint; do sleep 0.2; done; sleep 600"]}}
"""
"""A chief that trains longer than the other worker, a ps that never ends, and somebody who reads what the chief writes."""
TRAINING = """
all:
  vars:
    tfprov:
      cluster: linear
      image: {name: "IMAGE"}
      code: PROGRAMS
      command: [python, linear.py]
      flags: {train_steps: 600, save_every_steps: 200}
      env: {TF_CPP_MIN_LOG_LEVEL: "2", TF_ENABLE_ONEDNN_OPTS: "0"}
      checkpoints: {to: HERE/checkpoints}
      restart: never
  children:
    ps: {hosts: {localhost: }}
    worker: {hosts: {localhost: }, vars: {tfprov: {tasks_per_host: 2}}}
"""


def render(directory: Path, target: str, inventory: str, values: Mapping[str, str], *settings: str) -> Path:
    """Render an inventory as a user does; return the file."""
    for name, value in values.items():
        inventory = inventory.replace(name, value)
    (directory / "inventory.yml").write_text(inventory)
    path = directory / {"compose": "compose.yml", "swarm": "stack.yml", "slurm": "job.sbatch"}[target]
    options = [word for one in settings for word in ("--set", one)]
    command = [sys.executable, "-m", "tfprov", "render", target, "-i", "inventory.yml", "-o", str(path), *options]
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return path


@dataclass
class Tools:
    """The command lines of the tests' engine, and what it has to be cleaned of."""

    engine: Engine
    directory: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.env = {**os.environ, "DOCKER_HOST": self.engine.url, "DOCKER_CONFIG": str(self.directory / "docker")}

    def __call__(self, *command: str, code: int | None = 0, timeout: float = LONG) -> str:
        done = subprocess.run(
            command, env=self.env, cwd=self.directory, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, timeout=timeout, check=False,
        )  # fmt: skip
        assert code is None or done.returncode == code, f"exit code {done.returncode} instead of {code}:\n{done.stdout}"
        return done.stdout

    def files(self, image: str, volume: str) -> dict[str, bytes]:
        """Return the files in a volume."""
        mount = docker.types.Mount("/v", volume, read_only=True)
        container = self.engine.client.containers.create(image, mounts=[mount])
        try:
            data = b"".join(container.get_archive("/v")[0])
        finally:
            container.remove(force=True)
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            result = {}
            for member in archive.getmembers():
                content = archive.extractfile(member)
                if member.isfile() and content:
                    result[member.name.removeprefix("v/")] = content.read()
        return result

    def running(self, project: str) -> set[str]:
        """Return the tasks of which a container runs: `ps/0`."""
        result = set()
        for container in self.engine.client.containers.list(ignore_removed=True):
            output = dict(item.partition("=")[::2] for item in container.attrs["Config"]["Env"])
            if output.get("TFPROV_CLUSTER") == project:
                result.add(output["TFPROV_TASK"])
        return result


@pytest.fixture
def tools(private_engine: Engine, tmp_path: Path) -> Iterator[Tools]:
    yield Tools(private_engine, tmp_path)
    # Nothing but its own: the engine may have the hosts of other tests.
    for volume in private_engine.client.volumes.list():
        if volume.name.startswith(("law_", "linear_")):
            volume.remove(force=True)


@pytest.fixture
def swarm(private_engine: Engine, tools: Tools) -> Iterator[None]:
    """The engine as a swarm of one node; what runs in it besides is not touched."""
    client = private_engine.client
    client.swarm.init(advertise_addr="127.0.0.1", listen_addr="127.0.0.1")
    yield
    for service in client.services.list():
        service.remove()  # type: ignore[no-untyped-call]
    ours: dict[str, str | list[str] | bool] = {"label": "com.docker.swarm.service.id"}
    until(lambda: not client.containers.list(filters=ours, ignore_removed=True), "the swarm's containers end")

    def removed() -> bool:
        left = client.containers.list(all=True, filters=ours, ignore_removed=True)
        for container in left:
            with contextlib.suppress(docker.errors.APIError):  # the swarm removes some itself
                container.remove(force=True)
        return not left

    until(removed, "the swarm's containers are removed")
    client.swarm.leave(force=True)

    def has_no_bridge() -> bool:
        left = client.networks.list(names=["docker_gwbridge"])
        for network in left:
            with contextlib.suppress(docker.errors.APIError):  # an end of the swarm's own network is on it for a moment
                network.remove()
        return not left

    until(has_no_bridge, "the swarm's bridge is removed")


# -- Compose ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def compose(tools: Tools) -> Iterator[list[str]]:
    """The words before a command of Compose: that of Debian 12, or else the one of today."""
    plugin = not shutil.which("docker-compose")
    if plugin and subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        (pytest.fail if os.environ.get("TFPROV_TESTS_ENGINE") == "required" else pytest.skip)("no docker-compose")
    command = [*(["docker", "compose"] if plugin else ["docker-compose"]), "-p", "law", "-f", "compose.yml"]
    yield command
    tools(*command, "down", "--volumes", code=None)


def test_compose_ends_with_its_chief_and_not_with_a_worker(tools: Tools, images: Images, compose: list[str]) -> None:
    tiny = images.tiny()
    render(tools.directory, "compose", STANDIN, {"IMAGE": tiny})
    printed = tools(*compose, "up", "--no-color", "--exit-code-from", "worker-0", "worker-0")
    assert "done: step=12" in printed
    assert tools.running("law") >= {"ps/0", "evaluator/0"}
    tools(*compose, "down")
    assert not tools.running("law")
    files = tools.files(tiny, "law_checkpoints")
    assert b"model.ckpt-12" in files["checkpoint"]


def test_compose_ends_with_the_chiefs_exit_code(tools: Tools, images: Images, compose: list[str]) -> None:
    inventory = STANDIN.replace("chief: {hosts: {b: }}", "chief: {hosts: {b: }, vars: {tfprov: {flags: {fail_at: 6}}}}")
    render(tools.directory, "compose", inventory, {"IMAGE": images.tiny()})
    printed = tools(*compose, "up", "--no-color", "--exit-code-from", "worker-0", "worker-0", code=7)
    assert "failing at step 6" in printed


def test_compose_passes_shell_metacharacters_unchanged(tools: Tools, images: Images, compose: list[str]) -> None:
    render(tools.directory, "compose", STANDIN, {"IMAGE": images.tiny()})
    tools(*compose, "up", "--no-start")
    (chief,) = (
        one
        for one in tools.engine.client.containers.list(all=True, ignore_removed=True)
        if {"TFPROV_CLUSTER=law", "TFPROV_TASK=worker/0"} <= set(one.attrs["Config"]["Env"])
    )
    assert '--note=it\'s $HOME and ${PATH} "q"' in chief.attrs["Config"]["Entrypoint"]
    assert "GREETING=$HOME 'x'" in chief.attrs["Config"]["Env"]
    assert not chief.attrs["Config"]["Cmd"]
    assert not chief.attrs["HostConfig"]["PortBindings"]


@pytest.mark.tensorflow
def test_compose_trains(tools: Tools, images: Images, compose: list[str]) -> None:
    train = images.train()
    render(
        tools.directory, "compose", TRAINING, {"IMAGE": train, "PROGRAMS": str(PROGRAMS), "HERE": str(tools.directory)}
    )
    printed = tools(*compose, "up", "--no-color", "--exit-code-from", "worker-0", "worker-0")
    assert "done: step=" in printed
    assert_whole(tools.files(train, "law_checkpoints"))


# -- Swarm --------------------------------------------------------------------------------------------------------------


def states(engine: Engine, service: str) -> list[str]:
    """Return the states of all tasks that a service has had, the newest last."""
    tasks = engine.client.services.get(service).tasks()  # type: ignore[no-untyped-call]
    return [task["Status"]["State"] for task in sorted(tasks, key=lambda task: str(task["CreatedAt"]))]


def test_a_stack_trains_once_and_its_ps_stays_until_it_is_removed(tools: Tools, images: Images, swarm: None) -> None:
    tiny = images.tiny()
    render(tools.directory, "swarm", STANDIN, {"IMAGE": tiny})
    tools("docker", "stack", "deploy", "--resolve-image", "never", "-c", "stack.yml", "law")
    until(lambda: states(tools.engine, "law_worker-0") == ["complete"], "the chief is done")
    until(lambda: states(tools.engine, "law_worker-1") == ["complete"], "the worker is done")
    until(lambda: tools.running("law") == {"ps/0", "evaluator/0"}, "the others alone still run")
    for service in tools.engine.client.services.list():
        assert not service.attrs["Endpoint"].get("Ports")
        assert service.attrs["Spec"]["EndpointSpec"]["Mode"] == "dnsrr"
        assert "Args" not in service.attrs["Spec"]["TaskTemplate"]["ContainerSpec"]
    tools("docker", "stack", "rm", "law")
    until(lambda: not tools.running("law"), "the stack ends")
    assert b"model.ckpt-12" in tools.files(tiny, "law_checkpoints")["checkpoint"]


@pytest.mark.tensorflow
@pytest.mark.matrix
def test_a_stack_trains(tools: Tools, images: Images, swarm: None) -> None:
    image = with_code(tools, images.train())
    values = {"IMAGE": image, "PROGRAMS": str(PROGRAMS), "HERE": str(tools.directory)}
    render(tools.directory, "swarm", TRAINING, values, "code=image")
    tools("docker", "stack", "deploy", "--resolve-image", "never", "-c", "stack.yml", "linear")
    until(lambda: states(tools.engine, "linear_worker-0") == ["complete"], "the chief is done")
    tools("docker", "stack", "rm", "linear")
    until(lambda: not tools.running("linear"), "the stack ends")
    assert_whole(tools.files(image, "linear_checkpoints"))


def with_code(tools: Tools, base: str) -> str:
    """Return an image with the programs and tfprov's runtime, as a user would build one for an engine with a registry."""
    context = tools.directory / "image"
    shutil.copytree(PROGRAMS, context / "programs")
    shutil.copytree(ROOT / "tfprov", context / "tfprov", ignore=shutil.ignore_patterns("__pycache__"))
    lines = [f"FROM {base}", "COPY programs /code", "COPY tfprov /tfprov/tfprov", "ENV PYTHONPATH=/tfprov"]
    (context / "Dockerfile").write_text("\n".join(lines))
    tag = "tfprov-test/rendered:1"
    tools.engine.client.images.build(path=str(context), tag=tag, rm=True)
    return tag


def assert_whole(files: Mapping[str, bytes]) -> None:
    """A checkpoint that a program can restore: its name, its index and its data."""
    name = files["checkpoint"].split(b'"')[1].rpartition(b"/")[2].decode()
    assert int(name.rpartition("-")[2]) >= 600
    assert {f"{name}.index", f"{name}.data-00000-of-00001"} <= set(files)


# -- Slurm --------------------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.lane("tensorflow")
def test_a_slurm_job_trains(tmp_path: Path) -> None:
    inventory = TRAINING.replace('image: {name: "IMAGE"}', "runtime: process")
    values = {"PROGRAMS": str(PROGRAMS), "HERE": str(tmp_path)}
    script = render(tmp_path, "slurm", inventory, values, f"port={free_ports(3)}").read_text()
    # Its own Python first: the one that has TensorFlow.
    search = f"{tmp_path / 'bin'}{os.pathsep}{interpreter().executable().parent}{os.pathsep}{os.environ['PATH']}"
    code, printed = Allocation(tmp_path / "bin", [1, 2]).run(script, {"PATH": search}, timeout=LONG)
    assert code == 0, printed
    assert "worker/0 | done: step=" in printed
    folder = tmp_path / "checkpoints" / "linear-slurm"
    assert_whole({path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()})
    assert not [line for line in printed.splitlines() if "Traceback" in line]
