"""The Docker runtime on a real engine: the contract of all runtimes, and features of containers."""

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.docker_bench import DockerBench
from tests.support.engine import Engine as PrivateEngine
from tests.support.images import Images
from tests.support.ports import free_port
from tests.support.runtime_bench import code, container
from tests.support.runtime_contract import LAWS, LAWS_OF_FILES, the_end_of_a_file_can_be_read_alone
from tests.support.waiting import until
from tfprov.engine.host_registry import DeliveredImages
from tfprov.errors import HostError
from tfprov.formats.checkpoint import CheckpointFiles, checkpoints
from tfprov.hosts.base import SparseReader
from tfprov.hosts.collect_facts import container_summary
from tfprov.hosts.docker.labels import container_name
from tfprov.hosts.docker.runtime import DockerRuntime
from tfprov.hosts.held_checkpoints import FOLDER
from tfprov.hosts.log_lines import Line, LogTimes
from tfprov.images.code_layer import code_archive
from tfprov.model.state import DockerOptions, Mount, State
from tfprov.planning.task_args import gate_command


@pytest.fixture
def bench(engine: PrivateEngine, images: Images) -> Iterator[DockerBench]:
    made = DockerBench(engine, images.tiny())
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_contract_of_a_runtime_in_docker(bench: DockerBench, law: Callable[..., None]) -> None:
    law(bench)


@pytest.mark.parametrize("law", LAWS_OF_FILES, ids=lambda law: law.__name__)
def test_the_contract_for_restored_files_in_docker(
    bench: DockerBench, tmp_path: Path, law: Callable[..., None]
) -> None:
    law(bench, tmp_path)


@pytest.mark.parametrize("runs", [True, False], ids=["running", "stopped"])
def test_the_end_of_a_file_can_be_read_alone_in_docker(bench: DockerBench, runs: bool) -> None:
    the_end_of_a_file_can_be_read_alone(bench, runs)


@pytest.mark.parametrize("code", [0, 3])
def test_an_end_is_seen_with_its_exit_code_in_docker(bench: DockerBench, code: int) -> None:
    bench.run_to_end(code)
    assert (bench.see().exit_code, bench.see().finished) == (code, code == 0)


def test_a_failing_task_is_restarted_up_to_its_limit_in_docker(bench: DockerBench) -> None:
    bench.start(container(argv=["sh", "-c", "exit 5"], restart="on-failure", max_restarts=2))
    until(lambda: bench.see().restarts == 2 and bench.see().state is State.EXITED)
    assert bench.see().exit_code == 5


AGAIN = (
    "[ -e /checkpoints/again ] && { echo second; sleep 1; echo third; exit 0; }; touch /checkpoints/again; echo first"
)
"""Ends with 5 in its first life, and well in its second one."""


def test_a_restarted_task_has_its_last_exit_code_and_its_log_is_still_followed(bench: DockerBench) -> None:
    lines = f"sleep 1; {AGAIN}; sleep 1; exit 5"
    bench.start(container(argv=["sh", "-c", lines], restart="on-failure", max_restarts=2))
    assert list(bench.docker.logs("worker/0", follow=True)) == ["first", "second", "third"]
    timed = [line for line in bench.docker.logs("worker/0", times=LogTimes()) if isinstance(line, Line) and line.at]
    assert list(map(str, timed)) == ["first", "second", "third"]
    first, second, third = (line.at or 0.0 for line in timed)
    assert first < second < third < first + 60
    for follow in (False, True):
        assert [*bench.docker.logs("worker/0", follow=follow, times=LogTimes(since=second))] == ["second", "third"]
    assert [*bench.docker.logs("worker/0", tail=1, times=LogTimes(until=third))] == ["second"]
    seen = bench.see()
    assert (seen.finished, seen.restarts) == (True, 1)


def test_how_a_task_ended_before_its_restart_is_still_known_when_it_runs(bench: DockerBench) -> None:
    runs = "while [ ! -e /checkpoints/go ]; do sleep 0.1; done; exit 6"
    again = f"[ -e /checkpoints/again ] && {{ echo second; {runs}; }}; touch /checkpoints/again; echo boom; exit 5"
    bench.start(container(argv=["sh", "-c", again], restart="on-failure", max_restarts=2))
    until(lambda: bench.see().restarts == 1 and not bench.see().restarting)
    assert (bench.see().state, bench.see().last_exit, bench.see().exit_code) == (State.RUNNING, 5, None)
    assert bench.see().last_words == "boom", "and not what it has printed since"
    bench.docker.end_restarts("worker/0")
    bench.docker.end_restarts("worker/9")
    assert bench.see().state is State.RUNNING
    bench.save("worker/0", "go", b"")
    seen = bench.becomes(State.EXITED)
    assert (seen.exit_code, seen.restarts, seen.gave_up) == (6, 1, True)


def test_a_signal_is_sent_only_to_tasks_that_handle_it_in_docker(bench: DockerBench) -> None:
    with pytest.raises(HostError, match="worker/0"):
        bench.docker.signal("worker/0", "SIGUSR1")
    handling = "trap 'echo got it' USR1; echo up; while :; do sleep 0.2; done"
    bench.start(container(argv=["sh", "-c", f'sh -c "{handling}"; exit 3']))
    until(lambda: list(bench.docker.logs("worker/0")) == ["up"])
    assert bench.docker.signal("worker/0", "SIGUSR1")
    until(lambda: list(bench.docker.logs("worker/0")) == ["up", "got it"])
    assert bench.see().state is State.RUNNING


def test_a_task_without_a_signal_handler_is_reported_and_keeps_running_in_docker(bench: DockerBench) -> None:
    bench.start(container())
    assert not bench.docker.signal("worker/0", "SIGUSR1")
    assert bench.see().state is State.RUNNING


def test_a_container_is_as_closed_as_it_can_be(bench: DockerBench) -> None:
    bench.start(container())
    config = bench.inspect()["HostConfig"]
    assert config["CapDrop"] == ["ALL"]
    assert config["SecurityOpt"] == ["no-new-privileges"]
    assert config["PidsLimit"] == 4096
    assert config["Init"] is True
    assert config["LogConfig"]["Config"] == {"max-size": "10m", "max-file": "2"}
    (bindings,) = config["PortBindings"].values()
    assert [binding["HostIp"] for binding in bindings] == [bench.address]
    assert not config["Privileged"]


def test_a_container_in_the_network_of_its_host_serves_there_on_its_port(bench: DockerBench) -> None:
    port = free_port()
    options = DockerOptions(bench.image, address=bench.address, network="host")
    wanted = container(argv=["nc", "-ll", "-p", str(port), "-e", "/bin/cat"], port=port, docker=options)
    started = bench.start(wanted)
    until(lambda: bench.docker.is_serving(started.task))
    facts = bench.inspect()
    assert (facts["HostConfig"]["NetworkMode"], facts["Config"]["Hostname"]) == ("host", "worker-0")
    listed = bench.client.api.containers(filters={"id": facts["Id"]})
    assert [container_summary(one).published for one in listed] == [(("0.0.0.0", port),)]


SECRETS = {"API_TOKEN": 'it\'s $(a) "secret"\n \\ ä ', "KEY": "second-secret"}


def test_secrets_are_files_and_no_part_of_a_container(bench: DockerBench) -> None:
    """They are there in each of a task's lives, for commands beside it, and gone with it."""
    prints = 'printf "%s|%s|%s" "$API_TOKEN" "$KEY" "$PLAIN" | sha256sum'
    again = "[ -e /checkpoints/again ] && exec sleep 3600; touch /checkpoints/again; exit 5"
    wanted = container(
        argv=["sh", "-c", f"{prints}; ls -ln /run/secrets/tfprov; {again}"],
        env={**SECRETS, "PLAIN": "1"},
        secret=frozenset(SECRETS),
        restart="on-failure",
        max_restarts=2,
    )
    bench.start(wanted)
    until(lambda: bench.see().restarts == 1 and not bench.see().restarting)
    everything = json.dumps(bench.inspect())
    assert not [name for name, value in SECRETS.items() if json.dumps(value)[1:-1] in everything]
    assert '"PLAIN=1"' in everything
    digest = hashlib.sha256(f"{SECRETS['API_TOKEN']}|{SECRETS['KEY']}|1".encode()).hexdigest()
    until(lambda: [*bench.docker.logs("worker/0")].count(f"{digest}  -") == 2)
    listed = [line for line in bench.docker.logs("worker/0") if line.endswith((" API_TOKEN", " KEY"))]
    assert all(re.match(r"-r-------- +1 1000 +1000 ", line) for line in listed), listed
    assert (
        bench.docker.execute("worker/0", ["sh", "-c", '[ "$KEY" = second-secret ] && [ ! -w /run/secrets/tfprov/KEY ]'])
        == 0
    )
    made = bench.inspect()["Id"]
    bench.docker.stop("worker/0", 0)
    on_host = Path("/run/tfprov/tfprov-contract-worker-0")  # the engine of the tests shares /run with them
    shutil.rmtree(on_host)  # as a restart of the host does
    bench.client.api.start(made)
    until(lambda: bench.see().exit_code == 78)
    assert "are not in /run/secrets/tfprov any more" in list(bench.docker.logs("worker/0"))[-1]
    bench.start(wanted)
    bench.docker.stop("worker/0", 0)
    bench.docker.remove("worker/0")
    assert on_host.read_bytes() == b""
    assert on_host.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("user", ["4321:4322", None])
def test_a_container_may_have_another_user_and_a_file_system_that_is_only_read(
    bench: DockerBench, tmp_path: Path, user: str | None
) -> None:
    options = DockerOptions(bench.image, address=bench.address, user=user, read_only=True, has_code=True)
    restored = tmp_path / "model.ckpt-1.index"
    restored.write_text("1")
    writes = (
        'touch /etc/x 2>/dev/null || echo closed; touch /tmp/x "$HOME/y" && echo > logs/saved; rm /checkpoints/*.index'
    )
    prints = (
        'echo "$(id -u):$(id -g) $HOME $API_TOKEN $(pwd)"; stat -c %u:%a /run/secrets/tfprov/API_TOKEN; ls /checkpoints'
    )
    wanted = container(
        argv=["sh", "-c", f"{writes}; {prints}"],
        env={"API_TOKEN": "a-secret"},
        secret=frozenset({"API_TOKEN"}),
        link=("logs", "/checkpoints"),
        docker=options,
    )
    for _ in range(2):
        bench.start(wanted, restore={restored.name: restored})
        bench.becomes(State.EXITED)
        owner = user or "1000:1000"
        number = owner.partition(":")[0]
        assert list(bench.docker.logs("worker/0")) == [
            "closed",
            f"{owner} /tmp a-secret /code",
            f"{number}:400",
            "saved",
        ]
        assert [*bench.docker.files("worker/0")] == ["saved"]
    own = {mount["Name"] for mount in bench.inspect()["Mounts"] if mount["Type"] == "volume"}
    assert len(own) == 2, "the checkpoints and the code"
    bench.docker.remove("worker/0")
    assert not own & {volume["Name"] for volume in bench.client.api.volumes()["Volumes"] or ()}


NOT_BY_DEFAULT = next(filter(os.path.exists, ("/dev/kmsg", "/dev/fuse", "/dev/loop-control", "/dev/net/tun")))
"""A device of this machine that an engine gives to no container by itself."""


def test_limits_devices_and_mounts_are_the_containers(bench: DockerBench) -> None:
    options = DockerOptions(
        bench.image, address=bench.address, memory=64 * 1024**2, shm_size=8 * 1024**2, cpus=0.5, pids=50,
        mounts=(Mount("/etc", "/data"),), devices=(NOT_BY_DEFAULT,), ulimits={"nofile": 512, "core": 0},
    )  # fmt: skip
    bench.start(container(docker=options))
    config = bench.inspect()["HostConfig"]
    assert (config["Memory"], config["NanoCpus"], config["PidsLimit"]) == (64 * 1024**2, 500_000_000, 50)
    assert bench.docker.execute("worker/0", ["sh", "-c", "df -k /dev/shm | grep -q ' 8192 '"]) == 0
    limits = '[ "$(ulimit -n) $(ulimit -Hn) $(ulimit -c)" = "512 512 0" ]'
    assert bench.docker.execute("worker/0", ["sh", "-c", limits]) == 0
    assert bench.docker.execute("worker/0", ["test", "-c", NOT_BY_DEFAULT]) == 0
    assert bench.docker.execute("worker/0", ["test", "-f", "/data/hostname"]) == 0
    assert bench.docker.execute("worker/0", ["touch", "/data/x"]) != 0


def test_a_program_with_a_relative_directory_saves_where_checkpoints_lie(bench: DockerBench) -> None:
    saves = ["sh", "-c", "mkdir -p runs; echo 1 > runs/logdir/model; cat runs/logdir/model"]
    bench.start(container(argv=saves, link=("runs/logdir", "/checkpoints")))
    bench.becomes(State.EXITED)
    assert (list(bench.docker.logs("worker/0")), [*bench.docker.files("worker/0")]) == (["1"], ["model"])
    with pytest.raises(HostError, match=r"the image has /code/\.\./bin/sh already; choose another name"):
        bench.start(container(argv=saves, link=("../bin/sh", "/checkpoints")))


def test_a_task_killed_for_its_memory_is_reported_as_such(bench: DockerBench) -> None:
    # It outlives its child, which is what is killed: the engine may report an end before it reports the memory.
    waits = "while [ ! -e /checkpoints/go ]; do sleep 0.1; done; exit 137"
    eats = ["sh", "-c", f"sh -c 'x=a; while :; do x=$x$x; done'; {waits}"]
    bench.start(container(argv=eats, docker=DockerOptions(bench.image, address=bench.address, memory=32 * 1024**2)))
    until(lambda: _events(bench, "oom"), "the engine knows of it")
    bench.save("worker/0", "go", b"")
    seen = bench.becomes(State.EXITED)
    assert "out of memory (limit 32m)" in seen.ending


def _events(bench: DockerBench, kind: str) -> list[object]:
    """Return the events of a kind that the engine has had of worker/0 so far."""
    filters = {"container": bench.inspect()["Id"], "event": kind}
    so_far: Any = f"{time.time():.6f}"  # in the past once it arrives, so that the engine waits for none
    return list(bench.client.api.events(since=0, until=so_far, filters=filters, decode=True))


def test_only_the_image_that_was_delivered_is_run_and_by_its_id(bench: DockerBench, tmp_path: Path) -> None:
    name = "tfprov/contract:0123456789abcdef"
    client, delivered = bench.client, DeliveredImages(tmp_path / "images.json")
    bench.docker = DockerRuntime(
        bench.docker.engine, "contract", bench.answers_at, lambda _: (0, ""), deliveries=delivered.on("h")
    )
    bench.runtime = bench.docker
    made = client.containers.create(bench.image, "true")
    try:
        other = str(made.commit("tfprov/contract", "other").id)
        client.images.get(bench.image).tag("tfprov/contract", "0123456789abcdef")
        bench.start(container(docker=DockerOptions(name, address=bench.address)))
        assert bench.inspect()["Config"]["Image"] == bench.image
        assert delivered.image_ids("h", name) == (bench.image,), "the first start of an image that nobody knows"
        client.images.get(other).tag("tfprov/contract", "0123456789abcdef")
        seen = bench.docker.observe()
        assert (seen.moved, seen.containers[0].other_image) == (frozenset({name}), ""), (
            "the task runs what was delivered"
        )
        bench.docker.stop("worker/0", 1)
        with pytest.raises(HostError, match=r"^h: the image 0123456789ab is not the one that was delivered; run this"):
            bench.start(container(docker=DockerOptions(name, address=bench.address)))
        delivered.record("h", name, other)
        bench.start(container(docker=DockerOptions(name, address=bench.address)))
        delivered.record("h", name, bench.image)
        assert bench.see().other_image == "", "another controller delivered it, as the container says"
    finally:
        made.remove()
        bench.close()
        for image in client.images.list("tfprov/contract"):
            client.images.remove(image.tags[0], force=True)


def test_a_container_of_somebody_else_is_not_touched(bench: DockerBench) -> None:
    theirs = bench.client.containers.create(bench.image, ["sleep", "3600"], name=container_name("contract", "worker/0"))
    try:
        with pytest.raises(HostError, match=r"tfprov-contract-worker-0 \(\w{12}\) is not ours; rename it"):
            bench.start(container())
        assert bench.client.containers.get(str(theirs.id)).status == "created"
    finally:
        theirs.remove(force=True)


def test_checkpoints_outlive_a_restart_and_go_with_the_task(bench: DockerBench) -> None:
    bench.start(container())
    bench.save("worker/0", "model.ckpt-1.index", b"saved")
    bench.docker.stop("worker/0", 1)
    assert bench.docker.open("worker/0", "model.ckpt-1.index").read() == b"saved", "also while it is stopped"
    bench.start(container())
    assert set(bench.docker.files("worker/0")) == {"model.ckpt-1.index"}
    bench.docker.stop("worker/0", 1)
    bench.docker.remove("worker/0")
    assert bench.client.volumes.list(filters={"label": "tfprov.cluster=contract"}) == []


def test_a_link_in_the_checkpoint_directory_is_neither_listed_nor_opened(bench: DockerBench) -> None:
    bench.start(container())
    assert bench.docker.execute("worker/0", ["ln", "-s", "/etc/passwd", "/checkpoints/link"]) == 0
    assert bench.docker.files("worker/0") == {}
    with pytest.raises(HostError, match="not a regular file"):
        bench.docker.open("worker/0", "link")


def test_a_program_that_is_not_root_can_replace_restored_files(bench: DockerBench, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(b"old")
    bench.start(container(), restore={"checkpoint": tmp_path / "checkpoint"})
    assert bench.docker.execute("worker/0", ["sh", "-c", "[ $(id -u) != 0 ]"]) == 0
    replaces = "cd /checkpoints && echo newer >beside && mv beside checkpoint && rm checkpoint"
    assert bench.docker.execute("worker/0", ["sh", "-c", replaces]) == 0


def test_an_interrupted_restore_leaves_no_partial_file(bench: DockerBench, tmp_path: Path) -> None:
    for name in ("model.index", "checkpoint"):
        (tmp_path / name).write_bytes(name.encode())
    files = {name: tmp_path / name for name in ("model.index", "checkpoint")}
    bench.start(container(), restore=files)
    bench.docker.stop("worker/0", 1)
    torn = {"model.data": tmp_path / "missing", **files}
    with pytest.raises(HostError, match="missing cannot be sent: No such file"):
        bench.start(container(), restore=torn)
    assert bench.see().state is State.CREATED
    assert bench.docker.files("worker/0")["checkpoint"].size == 0
    bench.start(container(), restore=files)
    assert bench.docker.open("worker/0", "checkpoint").read() == b"checkpoint"


ODD = "cd /checkpoints; mkdir sub; echo x >sub/file; echo x >'new\nline'; printf x >$(printf 'b\\377d'); mkfifo fifo; "
ODD += (
    "ln sub/file tied; ln -s /etc/passwd link; ln -s /etc folder; ln -s nowhere dangling; touch $(printf '\\303\\244')"
)
REGULAR = {"sub/file": 2, "tied": 2, "new\nline": 2, "b\udcffd": 1, "ä": 0}


def sizes(bench: DockerBench) -> dict[str, int]:
    return {name: file.size for name, file in bench.docker.files("worker/0").items()}


@pytest.mark.parametrize("with_shell", [True, False], ids=["shell", "no shell"])
@pytest.mark.parametrize("with_python", [True, False], ids=["Python", "no Python"])
def test_only_regular_files_are_listed_whatever_their_names(
    bench: DockerBench, images: Images, with_python: bool, with_shell: bool
) -> None:
    if with_python:
        bench.image = str(bench.client.images.get(images.python()).id)
    bench.start(container(argv=["sleep", "3600"]))
    assert bench.docker.execute("worker/0", ["sh", "-c", ODD]) == 0
    if not with_shell:
        inside = bench.client.containers.get(bench.see().id)
        assert inside.exec_run(["rm", "/bin/sh"], user="0").exit_code == 0
    assert sizes(bench) == REGULAR
    listed = bench.docker.files("worker/0")
    for name, content in {"sub/file": b"x\n", "link": None, "fifo": None, "missing": None}.items():
        assert bench.docker.read_and_list("worker/0", name) == (content, listed)
    bench.docker.stop("worker/0", 1)
    assert bench.docker.files("worker/0") == listed, "a stopped container says the same, to the second"
    assert bench.docker.read_and_list("worker/0", "sub/file") == (b"x\n", listed)
    assert bench.docker.open("worker/0", "new\nline").read() == b"x\n"
    assert bench.docker.open("worker/0", "tied").read() == b"x\n", "a second name of a file is as good as its first"
    assert bench.docker.open("worker/0", "ä").read() == b""
    with pytest.raises(HostError, match="its name is not UTF-8"):
        bench.docker.open("worker/0", "b\udcffd")


@pytest.mark.parametrize("runs", [True, False], ids=["running", "stopped"])
def test_only_regular_files_are_opened_and_tailed(bench: DockerBench, runs: bool) -> None:
    bench.start(container())
    assert bench.docker.execute("worker/0", ["sh", "-c", ODD]) == 0
    if not runs:
        bench.docker.stop("worker/0", 1)
    for name in ("link", "folder", "dangling", "fifo", "sub", "missing"):
        attempts: dict[str, Callable[[], object]] = {
            "opened": partial(bench.docker.open, "worker/0", name),
            "read from its end": partial(bench.docker.tail, "worker/0", name, 9),
        }
        for what, attempt in attempts.items():
            assert re.search(r"is not a regular file|no such file", refusal(attempt)), f"{name} was {what}"


def refusal(attempt: Callable[[], object]) -> str:
    """Return the error of what must fail; nothing where it does not."""
    try:
        attempt()
    except HostError as error:
        return str(error)
    return ""


WRITES = "cd /checkpoints; while :; do echo more >>grows; echo x >comes; mv comes goes; rm goes; done"


def test_a_directory_can_be_listed_and_read_while_it_is_written_to(bench: DockerBench) -> None:
    bench.start(container(argv=["sh", "-c", WRITES]))
    bench.save("worker/0", "stays", b"12345")
    until(lambda: "grows" in sizes(bench))
    for _ in range(60):  # `find` misses a file that was there a moment ago in one of thirty
        result = sizes(bench)
        assert result["stays"] == 5
        assert set(result) <= {"stays", "grows", "comes", "goes"}
        with bench.docker.open("worker/0", "grows") as file:
            assert len(file.read(result["grows"])) == result["grows"]


def test_a_file_that_is_not_read_to_its_end_holds_no_connection(bench: DockerBench) -> None:
    bench.start(container())
    bench.save("worker/0", "big", bytes(8 << 20))
    for _ in range(20):  # more than an SSH connection has sessions
        with bench.docker.open("worker/0", "big") as file:
            assert file.read(10) == bytes(10)
    assert len(bench.docker.tail("worker/0", "big", 3)) == 3


def test_a_published_port_without_a_listener_in_the_container_does_not_count(bench: DockerBench) -> None:
    started = bench.start(container())
    assert not bench.docker.is_serving(started.task)


_ROTATES = """cd /checkpoints; step=0
while :; do
    step=$((step + 1))
    for end in data-00000-of-00001 index; do echo $step >.new; mv .new model.ckpt-$step.$end; done
    rm -f model.ckpt-$((step - 1)).*
    sleep 0.1
done"""


def test_a_program_that_removes_its_files_at_once_does_not_remove_held_ones(bench: DockerBench) -> None:
    bench.start(container(argv=["sh", "-c", _ROTATES]))
    until(lambda: bench.docker.files("worker/0"))

    def held() -> bool:
        whole[:] = [one for one in checkpoints(bench.docker.hold("worker/0")) if one.whole]
        return bool(whole)

    whole: list[CheckpointFiles] = []
    until(held)
    newest = whole[-1]
    until(lambda: f"{newest.prefix}.index" not in bench.docker.files("worker/0"))
    with bench.docker.open("worker/0", f"{FOLDER}/{newest.prefix}.index") as file:
        assert file.read() == b"%d\n" % newest.step
    assert not any(FOLDER in name for name in bench.docker.files("worker/0"))
    again = DockerRuntime(bench.docker.engine, "contract", bench.answers_at, lambda _: (0, ""))
    again.release("worker/0")
    assert bench.docker.execute("worker/0", ["test", "-d", f"/checkpoints/{FOLDER}"]) == 0
    # The program may have replaced all of its files between the two looks of a listing, at their names and at each of them.
    until(lambda: again.files("worker/0"), "a listing comes across what a gather that was cut off has left")
    again.release("worker/0")
    assert bench.docker.execute("worker/0", ["test", "-d", f"/checkpoints/{FOLDER}"]) != 0


def test_a_large_directory_of_an_ended_container_is_listed_beside_it(engine: PrivateEngine, images: Images) -> None:
    bench = DockerBench(engine, images.python())

    def with_its_files() -> int:
        """Return how many containers have the task's volume, whoever uses the engine meanwhile."""
        volume: dict[str, Any] = {"volume": "tfprov-contract-worker-0-checkpoints"}
        return len(bench.client.containers.list(all=True, filters=volume, ignore_removed=True))

    try:
        sparse = "mkdir /checkpoints/many; echo 1 >/checkpoints/many/a; truncate -s 100G /checkpoints/sparse.bin"
        bench.start(container(argv=["sh", "-c", sparse]))
        bench.becomes(State.EXITED)
        listed = bench.docker.files("worker/0")
        assert with_its_files() == 1, "what has listed it is gone: its volume could not be removed until then"
        assert {name: file.size for name, file in listed.items()} == {"many/a": 2, "sparse.bin": 100 * 1024**3}
        read = bench.docker.open("worker/0", "sparse.bin")
        assert isinstance(read, SparseReader)
        assert read.hole() == 100 * 1024**3
        read.close()
        assert with_its_files() == 1
        bench.start(
            container(argv=["sh", "-c", f"{sparse.partition('; ')[2]}; echo end >>/checkpoints/sparse.bin; sleep 60"])
        )
        until(lambda: bench.docker.files("worker/0")["sparse.bin"].size > 100 * 1024**3, "it has grown")
        with bench.docker.open("worker/0", "sparse.bin") as read:
            assert isinstance(read, SparseReader)
            read.seek(read.hole() - 3)
            assert read.read() == b"\0\0\0end\n"
        assert with_its_files() == 1
    finally:
        bench.close()


def test_an_nfs_export_is_a_volume_of_the_engine_with_its_options(bench: DockerBench) -> None:
    """This kernel need not have a client: the engine has the volume as it would mount it, and says why it cannot."""
    export = (("type", "nfs"), ("o", "addr=192.0.2.1,ro,nfsvers=4,soft"), ("device", ":/export"))
    options = DockerOptions(bench.image, address=bench.address, mounts=(Mount("", "/mnist", True, export),))
    with pytest.raises(HostError) as caught:
        bench.start(container(docker=options))
    assert "\n" not in str(caught.value)
    facts = bench.client.containers.get("tfprov-contract-worker-0").attrs
    (mount,) = [it for it in facts["Mounts"] if it["Destination"] == "/mnist"]
    assert (mount["Type"], mount["RW"], mount["Driver"]) == ("volume", False, "local")
    volume = bench.client.volumes.get(mount["Name"])
    assert volume.attrs["Options"] == dict(export)
    bench.runtime.remove("worker/0")
    assert mount["Name"] not in {it.name for it in bench.client.volumes.list()}


def test_exit_codes_decide_on_restarts_in_docker(engine: PrivateEngine, images: Images, tmp_path: Path) -> None:
    packed = code(tmp_path / "code", program="import sys; print('runs', flush=True); sys.exit(int(sys.argv[1]))")
    bench = DockerBench(engine, images.python())
    archive = code_archive(packed)
    bench.docker = DockerRuntime(
        bench.docker.engine, "contract", bench.answers_at, lambda _: (0, ""), lambda _: archive
    )
    bench.runtime = bench.docker
    options = DockerOptions(bench.image, address=bench.address, code=packed.digest, has_code=True)
    try:
        for exit_code, runs in ((2, 1), (3, 3)):
            argv = [*gate_command(["python3"], (), (2, 78)), "python3", "program.py", str(exit_code)]
            bench.start(container(argv=argv, docker=options, restart="on-failure", max_restarts=2))
            bench.becomes(State.EXITED)
            assert bench.see().exit_code == exit_code
            assert list(bench.runtime.logs("worker/0")).count("runs") == runs, "a new container has no mark"
            bench.runtime.remove("worker/0")
    finally:
        bench.close()
