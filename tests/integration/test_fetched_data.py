"""`data: {fetch: …}` as a user meets it: as processes of this machine, and on hosts in containers over SSH."""

import hashlib
import json
import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.integration.local import LONG, Local, local, until
from tests.integration.remote import Cluster, cluster
from tests.integration.testhosts import Lab
from tests.unit.test_fetch import BIG
from tests.unit.webserver import WebServer, serving

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
def here(tmp_path: Path) -> Iterator[Local]:
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "reader.py").write_text(READER)
    yield from local(tmp_path)


@pytest.fixture
def web() -> Iterator[WebServer]:
    with serving() as server:
        server.files = {"/train": BIG, "/test": b"12345"}
        yield server


def write(here: Local, data: str) -> None:
    here.write(f"""
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


def says(here: Local | Cluster, task: str, what: str) -> None:
    """Wait until the last line of a task's log has `what` in it: the task has started, and may not have printed yet."""
    until(lambda: what in "".join(here("logs", task).rstrip().splitlines()[-1:]), f"{task} says {what}")


def test_data_is_fetched_once_read_by_all_and_fetched_anew_only_when_it_is_other_data(
    here: Local, web: WebServer
) -> None:
    write(here, written(web, {"/train": "train", "/test": "test"}))
    assert re.search(r"fetch +data [0-9a-f]{12} +to localhost +\(not there\)", here("plan"))
    printed = here("up")
    assert "(5.1 MB fetched)" in printed
    assert printed.index("ok       fetch") < printed.index("ok       start")
    for task in ("worker/0", "worker/1"):
        says(here, task, f"{{'test': 5, 'train': {len(BIG)}}}")
    assert len(web.requests) == 2
    write(here, written(web, {"/test": "test", "/train": "train"}).replace("/train", "/train?key=2"))
    assert "nothing to do" in here("up")
    write(here, written(web, {"/test": "test"}))
    printed = here("plan")
    assert printed.count("data.fetch: ") == 2
    here("up")
    says(here, "worker/1", "{'test': 5}")
    assert len(web.requests) == 3
    here("down", "--discard")
    here("up")
    assert len(web.requests) == 3
    here("down", "--discard")
    assert list(here.directory.glob("state/**/data")), "the next start wants it"
    assert "nothing to do" in here("down", "-e", "tfprov.data=null")
    assert not list(here.directory.glob("state/**/data"))


def test_what_cannot_be_fetched_keeps_what_runs(here: Local, web: WebServer) -> None:
    write(here, written(web, {"/train": "train"}))
    here("up")
    before = here.pids()
    write(here, written(web, {"/test": "test"}).replace("/test", "/none"))
    printed = here("up", code=1)
    assert f"localhost: test from {web.base}/none: is not there (404); correct `url`" in printed
    assert here.pids() == before


def test_a_fetch_goes_on_where_the_controller_was_killed(here: Local, web: WebServer) -> None:
    write(here, written(web, {"/train": "train"}))
    web.held = {"/train"}
    first = here.start("up")
    until(lambda: web.halves, "half of it is there", of=first)
    first.kill()
    first.wait()
    web.held = set()
    assert "fetch data" in here("up")
    assert web.requests[-1][1].startswith("bytes=")
    says(here, "worker/0", str(len(BIG)))


def test_ctrl_c_ends_a_fetch_at_once(here: Local, web: WebServer) -> None:
    write(here, written(web, {"/train": "train"}))
    web.held = {"/train"}
    first = here.start("up")
    until(lambda: web.halves, "half of it is there", of=first)
    first.send_signal(signal.SIGINT)
    printed = first.communicate(timeout=LONG)[0]
    assert first.returncode == 130
    assert "the data was not fetched to its end: interrupted; run this again: it goes on where it was" in printed


# -- hosts ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def remote(lab: Lab, tmp_path: Path) -> Iterator[Cluster]:
    yield from cluster(lab, tmp_path)


def volumes(remote: Cluster) -> list[int]:
    """Return how many volumes with data there are on each host, seals included."""
    labels = {"label": "tfprov.data"}
    return [len(host.client.volumes.list(filters=labels)) for host in remote.lab.hosts[:2]]


def test_every_host_fetches_for_itself_and_an_interrupted_fetch_is_not_taken_for_whole(
    remote: Cluster, python_archive: Path
) -> None:
    one, two, *_ = remote.lab.hosts
    for host in (one, two):
        host.forget_images()  # those of other tests are counted too when they are removed
    (remote.directory / "program").mkdir()
    (remote.directory / "program" / "reader.py").write_text(READER)
    settings = {
        "image": {"archive": str(python_archive)},
        "code": str(remote.directory / "program"),
        "command": ["python3", "reader.py", "{{ data_dir | default('nowhere') }}", "2222"],
        "ready": "start",
        "wiring": "tf_config",
        "strategy": "multi_worker_mirrored",
        "stop_grace": 0,
    }
    with serving(str(remote.lab.engine.network.outside)) as web:
        web.files = {"/train": BIG, "/test": b"12345"}

        def write(names: Mapping[str, str]) -> None:
            data = json.loads(written(web, names))
            remote.write({"worker": [one, two]}, {**settings, "data": data}, role_settings={"worker": {}})

        write({"/train": "train"})
        web.held = {"/train"}
        first = remote.start("up")
        until(lambda: len(web.halves) == 2, "both hosts have half of the data", of=first)
        first.send_signal(signal.SIGINT)
        printed = first.communicate(timeout=LONG)[0]
        assert printed.count("the data was not fetched to its end: interrupted; run this again") >= 2
        until(lambda: [len(ids) for ids in remote.containers().values()] == [0, 0, 0, 0], "no container is left")
        assert volumes(remote) == [1, 1]
        web.held = set()
        assert "fetch" in remote("plan")
        printed = remote("up")
        assert printed.count("ok       fetch data ") == 2
        assert all(ranged.startswith("bytes=") for _, ranged in web.requests[2:])
        says(remote, "worker/1", f"{{'train': {len(BIG)}}}")
        asked = len(web.requests)
        assert "nothing to do" in remote("up")
        write({"/test": "test"})
        printed = remote("up")
        assert printed.count("ok       fetch data ") == 2
        says(remote, "worker/0", "{'test': 5}")
        assert (volumes(remote), len(web.requests)) == ([4, 4], asked + 2)
        remote("down", "--discard")
        assert volumes(remote) == [2, 2]
        assert "node1: 1 images removed, and 1 data set" in remote("image", "prune", "--hosts")
        assert volumes(remote) == [0, 0]
