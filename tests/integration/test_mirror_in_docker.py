"""The mirror of a checkpoint directory in containers: a real engine, a real S3 server, and a host that is lost."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import seaweedfs
from tests.support.engine import Engine as PrivateEngine
from tests.support.images import Images
from tests.support.runtime_bench import code, container
from tests.support.seaweedfs import S3Server
from tests.support.waiting import until
from tests.support.webserver import Listener
from tfprov.engine.checks.remote_data import in_container
from tfprov.errors import HostError
from tfprov.filesystems.generations import read_newest
from tfprov.filesystems.remote_dir import open_remote
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.image_contents import run_in_image
from tfprov.hosts.docker.remote_probe import probe_in_container
from tfprov.hosts.docker.runtime import DockerRuntime
from tfprov.images.code_layer import code_archive
from tfprov.model.cluster import Task
from tfprov.model.state import Container, DataSet, DockerOptions, State

URL = f"s3://{seaweedfs.BUCKET}/docker"
OURS: dict[str, Any] = {"label": "tfprov.cluster=mirrored"}
PROGRAM = """
import os, signal, sys, time
directory = os.environ["TFPROV_CHECKPOINT_DIR"]
steps = [int(name[11:-6]) for name in os.listdir(directory) if name.endswith(".index")]
step = max(steps, default=0)
print("begins at", step, flush=True)
def save(step):
    for end in ("data-00000-of-00001", "index"):
        with open(f"{directory}/model.ckpt-{step}.{end}.part", "w") as file:
            file.write(f"weights of {step} " * 1000)
        os.rename(file.name, file.name[:-5])
def stop(number, frame):
    save(step + 2)
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
save(step + 1)
time.sleep(600)
"""


class MirrorBench:
    """A chief whose checkpoints are mirrored, on the tests' engine."""

    def __init__(self, engine: PrivateEngine, image: str, server: S3Server, directory: Path) -> None:
        self.client, self.server = engine.client, server
        self.image = str(engine.client.images.get(image).id)
        self.address = str(engine.network.inside)
        self.code = code(directory / "code", program=PROGRAM)
        self.engine = Engine.local("h", Path(engine.socket))
        archive = code_archive(self.code)
        self.runtime = DockerRuntime(self.engine, "mirrored", lambda *_: True, lambda _: (0, ""), lambda _: archive)

    def chief(self) -> Container:
        argv = ["python3", "-m", "tfprov.runtime.mirror.task", "--", "python3", "program.py"]
        wanted = container("worker/0", argv, checkpoint_dir="/checkpoints", remote=URL)
        env = {
            **self.server.env,
            "TFPROV_CHECKPOINT_URL": URL,
            "TFPROV_CHECKPOINT_DIR": "/checkpoints",
            "TFPROV_CLUSTER": "mirrored",
        }
        secret = frozenset({"AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"})
        options = DockerOptions(self.image, address=self.address, code=self.code.digest, has_code=True)
        task = Task("worker", 0, "worker", "h", self.address, wanted.task.port)
        return replace(wanted, task=task, env=env, secret=secret, docker=options)

    def mirrored(self) -> list[int]:
        manifest = read_newest(open_remote(URL, self.server.env))
        return [one.step for one in manifest.checkpoints] if manifest else []

    def log(self) -> str:
        return "\n".join(self.runtime.logs("worker/0"))

    def lose_the_host(self) -> None:
        """Remove container and volume without any chance to save."""
        for one in self.client.containers.list(all=True, filters=OURS, ignore_removed=True):
            one.remove(force=True)
        for volume in self.client.volumes.list(filters=OURS):
            volume.remove(force=True)

    def close(self) -> None:
        self.lose_the_host()


@pytest.fixture
def bench(engine: PrivateEngine, images: Images, s3_for_containers: S3Server, tmp_path: Path) -> Iterator[MirrorBench]:
    made = MirrorBench(engine, images.s3(), s3_for_containers, tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_data_in_s3_is_copied_into_a_volume_with_the_image_of_the_tasks(bench: MirrorBench, images: Images) -> None:
    url = f"s3://{seaweedfs.BUCKET}/data"
    remote = open_remote(url, bench.server.env)
    remote.write("train/part-0", [b"first"])
    data = DataSet((), url, bench.server.env)
    with pytest.raises(HostError, match=r"the image has no tfprov\.runtime, which copying remote data needs"):
        bench.runtime.fetch(data, [images.s3()], Listener())
    image = images.s3_with_runtime()
    reader = replace(bench.chief(), docker=DockerOptions(image, address=bench.address))
    assert in_container(bench.engine, "mirrored", url, reader).what == f"{url} can be read: 1 file, 5 bytes"
    without = replace(reader, docker=DockerOptions(images.s3(), address=bench.address))
    assert in_container(bench.engine, "mirrored", url, without).what.endswith("the image has no tfprov.runtime")
    bench.runtime.fetch(data, [image], Listener())
    assert bench.runtime.observe().delivered == {data.artifact}
    show = ["python3", "-c", "print(open('/data/train/part-0').read())"]
    wanted = replace(bench.chief(), argv=tuple(show), data=data.artifact, remote=None)
    assert wanted.docker is not None
    bench.runtime.start(replace(wanted, docker=replace(wanted.docker, data_at="/data")), "run-1")
    until(lambda: bench.log() == "first", "it reads the data")
    find = "import importlib.util as u, sys; sys.exit(3 if u.find_spec({!r}) is None else 0)"
    codes = [
        run_in_image(bench.engine, bench.chief(), {}, ["python3", "-c", find.format(m)]) for m in ("s3fs", "gcsfs")
    ]
    assert codes == [0, 3]


def test_a_container_goes_on_from_s3_after_its_host_is_lost(bench: MirrorBench) -> None:
    request = json.dumps({"url": URL, "cluster": "mirrored", "env": bench.server.env}).encode() + b"\n"
    probe = probe_in_container(
        bench.engine, bench.chief(), "mirrored", ["python3", "-c", "print(input()[:5])"], request
    )
    assert probe.strip() == b'{"url'
    bench.runtime.start(bench.chief(), "run-1")
    until(lambda: bench.mirrored() == [1], "the first checkpoint is in S3")
    (chief,) = bench.client.containers.list(filters=OURS)  # others have a worker/0 on the engine, too
    assert seaweedfs.SECRET not in json.dumps(chief.attrs)
    assert seaweedfs.SECRET not in bench.log()
    bench.lose_the_host()
    bench.runtime.start(bench.chief(), "run-2")
    until(lambda: bench.mirrored() == [1, 2], "it goes on")
    until(lambda: "begins at 1" in bench.log(), "the engine has its line")
    assert f"restored model.ckpt-1 from {URL}" in bench.log()
    bench.runtime.stop("worker/0", 60)
    (seen,) = bench.runtime.observe().containers
    assert (seen.state, seen.exit_code) == (State.EXITED, 143)
    assert bench.mirrored() == [1, 2, 3]
