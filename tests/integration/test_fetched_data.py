"""`data: {fetch: …}` through the command line: with processes on this machine, and on hosts over SSH."""

import hashlib
import json
import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.lab_cluster import LabCluster, open_lab_cluster
from tests.support.local_cluster import LocalCluster
from tests.support.testhosts import Lab
from tests.support.waiting import LONG, until
from tests.support.webserver import BIG, WebServer, serving

READER = """
import os, socket, sys
where = sys.argv[1]
assert where == os.environ.get("TFPROV_DATA_DIR", where)
if os.path.isdir(where): print({name: os.path.getsize(f"{where}/{name}") for name in sorted(os.listdir(where))}, flush=True)
server = socket.create_server(("0.0.0.0", int(sys.argv[2])))
while True: server.accept()[0].close()
"""
"""Says what data it finds, and then waits to be spoken to, as a TensorFlow server does."""


def written(web: WebServer, names: Mapping[str, str]) -> str:
    """Return `data:` that fetches what `web` serves, by path, under other names."""
    files = [
        {"url": web.base + path, "sha256": hashlib.sha256(web.files[path]).hexdigest(), "name": name}
        for path, name in names.items()
    ]
    return json.dumps({"fetch": files})


# -- processes --------------------------------------------------------------------------------------------------------


@pytest.fixture
def local_cluster(local_cluster: LocalCluster) -> LocalCluster:
    """With a program that reads what was fetched."""
    (local_cluster.directory / "program").mkdir()
    (local_cluster.directory / "program" / "reader.py").write_text(READER)
    return local_cluster


@pytest.fixture
def web() -> Iterator[WebServer]:
    with serving() as server:
        server.files = {"/train": BIG, "/test": b"12345"}
        yield server


def write(local_cluster: LocalCluster, data: str) -> None:
    local_cluster.write(f"""
        all:
          vars:
            tfprov:
              cluster: fetching
              code: program
              command: [python, reader.py, "{{{{ data_dir | default('nowhere') }}}}", "{{{{ task.index + PORT }}}}"]
              wiring: tf_config
              strategy: multi_worker_mirrored
              restart: never
              stop_grace: 0
              data: {data}
              port: PORT
          children:
            worker: {{hosts: {{localhost: }}, vars: {{tfprov: {{tasks_per_host: 2}}}}}}
        """)


def says(local_cluster: LocalCluster | LabCluster, task: str, what: str) -> None:
    """Wait until the last line of a task's log has `what` in it: the task has started, and may not have printed yet."""
    until(lambda: what in "".join(local_cluster("logs", task).rstrip().splitlines()[-1:]), f"{task} says {what}")


def test_data_is_fetched_once_read_by_all_and_fetched_anew_only_when_it_is_other_data(
    local_cluster: LocalCluster, web: WebServer
) -> None:
    write(local_cluster, written(web, {"/train": "train", "/test": "test"}))
    assert re.search(r"fetch +data [0-9a-f]{12} +to localhost +\(not there\)", local_cluster("plan"))
    printed = local_cluster("up")
    assert "(5.1 MB fetched)" in printed
    assert printed.index("ok       fetch") < printed.index("ok       start")
    for task in ("worker/0", "worker/1"):
        says(local_cluster, task, f"{{'test': 5, 'train': {len(BIG)}}}")
    assert len(web.requests) == 2
    write(local_cluster, written(web, {"/test": "test", "/train": "train"}).replace("/train", "/train?key=2"))
    assert "nothing to do" in local_cluster("up")
    write(local_cluster, written(web, {"/test": "test"}))
    printed = local_cluster("plan")
    assert printed.count("data.fetch: ") == 2
    local_cluster("up")
    says(local_cluster, "worker/1", "{'test': 5}")
    assert len(web.requests) == 3
    local_cluster("down", "--discard")
    local_cluster("up")
    assert len(web.requests) == 3
    local_cluster("down", "--discard")
    assert list(local_cluster.directory.glob("state/**/data")), "the next start wants it"
    assert "nothing to do" in local_cluster("down", "-e", "tfprov.data=null")
    assert not list(local_cluster.directory.glob("state/**/data"))


def test_a_failed_fetch_keeps_the_running_tasks(local_cluster: LocalCluster, web: WebServer) -> None:
    write(local_cluster, written(web, {"/train": "train"}))
    local_cluster("up")
    before = local_cluster.pids()
    write(local_cluster, written(web, {"/test": "test"}).replace("/test", "/none"))
    printed = local_cluster("up", code=1)
    assert f"localhost: test from {web.base}/none: is not there (404); correct `url`" in printed
    assert local_cluster.pids() == before


def test_a_fetch_resumes_after_the_controller_was_killed(local_cluster: LocalCluster, web: WebServer) -> None:
    write(local_cluster, written(web, {"/train": "train"}))
    web.held = {"/train"}
    first = local_cluster.start("up")
    until(lambda: web.halves, "half of it is there", of=first)
    first.kill()
    first.wait()
    web.held = set()
    assert "fetch data" in local_cluster("up")
    assert web.requests[-1][1].startswith("bytes=")
    says(local_cluster, "worker/0", str(len(BIG)))


def test_ctrl_c_ends_a_fetch_at_once(local_cluster: LocalCluster, web: WebServer) -> None:
    write(local_cluster, written(web, {"/train": "train"}))
    web.held = {"/train"}
    first = local_cluster.start("up")
    until(lambda: web.halves, "half of it is there", of=first)
    first.send_signal(signal.SIGINT)
    printed = first.communicate(timeout=LONG)[0]
    assert first.returncode == 130
    assert "the data was not fetched to its end: interrupted; run this again: it goes on where it was" in printed


# -- hosts ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def remote_cluster(lab: Lab, tmp_path: Path) -> Iterator[LabCluster]:
    yield from open_lab_cluster(lab, tmp_path)


def volumes(remote_cluster: LabCluster) -> list[int]:
    """Return how many volumes with data there are on each host, seals included."""
    labels = {"label": "tfprov.data"}
    return [len(host.client.volumes.list(filters=labels)) for host in remote_cluster.lab.hosts[:2]]


def test_every_host_fetches_for_itself_and_an_interrupted_fetch_is_not_delivered(
    remote_cluster: LabCluster, python_archive: Path
) -> None:
    one, two, *_ = remote_cluster.lab.hosts
    for host in (one, two):
        host.forget_images()  # those of other tests are counted too when they are removed
    (remote_cluster.directory / "program").mkdir()
    (remote_cluster.directory / "program" / "reader.py").write_text(READER)
    settings = {
        "image": {"archive": str(python_archive)},
        "code": str(remote_cluster.directory / "program"),
        "command": ["python3", "reader.py", "{{ data_dir | default('nowhere') }}", "2222"],
        "ready": "start",
        "wiring": "tf_config",
        "strategy": "multi_worker_mirrored",
        "stop_grace": 0,
    }
    with serving(str(remote_cluster.lab.engine.network.outside)) as web:
        web.files = {"/train": BIG, "/test": b"12345"}

        def write(names: Mapping[str, str]) -> None:
            data = json.loads(written(web, names))
            remote_cluster.write({"worker": [one, two]}, {**settings, "data": data}, role_settings={"worker": {}})

        write({"/train": "train"})
        web.held = {"/train"}
        first = remote_cluster.start("up")
        until(lambda: len(web.halves) == 2, "both hosts have half of the data", of=first)
        first.send_signal(signal.SIGINT)
        printed = first.communicate(timeout=LONG)[0]
        assert printed.count("the data was not fetched to its end: interrupted; run this again") >= 2
        until(
            lambda: [len(ids) for ids in remote_cluster.containers().values()] == [0, 0, 0, 0], "no container is left"
        )
        assert volumes(remote_cluster) == [1, 1]
        web.held = set()
        assert "fetch" in remote_cluster("plan")
        printed = remote_cluster("up")
        assert printed.count("ok       fetch data ") == 2
        assert all(ranged.startswith("bytes=") for _, ranged in web.requests[2:])
        says(remote_cluster, "worker/1", f"{{'train': {len(BIG)}}}")
        asked = len(web.requests)
        assert "nothing to do" in remote_cluster("up")
        write({"/test": "test"})
        printed = remote_cluster("up")
        assert printed.count("ok       fetch data ") == 2
        says(remote_cluster, "worker/0", "{'test': 5}")
        assert (volumes(remote_cluster), len(web.requests)) == ([4, 4], asked + 2)
        remote_cluster("down", "--discard")
        assert volumes(remote_cluster) == [2, 2]
        assert "node1: 1 images removed, and 1 data set" in remote_cluster("image", "prune", "--hosts")
        assert volumes(remote_cluster) == [0, 0]
