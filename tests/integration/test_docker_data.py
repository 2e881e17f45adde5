"""Data that an engine fetches into a volume, whole or not at all, in a container that is removed."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.support.engine import Engine as PrivateEngine
from tests.support.images import Images
from tests.support.runtime_bench import container
from tests.support.waiting import LONG, until
from tests.support.webserver import BIG, Listener, WebServer, serving
from tfprov.errors import HostError
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.labels import data_volume_name
from tfprov.hosts.docker.runtime import DockerRuntime
from tfprov.model.cluster import Task
from tfprov.model.state import Container, DataSet, DockerOptions

CLUSTER = "fetching"
SHOW = """
import os
print([(name, open(f"/data/{name}").read()) for name in sorted(os.listdir("/data"))])
try: open("/data/new", "w")
except OSError as error: print(error.strerror)
"""
"""What a task does that looks at its data, and then tries to write there."""


class DataBench:
    """A docker runtime on the tests' engine, and a web server that its containers reach."""

    def __init__(self, engine: PrivateEngine, image: str, web: WebServer) -> None:
        self.client, self.image, self.web = engine.client, image, web
        self.address = str(engine.network.inside)
        self.socket = Path(engine.socket)
        self.runtime = DockerRuntime(Engine.local("h", self.socket), CLUSTER, lambda *_: True, lambda _: (0, ""))

    def fetch(self, data: DataSet, image: str | None = None) -> Listener:
        listener = Listener()
        self.runtime.fetch(data, ["tfprov/none:there", image or self.image], listener)
        return listener

    def refused(self, data: DataSet) -> str:
        with pytest.raises(HostError) as caught:
            self.fetch(data)
        assert self.delivered() == frozenset()
        return str(caught.value)

    def delivered(self) -> frozenset[str]:
        return frozenset(one for one in self.runtime.observe().delivered if one.startswith("data:"))

    def containers(self) -> list[Any]:
        ours = f"tfprov.cluster={CLUSTER}"
        return list(self.client.containers.list(all=True, filters={"label": ours}, ignore_removed=True))

    def volumes(self) -> set[str]:
        return {str(volume.name) for volume in self.client.volumes.list(filters={"label": f"tfprov.cluster={CLUSTER}"})}

    def task(self, data: DataSet, name: str = "worker/0", command: str = SHOW) -> Container:
        job, _, index = name.partition("/")
        wanted = container(name, ["python3", "-c", command], data=data.artifact, checkpoint_dir="/checkpoints")
        task = Task(job, int(index), job, "h", self.address, wanted.task.port)
        return replace(wanted, task=task, docker=DockerOptions(self.image, address=self.address, data_at="/data"))

    def ends(self, task: str) -> list[str]:
        """Wait until a task has ended, and return what it printed."""
        until(lambda: any(one.task == task and one.finished_at for one in self.runtime.observe().containers))
        return list(self.runtime.logs(task))

    def close(self) -> None:
        self.web.release.set()
        for made in self.containers():
            made.remove(force=True)
        for name in self.volumes():
            self.client.volumes.get(name).remove(force=True)
        self.runtime.engine.close()


@pytest.fixture
def bench(engine: PrivateEngine, images: Images) -> Iterator[DataBench]:
    with serving(str(engine.network.outside)) as web:
        made = DataBench(engine, images.python(), web)
        try:
            yield made
        finally:
            made.close()


def test_data_is_fetched_once_and_shared_and_read_only(bench: DataBench) -> None:
    data = bench.web.set_of(train=b"a lot", test=b"less")
    listener = bench.fetch(data)
    assert listener.moves[-1] == (9, 9)
    assert bench.delivered() == {data.artifact}
    assert bench.containers() == []
    bench.fetch(data)
    assert len(bench.web.requests) == 2
    for name in ("worker/0", "worker/1"):
        bench.runtime.start(bench.task(data, name), "run")
        assert bench.ends(name) == ["[('test', 'less'), ('train', 'a lot')]", "Read-only file system"]


def test_the_container_of_a_fetch_has_no_other_rights(bench: DataBench) -> None:
    data = bench.web.set_of(train=BIG)
    bench.web.held = {"/train"}
    thread = threading.Thread(target=bench.fetch, args=(data,))
    thread.start()
    until(lambda: bool(bench.web.halves))
    (made,) = bench.containers()
    output = made.attrs["HostConfig"]
    assert (output["CapDrop"], output["SecurityOpt"], output["PidsLimit"]) == (["ALL"], ["no-new-privileges"], 64)
    assert (output["AutoRemove"], output["Privileged"], output["Memory"], output["LogConfig"]["Type"]) == (
        True, False, 512 << 20, "none",
    )  # fmt: skip
    assert {"tfprov.cluster": CLUSTER, "tfprov.data": data.key}.items() <= made.labels.items()
    assert bench.delivered() == frozenset()
    assert bench.runtime.observe().containers == ()
    bench.web.release.set()
    thread.join(LONG)
    assert bench.delivered() == {data.artifact}


@pytest.mark.parametrize("user", ["65534", "0"])
def test_any_user_of_an_image_can_fetch_and_read(bench: DataBench, user: str, engine: PrivateEngine) -> None:
    made = engine.client.containers.create(bench.image, "true")
    try:
        repository, tag = "tfprov-test-user", user
        made.commit(repository=repository, tag=tag, changes=[f"USER {user}"])
    finally:
        made.remove()
    bench.image = f"{repository}:{tag}"
    try:
        data = bench.web.set_of(train=b"a lot")
        bench.fetch(data)
        bench.runtime.start(bench.task(data, command="print(open('/data/train').read())"), "run")
        assert bench.ends("worker/0") == ["a lot"]
        bench.runtime.remove("worker/0")
    finally:
        engine.client.images.remove(bench.image, force=True)


def test_a_failed_fetch_is_reported_and_leaves_nothing(bench: DataBench) -> None:
    bench.web.put("/train", b"other")
    says = bench.refused(DataSet((bench.web.named("/train", "0" * 64),)))
    assert says.startswith(f"h: train from {bench.web.base}/train: its sha256 is ")
    assert "is not there (404); correct `url`" in bench.refused(DataSet((bench.web.named("/none", "0" * 64),)))
    assert bench.containers() == []


def test_an_image_without_python_is_reported(bench: DataBench, images: Images) -> None:
    with pytest.raises(HostError) as caught:
        bench.fetch(bench.web.set_of(train=BIG), images.tiny())
    assert str(caught.value) == (
        "h: the image has no python3, which fetching data needs; "
        "add Python to it, or put the data on the host and set `data: {path: …}`"
    )
    assert bench.containers() == []


def test_a_killed_fetch_of_an_engine_is_not_delivered_and_resumes(bench: DataBench) -> None:
    data, errors = bench.web.set_of(train=BIG), []
    bench.web.held = {"/train"}

    def fetch() -> None:
        try:
            bench.fetch(data)
        except HostError as error:
            errors.append(str(error))

    thread = threading.Thread(target=fetch)
    thread.start()
    until(lambda: bool(bench.web.halves))
    bench.containers()[0].kill()
    thread.join(LONG)
    assert errors == ["h: the data was not fetched to its end: it was ended; run this again: it goes on where it was"]
    assert (bench.delivered(), bench.containers()) == (frozenset(), [])
    with pytest.raises(HostError, match="the data of worker/0 is not there"):
        bench.runtime.start(bench.task(data), "run")
    bench.web.held = set()
    bench.fetch(data)
    assert bench.delivered() == {data.artifact}
    assert bench.web.requests[-1][1].startswith("bytes=")


def test_a_fetch_ends_with_its_caller(bench: DataBench) -> None:
    data = bench.web.set_of(train=BIG)
    bench.web.held = {"/train"}
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tfprov.hosts.docker.runtime import DockerRuntime\n"
        "from tfprov.hosts.docker.engine import Engine\n"
        "from tfprov.hosts.data_download import FetchProgress\n"
        "from tfprov.model.state import DataFile, DataSet\n"
        "socket, cluster, image, *file = sys.argv[1:]\n"
        "runtime = DockerRuntime(Engine.local('h', Path(socket)), cluster, lambda *_: True, lambda _: (0, ''))\n"
        "runtime.fetch(DataSet((DataFile(*file),)), [image], FetchProgress(lambda *_: None, print))\n"
    )
    file = data.files[0]
    words = [str(bench.socket), CLUSTER, bench.image, file.name, file.url, file.sha256]
    asking = subprocess.Popen([sys.executable, "-c", program, *words])
    until(lambda: bool(bench.web.halves))
    os.kill(asking.pid, signal.SIGKILL)
    asking.wait()
    until(lambda: bench.containers() == [])
    assert bench.delivered() == frozenset()


def test_a_seal_does_not_count_for_a_volume_created_later(bench: DataBench) -> None:
    data = bench.web.set_of(train=b"a lot")
    bench.fetch(data)
    bench.client.volumes.get(data_volume_name(CLUSTER, data.key)).remove()
    assert bench.delivered() == frozenset()
    bench.web.answers = {"/train": 404}
    bench.refused(data)
    bench.web.answers = {}
    bench.fetch(data)
    assert bench.delivered() == {data.artifact}


def test_a_volume_of_somebody_else_is_not_touched(bench: DataBench) -> None:
    data = bench.web.set_of(train=b"a lot")
    name = data_volume_name(CLUSTER, data.key)
    theirs = bench.client.volumes.create(name)
    try:
        assert bench.refused(data) == f"h: the volume {name} is not ours; remove it: `docker volume rm {name}`"
    finally:
        theirs.remove()


def test_two_concurrent_fetches_share_one_download(bench: DataBench) -> None:
    data, other = bench.web.set_of(train=BIG), Engine.local("h", bench.socket)
    bench.web.held = {"/train"}
    runtimes = [bench.runtime, DockerRuntime(other, CLUSTER, lambda *_: True, lambda _: (0, ""))]
    listeners = [Listener(), Listener()]
    threads = [
        threading.Thread(target=runtime.fetch, args=(data, [bench.image], listener))
        for runtime, listener in zip(runtimes, listeners, strict=True)
    ]
    for thread in threads:
        thread.start()
    until(lambda: any("is being fetched there already" in note for one in listeners for note in one.notes))
    bench.web.release.set()
    for thread in threads:
        thread.join(LONG)
    other.close()
    assert bench.delivered() == {data.artifact}
    assert len(bench.web.requests) == 1
    assert bench.containers() == []


def test_unused_data_volumes_are_removed(bench: DataBench) -> None:
    old, read, wanted = (bench.web.set_of(**{name: name.encode()}) for name in ("old", "read", "wanted"))
    for data in (old, read, wanted):
        bench.fetch(data)
    bench.runtime.start(bench.task(read), "run")
    assert bench.runtime.remove_unused_data([wanted.artifact]) == 1
    assert bench.delivered() == {read.artifact, wanted.artifact}
    bench.ends("worker/0")
    bench.runtime.remove("worker/0")
    left = bench.client.api.create_container(
        bench.image, "true", labels={"tfprov.cluster": CLUSTER, "tfprov.data": read.key},
        host_config=bench.client.api.create_host_config(
            mounts=[docker.types.Mount("/x", data_volume_name(CLUSTER, read.key), type="volume")]
        ),
    )  # fmt: skip
    assert left["Id"]
    bench.runtime.clean([wanted.artifact])
    assert bench.delivered() == {wanted.artifact}
    assert bench.volumes() == {data_volume_name(CLUSTER, wanted.key), data_volume_name(CLUSTER, wanted.key) + "-whole"}
    bench.runtime.clean()
    assert (bench.volumes(), bench.containers()) == (set(), [])
