"""The main workflow on hosts in containers: over SSH, in Docker, with a stand-in for TensorFlow."""

import contextlib
import json
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.support.images import Images
from tests.support.lab_cluster import LabCluster, open_lab_cluster, standin
from tests.support.paths import STANDIN
from tests.support.ports import free_ports
from tests.support.testhost import Host
from tests.support.testhosts import Lab
from tests.support.waiting import LONG, until
from tests.support.warm import AnyProcess


@pytest.fixture
def remote_cluster(lab: Lab, tmp_path: Path) -> Iterator[LabCluster]:
    yield from open_lab_cluster(lab, tmp_path)


@pytest.fixture
def three(remote_cluster: LabCluster, tiny_archive: Path) -> LabCluster:
    """A ps and two workers on three hosts, training for a long time."""
    one, two, three, _ = remote_cluster.lab.hosts
    remote_cluster.write({"ps": [one], "worker": [two, three]}, standin(tiny_archive))
    return remote_cluster


def running(three: LabCluster) -> list[str]:
    """Return the names of all containers that run, on all hosts whose engine answers."""
    hosts = [host for host in three.lab.hosts if host.engine_answers()]
    return [str(made.name) for host in hosts for made in host.client.containers.list()]


def up(three: LabCluster) -> str:
    return three("up")


def test_a_run_trains_brings_the_checkpoint_back_and_leaves_nothing(three: LabCluster, tiny_archive: Path) -> None:
    one, two, *rest = three.lab.hosts
    three.write({"ps": [one], "worker": [two, rest[0]]}, standin(tiny_archive, train_steps=8))
    foreign = [host.client.containers.create("foreign:1", "true", name="foreign") for host in _with_foreign(three.lab)]
    volume = one.client.volumes.create("tfprov-is-mine-too")
    printed = three("run")
    assert "done: step=8" in printed
    gathered = three.directory / "checkpoints" / "lab"
    assert (gathered / "checkpoint").read_text().startswith('model_checkpoint_path: "model.ckpt-8"')
    assert (gathered / "model.ckpt-8.index").read_bytes() == (STANDIN / "weights.index").read_bytes()
    assert sorted(made for ids in three.containers().values() for made in ids) == sorted(
        str(made.id) for made in foreign
    )
    assert [result.name for result in one.client.volumes.list()] == [volume.name]
    assert all(host.client.images.get("foreign:1") for host in three.lab.hosts)


def _with_foreign(lab: Lab) -> Iterator[Host]:
    for host in lab.hosts:
        host.client.api.import_image_from_data(b"\0" * 1024, repository="foreign", tag="1")
        yield host


def test_a_running_cluster_is_unchanged_by_up_and_reports_its_status(three: LabCluster, tiny_archive: Path) -> None:
    one, two, other, _ = three.lab.hosts
    three.write({"ps": [one], "worker": [two, other]}, {**standin(tiny_archive), "env": {"TOKEN": "s3cret"}})
    printed = up(three)
    before = three.containers()
    assert "nothing to do" in three("up")
    assert three.containers() == before, "a second up changes nothing"
    assert [len(ids) for ids in before.values()] == [1, 1, 1, 0]
    made = [made for host in (one, two, other) for made in host.client.containers.list()]
    assert len({it.attrs["Image"] for it in made}) == 1, "every task of a cluster runs the same image"
    assert "s3cret" not in json.dumps([it.attrs for it in made]) + printed, "no configuration holds a secret"
    assert "1ec1c26b50d5d3c5" in three("exec", "worker/1", "--", "sh", "-c", "printf %s $TOKEN | sha256sum")
    assert '"job": "worker"' not in three("exec", "worker/1", "--", "true")
    message = three("exec", "worker/1", "--", "sh", "-c", "echo $TFPROV_TASK; exit 5", code=5)
    assert "worker/1" in message, "a command runs beside a task"
    assert "up: ps/0" in three("logs", "ps/0")
    endless = three.start("exec", "worker/1", "--", "yes")
    assert endless.stdout
    assert endless.stdout.readline() == "y\n"
    endless.stdout.close()
    assert endless.wait() == 141


def test_a_killed_container_is_named_and_only_it_returns(three: LabCluster) -> None:
    up(three)
    before = three.containers()
    killed = three.lab.hosts[2]
    killed.client.containers.get("tfprov-lab-worker-1").kill()
    until(lambda: three.tasks()["worker/1"]["state"] == "failed", "the worker is dead")
    planned = three("plan")
    assert "killed by SIGKILL" in planned
    up(three)
    after = three.containers()
    assert {name for name in after if after[name] != before[name]} == {killed.name}
    assert len(after[killed.name]) == 1


def test_an_edit_of_the_code_sends_its_layer_alone_and_without_code_and_image_the_cluster_is_taken_down(
    three: LabCluster, tiny_archive: Path, tmp_path: Path
) -> None:
    code, archive = tmp_path / "code", tmp_path / "tiny.tar"
    shutil.copytree(STANDIN, code)
    archive.symlink_to(tiny_archive)
    one, two, other, _ = three.lab.hosts
    settings = {**standin(archive), "code": str(code)}
    three.write({"ps": [one], "worker": [two, other]}, settings)
    for host in three.lab.hosts:
        host.forget_images()
    first = up(three)
    (code / "notes.txt").write_text("one more file\n" * 5000)
    edited = up(three)
    assert "restart" in edited
    assert "code: " in edited
    assert max(_sent(edited)) < 200_000 < min(_sent(first))
    assert len(_sent(edited)) == 3
    shutil.rmtree(code)
    archive.unlink()
    assert {task["state"] for task in three.tasks().values()} == {"running"}
    assert "gathered into" in three("down")
    assert not any(three.containers().values())


def _sent(printed: str) -> list[float]:
    units = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
    return [float(size) * units[unit] for size, unit in re.findall(r"\(([\d.]+) (\w+) sent\)", printed)]


def test_the_second_of_two_concurrent_runs_names_the_first(three: LabCluster) -> None:
    three.write(
        {"ps": [three.lab.hosts[0]], "worker": [three.lab.hosts[1]]},
        {**_settings(three), "command": ["sh", "-c", "sleep 600"], "start_timeout": 600},
    )
    first = three.start("up")
    until(lambda: three.containers()["node1"], "the first has begun", of=first)
    printed = three("up", "-e", "tfprov.flags.train_steps=7", code=3)
    assert f"pid {first.pid}" in printed
    assert "`tfprov up`" in printed
    first.send_signal(signal.SIGINT)
    first.wait(LONG)


def _settings(made: LabCluster) -> dict[str, object]:
    result: dict[str, object] = yaml.safe_load(made.inventory.read_text())["all"]["vars"]["tfprov"]
    return result


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock of a file; the kernel is asked, as to try it could be in the way."""
    return path.exists() and f":{path.stat().st_ino} " in Path("/proc/locks").read_text()


def kill_at(process: AnyProcess, what: str, happened: Callable[[], object] | str) -> None:
    """Kill a verb as soon as something has happened that it does, or as it has printed a line."""
    if isinstance(happened, str):
        assert any(re.match(happened, line) for line in process.stdout or ()), f"never printed: {what}"
    else:
        until(happened, what, of=process, pause=0.01)
    process.kill()
    process.wait()


def test_whenever_the_controller_is_killed_the_next_run_converges(three: LabCluster) -> None:
    """Every run begins with what the one before has left, but for what it is to be killed at."""
    one, two, other, _ = three.lab.hosts
    cache, lock = three.directory / "cache", three.directory / "state/tfprov/clusters/lab/lock"

    def forget(*hosts: Host) -> None:
        shutil.rmtree(cache, ignore_errors=True)
        for host in hosts:
            host.forget_images()

    def images(host: Host) -> list[object]:
        return list(host.client.api.images(all=True))

    def containers(host: Host, *, made: bool = False) -> list[object]:
        return list(host.client.api.containers(all=made))

    moments: list[tuple[str, Callable[[], None], Callable[[], object] | str]] = [
        ("the lock is held", lambda: forget(one, two, other), lambda: is_locked(lock)),
        (
            "the image is put together",
            lambda: forget(one, two, other),
            lambda: [*cache.glob("tfprov/images/blobs/*/*")],
        ),
        ("the image was put together", lambda: forget(one, two, other), "ok +build image"),
        ("an image has arrived", lambda: forget(one), lambda: images(one)),
        ("an image was delivered", lambda: forget(two), "ok +deliver image"),
        ("a container is made", one.clean, lambda: containers(one, made=True)),
        ("a container runs", two.clean, lambda: containers(two)),
        ("a task was started", other.clean, "ok +start"),
    ]
    for what, prepare, happened in moments:
        prepare()
        kill_at(three.start("up"), what, happened)
    up(three)
    assert [len(ids) for ids in three.containers().values()] == [1, 1, 1, 0]
    assert {task["state"] for task in three.tasks().values()} == {"running"}
    assert "nothing to do" in three("up")


def test_a_gather_that_is_killed_is_made_good_by_the_next(three: LabCluster) -> None:
    up(three)
    until(lambda: "saved" in three("logs", "worker/0"), "a checkpoint")
    gathered, lock = three.directory / "checkpoints" / "lab", three.directory / "state/tfprov/clusters/lab/lock"

    def files(pattern: str) -> set[tuple[Path, int]]:
        seen = set()
        with contextlib.suppress(FileNotFoundError):  # their directory was removed
            for path in gathered.glob(pattern):
                with contextlib.suppress(FileNotFoundError):  # it was moved
                    seen.add((path, path.stat().st_mtime_ns))
        return seen

    # The training goes on: every gather finds new files, and each of these comes about in its course.
    kill_at(three.start("gather"), "the lock is held", lambda: is_locked(lock))

    def is_killed_at(pattern: str) -> bool:
        """Kill a gather at a new file; return whether it had not ended, as one may before anybody looks."""
        before, gather = files(pattern), three.start("gather")
        until(lambda: files(pattern) - before or gather.poll() is not None, pattern, pause=0.01)
        gather.kill()
        return gather.wait() == -signal.SIGKILL

    for what, pattern in (
        ("a file is copied", ".part/*"),
        ("a checkpoint is copied", ".part/*.index"),
        ("the manifest is written", "manifest.json"),
        ("a checkpoint is in its place", "*.index"),
    ):
        until(partial(is_killed_at, pattern), what)
    three("gather")
    manifest = json.loads((gathered / "manifest.json").read_text())
    newest = manifest["checkpoints"][-1]["prefix"]
    assert (gathered / f"{newest}.index").read_bytes() == (STANDIN / "weights.index").read_bytes()
    assert not [path for path in gathered.rglob("*") if path.name.endswith(".part")]


def test_a_chief_is_kept_until_its_last_file_is_copied_and_then_removed(three: LabCluster) -> None:
    up(three)
    gathered, host = three.directory / "checkpoints" / "lab", three.lab.hosts[1]
    until(lambda: "gathered into" in three("gather"), "a checkpoint")
    assert host.run_in(three.containers()["node2"][0], "sh", "-c", "echo 1 >/checkpoints/loss.csv")[0] == 0
    (gathered / "loss.csv").mkdir()
    refused = three("down", code=1)
    assert "error: worker/0 on node2 was kept: loss.csv is not gathered; run `tfprov gather`" in refused
    assert [len(ids) for ids in three.containers().values()] == [0, 1, 0, 0]
    (gathered / "loss.csv").rmdir()
    three("down")
    assert (gathered / "loss.csv").read_text() == "1\n"
    assert not any(three.containers().values())


def test_tasks_in_the_network_of_their_hosts_are_kept_restarted_and_keep_their_ports(
    three: LabCluster, tiny_archive: Path
) -> None:
    one, two, *_ = three.lab.hosts
    in_host = {"network": "host", "allow_insecure_network": True}
    three.write({"ps": [one], "worker": [two]}, {**standin(tiny_archive), **in_host})
    up(three)
    before = three.containers()
    assert three("plan").strip().endswith("nothing to do")
    assert re.search(r"node2 +2222 held by worker/0", three("check"))
    three.write({"ps": [one], "worker": [two]}, {**standin(tiny_archive, step_seconds=1), **in_host})
    assert "restart" in three("up")
    after = three.containers()
    assert [[len(ids), ids == before[name]] for name, ids in after.items() if ids] == [[1, False]] * 2
    three("down")
    assert not any(three.containers().values())


def test_a_host_that_left_the_inventory_is_still_taken_down(three: LabCluster, tiny_archive: Path) -> None:
    up(three)
    one, two, *_ = three.lab.hosts
    three.write({"ps": [one], "worker": [two]}, standin(tiny_archive))
    assert "not in the inventory" in three("status")
    three("down")
    assert not any(three.containers().values())
    assert json.loads((three.directory / "state/tfprov/clusters/lab/hosts.json").read_text()) == {}


def test_a_training_resumes_on_other_hosts(three: LabCluster, tiny_archive: Path) -> None:
    up(three)
    until(lambda: "step 12" in three("logs", "worker/0"), "some steps")
    three("down")
    _, _, one, two = three.lab.hosts
    # Slowly: the task removes old checkpoints, in the end also the one it began with.
    three.write({"ps": [one], "worker": [two]}, standin(tiny_archive, step_seconds=10))
    printed = three("up", "--resume")
    assert re.search(r"goes on from step \d+", printed)
    _, listed = two.run_in("tfprov-lab-worker-0", "ls", "/checkpoints")
    gathered = sorted((three.directory / "checkpoints" / "lab").glob("model.ckpt-*.index"))
    newest = max(gathered, key=lambda path: int(re.findall(r"\d+", path.name)[0]))
    assert newest.name in listed


@pytest.mark.parametrize("fault", ["unknown", "changed", "auth", "sshd", "docker", "port"])
def test_a_faulty_host_is_named_in_one_line_and_no_task_is_left_running(three: LabCluster, fault: str) -> None:
    bad = three.lab.hosts[2]
    before = three.containers()
    code, message = _break(three, fault)
    printed = three("up", code=code)
    output = [line for line in printed.splitlines() if bad.name in line and re.search(message, line)]
    assert output, printed
    assert not running(three)
    assert not any(before.values())


def _break(three: LabCluster, fault: str) -> tuple[int, str]:
    """Do it to the third host; return the exit code of `up` and its lines about the host."""
    bad = three.lab.hosts[2]
    known = three.lab.bed.known_hosts
    if fault == "unknown":
        lines = [line for line in known.read_text().splitlines() if not line.startswith(f"{bad.address} ")]
        known.write_text("\n".join([*lines, ""]))
        return 4, r"unknown host key ssh-ed25519 SHA256:\S+; .*--accept-new"
    if fault == "changed":
        bad.change_key()
        return 4, r"THE HOST KEY HAS CHANGED.*ssh-keygen -R"
    if fault == "auth":
        bad.disturbed = True
        bad.run("sh", "-c", ": >/etc/ssh/authorized_keys")
        return 4, r"refused|denied|does not accept"
    if fault == "sshd":
        bad.service("sshd", "stop")
        return 4, r"refused the connection; start sshd there"
    if fault == "docker":
        bad.hide_docker()
        return 1, r"Docker is not installed; install it there"
    bad.listen(2222, bad.address)
    return 1, r"port 2222 for worker/1 is taken by another program; stop it"


def test_a_full_disk_is_reported_before_anything_is_sent(three: LabCluster, tiny_archive: Path) -> None:
    small = three.lab.add(disk="3m")
    one, two, *_ = three.lab.hosts
    three.write({"ps": [one], "worker": [two, small]}, standin(tiny_archive))
    printed = three("up", code=1)
    assert re.search(rf"{small.name}: no room for the image: it needs .* is free in ", printed)
    assert not any(three.containers().values())


def test_a_host_without_forwarding_works_and_the_reason_it_is_slower_is_reported(three: LabCluster) -> None:
    slow = three.lab.hosts[2]
    slow.forget_images()
    slow.sshd_option("AllowTcpForwarding no")
    printed = up(three)
    assert re.search(rf"{slow.name}: .*forward", printed)
    assert [len(ids) for ids in three.containers().values()] == [1, 1, 1, 0]


def test_a_worker_that_ends_at_once_takes_the_start_back(three: LabCluster, tiny_archive: Path) -> None:
    one, two, other, _ = three.lab.hosts
    three.write(
        {"ps": [one], "worker": [two, other]},
        standin(tiny_archive),
        role_settings={"worker": {"command": ["sh", "-c", "echo no such data; exit 3"]}},
    )
    printed = three("up", code=1)
    assert re.search(r"worker/\d: exited with code 3", printed)
    assert "no such data" in printed
    assert not running(three)
    three("up", "--partial", code=1)
    assert any(three.containers().values())
    three("down", "--discard")


ROLL = """\
- hosts: worker
  serial: 1
  tasks:
    - start:
    - wait: {for: serving, timeout: 120}
"""


def test_a_change_rolls_over_the_hosts_and_ends_with_the_first_batch_that_fails(
    three: LabCluster, tiny_archive: Path
) -> None:
    one, two, other, _ = three.lab.hosts
    printed = three("up", "--canary", "2")
    canary, rest = printed.partition("the canary serves: the other hosts follow")[::2]
    assert "ok       start worker/1" in rest
    assert "start worker/1 " not in canary.partition("canary: ")[2]
    book = three.directory / "roll.yml"
    book.write_text(ROLL)
    before = three.containers()
    roles = {"ps": [one], "worker": [two, other]}
    three.write(roles, standin(tiny_archive), role_settings={"worker": {"env": {"LEVEL": "2"}}})
    printed = three("play", str(book))
    first, second = printed.partition(f"batch 2 of 2: {other.name}")[::2]
    assert f"batch 1 of 2: {two.name}" in first
    assert ("worker/0 serves" in first, "worker/1" in first, "worker/1 serves" in second) == (True, False, True)
    after = three.containers()
    assert [name for name in after if after[name] != before[name]] == [two.name, other.name]
    three.write(roles, standin(tiny_archive), role_settings={"worker": {"command": ["sh", "-c", "exit 3"]}})
    printed = three("play", str(book), code=1)
    assert "batch 2" not in printed
    assert three.containers()[other.name] == after[other.name], "the next batch was not begun"
    assert "tfprov-lab-worker-1" in running(three)
    three("down", "--discard")


def test_with_sudo_the_user_needs_no_docker_group(three: LabCluster, tiny_archive: Path) -> None:
    one, two, *_ = three.lab.hosts
    three.write({"ps": [one], "worker": [two]}, standin(tiny_archive), user="admin", ansible_become=True)
    up(three)
    assert {task["state"] for task in three.tasks().values()} == {"running"}
    three.write({"ps": [one], "worker": [two]}, standin(tiny_archive), user="plain")
    printed = three("status", code=1)
    assert "add the user to the group `docker`" in printed


def test_a_reboot_of_a_host_is_seen_and_made_good(three: LabCluster) -> None:
    up(three)
    three.lab.hosts[2].restart()
    assert three.tasks()["worker/1"]["state"] == "failed"
    up(three)
    assert {task["state"] for task in three.tasks().values()} == {"running"}


def test_foreign_objects_of_the_same_names_are_kept_and_a_moved_tag_is_not_run(three: LabCluster) -> None:
    up(three)
    two = three.lab.hosts[1]
    (worker,) = two.client.containers.list()
    image = two.client.images.get(worker.attrs["Image"])  # there may be more of the same name, of other tests
    three("down")
    theirs = two.client.containers.create(image, "true", name="tfprov-lab-worker-0")
    volume = two.client.volumes.create("tfprov-lab-worker-0-checkpoints")
    printed = three("up", code=1)
    assert f"node2: the container tfprov-lab-worker-0 ({str(theirs.id)[:12]}) is not ours; rename it" in printed
    assert "node2: the volume tfprov-lab-worker-0-checkpoints is not ours; remove it" in printed
    assert {host: len(ids) for host, ids in three.containers().items() if ids} == {"node2": 1}, "nothing was started"
    other = theirs.commit(image.tags[0].partition(":")[0], image.tags[0].partition(":")[2])  # moves the tag
    theirs.remove()
    volume.remove()
    assert "(the image of this name on node2 is not the one that was delivered)" in three("plan")
    up(three)
    (worker,) = two.client.containers.list()
    assert worker.attrs["Image"] == image.id != other.id
    assert three("plan").rstrip().endswith("nothing to do")


def test_an_image_of_a_registry_gets_the_code_beside_it(three: LabCluster, tiny_archive: Path, images: Images) -> None:
    one, two, *_ = three.lab.hosts
    three.lab.load(images.tiny(), [one, two])  # as if pulled from a registry before
    three.write({"ps": [one], "worker": [two]}, {**standin(tiny_archive), "image": {"name": images.tiny()}})
    up(three)
    assert {task["state"] for task in three.tasks().values()} == {"running"}
    listed = three("exec", "worker/0", "--", "sh", "-c", "ls /code; ls /tfprov/tfprov; pwd")
    assert {"task.sh", "wiring.py", "/code"} <= set(listed.split())
    assert "nothing to do" in three("up")


def test_an_image_is_built_on_the_host_the_inventory_names(
    three: LabCluster, tiny_archive: Path, images: Images, tmp_path: Path
) -> None:
    one, two, _, builder = three.lab.hosts
    three.lab.load(images.tiny(), [builder])
    context = tmp_path / "image"
    context.mkdir()
    (context / "made").write_text("made here\n")
    (context / "Dockerfile").write_text(f"FROM {images.tiny()}\nCOPY made /made\n")
    image = {"build": str(context), "build_on": builder.name}
    three.write({"ps": [one], "worker": [two]}, {**standin(tiny_archive), "image": image})
    settings = yaml.safe_load(three.inventory.read_text())
    settings["all"]["hosts"] = {builder.name: builder.variables()}
    three.inventory.write_text(yaml.safe_dump(settings))
    assert f"building {context} on {builder.name}" in up(three)
    assert "made here" in three("exec", "worker/0", "--", "cat", "/made")


def test_docker_on_this_machine_needs_neither_ssh_nor_an_address(three: LabCluster, tiny_archive: Path) -> None:
    settings = {**standin(tiny_archive, train_steps=6), "cluster": "here", "checkpoints": {"to": str(three.directory)}}
    settings["port"] = free_ports(3)  # the default port is that of other programs on this machine, too
    tasks = {"worker": {"hosts": {"localhost": None}, "vars": {"tfprov": {"tasks_per_host": 2}}}}
    children = {"ps": {"hosts": {"localhost": None}}, **tasks}
    three.inventory.write_text(yaml.safe_dump({"all": {"vars": {"tfprov": settings}, "children": children}}))
    assert "done: step=6" in three("run")
    assert (three.directory / "here" / "model.ckpt-6.index").exists()
    client = three.lab.engine.client
    assert not client.containers.list(all=True, filters={"label": "tfprov.cluster=here"})
    for name in {tag for image in client.images.list("tfprov/here") for tag in image.tags}:
        client.images.remove(name)
