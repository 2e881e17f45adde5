"""Push images to hosts: each byte once, over breaking connections, without changing foreign images."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.delivery import (
    DOCUMENTS,
    OURS,
    PushRecorder,
    clean,
    export_tiny,
    load,
    machine,
    names,
    push_image,
    random_image,
    tags,
)
from tests.support.delivery_images import code
from tests.support.engine import Engine as PrivateEngine
from tests.support.images import Images
from tests.support.paths import ROOT
from tests.support.testhost import Host
from tests.support.testhosts import Lab
from tfprov.errors import HostError, Unreachable
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.machine import LocalMachine, Machine, SSHMachine
from tfprov.images.code import Code
from tfprov.images.code_layer import compose
from tfprov.images.engine_images import list_tags, remove_old_tags, wait_for_stream
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import OciImage
from tfprov.images.push import PushResult
from tfprov.images.registry_server import PushRegistry
from tfprov.images.stages import STAGE_SIZE


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return Layout(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def tiny(private_engine: PrivateEngine, images: Images, layout: Layout) -> OciImage:
    """The small image, in the controller's layout."""
    return export_tiny(private_engine, images, layout)


@pytest.fixture
def node(lab: Lab) -> Iterator[Host]:
    """A host that has never seen an image, and of which a test may ask anything."""
    host = lab.hosts[0]
    host.forget_images()
    yield host
    clean(host)


CUT = """
for process in /proc/[0-9]*; do
    [ "$(readlink "$process/exe")" = /usr/sbin/sshd ] || continue
    [ "${process#/proc/}" = "$(cat /run/sshd.pid)" ] || kill -9 "${process#/proc/}"
done
true
"""
"""Ends every connection to a host, and leaves its sshd."""


def program(size: int = 200_000) -> Code:
    return code(main=b"#!/bin/sh\necho ran\n", data=os.urandom(size))


def test_an_image_is_pushed_to_two_hosts_at_once_and_runs(lab: Lab, layout: Layout, tiny: OciImage) -> None:
    image = compose(layout, tiny, program(), f"{OURS}:1")
    hosts = lab.hosts[:2]
    machines = [machine(host) for host in hosts]
    for host in hosts:
        host.forget_images()
    with ThreadPoolExecutor(2) as pool:
        pushed = list(pool.map(partial(push_image, layout=layout, image=image, tag="1"), machines))
    for host, result in zip(hosts, pushed, strict=True):
        assert (result.way, result.reason) == ("pull", "")
        assert image.size <= result.sent <= image.size + DOCUMENTS
        assert names(host) == {f"{OURS}:1"}, "the name it was pulled by is gone"
        assert host.client.images.get(f"{OURS}:1").id == image.id
        seen = host.client.containers.run(
            f"{OURS}:1", ["sh", "-c", "sh main; echo $PYTHONPATH; ls $PYTHONPATH"], remove=True
        )
        assert seen == b"ran\n/tfprov\ntfprov\n"
        clean(host)
    for made in machines:
        made.close()


def test_an_image_the_host_has_is_only_tagged(
    node: Host, node_machine: SSHMachine, layout: Layout, tiny: OciImage
) -> None:
    image = compose(layout, tiny, program(), "there")
    push_image(node_machine, layout, image, "1")
    assert push_image(node_machine, layout, image, "1") == PushResult(0, "there")
    node.client.images.get(f"{OURS}:1").tag(OURS, "other")
    node.client.images.remove(f"{OURS}:1")
    assert push_image(node_machine, layout, image, "2") == PushResult(0, "there")
    assert tags(node) == {f"{OURS}:other", f"{OURS}:2"}


def test_an_edit_of_the_code_sends_its_layer_and_nothing_else(
    node: Host, node_machine: SSHMachine, layout: Layout, tiny: OciImage
) -> None:
    push_image(node_machine, layout, compose(layout, tiny, program(), "before"), "1")
    edited = compose(layout, tiny, program(), "after")
    watched = PushRecorder()
    pushed = push_image(node_machine, layout, edited, "1", watched)
    layer = edited.layers[-1].size
    assert pushed.way == "pull"
    assert layer < pushed.sent <= 1.1 * layer + DOCUMENTS
    assert watched.reports[0][1] < 1.1 * layer + DOCUMENTS, "that is what was announced, too"
    assert list_tags(node_machine.engine, OURS) == {"1": edited.id}


def test_layers_that_an_engine_has_from_elsewhere_are_not_sent(
    node: Host, node_machine: SSHMachine, layout: Layout
) -> None:
    """What was loaded or built there, an engine would pull once more: it knows such layers by no digest of ours."""
    base = random_image(layout, 2_000_000)
    load(node, layout, base, "foreign/base:1")
    image = compose(layout, base, program(), "top")
    pushed = push_image(node_machine, layout, image, "1")
    assert pushed.way == "load"
    assert pushed.reason == "it has the lower layers from elsewhere, so the others went as one archive"
    assert pushed.sent < 2 * sum(layer.size for layer in image.layers[-2:]) + 2 * DOCUMENTS < image.size
    assert node.client.images.get(f"{OURS}:1").id == image.id
    assert tags(node) == {f"{OURS}:1", "foreign/base:1"}


def test_an_engine_that_is_brought_two_images_at_once_upon_layers_from_elsewhere_has_both(
    node: Host, node_machine: SSHMachine, layout: Layout
) -> None:
    """It asks for a layer once for all who pull it: one delivery refuses it, and the other's pull fails."""
    base = random_image(layout, 2_000_000)
    load(node, layout, base, "foreign/base:1")
    images = [compose(layout, base, program(), str(number)) for number in range(4)]
    with ThreadPoolExecutor() as pool:
        pushed = list(pool.map(lambda image: push_image(node_machine, layout, image, image.id[7:19]), images))
    assert {one.way for one in pushed} == {"load"}
    assert set(list_tags(node_machine.engine, OURS).values()) == {image.id for image in images}


def test_a_host_that_forwards_no_ports_gets_it_as_an_archive(node: Host, layout: Layout, tiny: OciImage) -> None:
    node.sshd_option("AllowTcpForwarding no")
    node.wait()
    strict = machine(node)
    first = compose(layout, tiny, program(), "first")
    pushed = push_image(strict, layout, first, "1")
    assert (pushed.way, pushed.reason) == (
        "load",
        "its sshd forwards no ports, so the image went as one archive, which is slower",
    )
    assert node.client.images.get(f"{OURS}:1").id == first.id
    edited = compose(layout, tiny, program(), "edited")
    pushed = push_image(strict, layout, edited, "2")
    assert pushed.sent <= 1.1 * edited.layers[-1].size + DOCUMENTS, "only what is missing"
    assert names(node) == {f"{OURS}:1", f"{OURS}:2"}
    strict.close()


@pytest.mark.parametrize("forwards", [True, False], ids=["pull", "load"])
def test_a_lost_connection_is_reopened_and_costs_one_stage(node: Host, layout: Layout, forwards: bool) -> None:
    if not forwards:
        node.sshd_option("AllowTcpForwarding no")
        node.wait()
    image = random_image(layout, *[STAGE_SIZE + 10_000] * 3, 1000)
    made = machine(node)
    watched = PushRecorder(int(2.2 * STAGE_SIZE), lambda: node.run("sh", "-c", CUT))
    pushed = push_image(made, layout, image, "1", watched)
    assert pushed.way == ("pull" if forwards else "load")
    assert watched.notes == ["connection lost; retry 1/3"]
    assert node.client.images.get(f"{OURS}:1").id == image.id
    # The engine drops what it got of a stage; what came before stays. Packets that were on their way are counted twice.
    assert image.size < pushed.sent < image.size + STAGE_SIZE
    assert names(node) == {f"{OURS}:1"}, "the stages are gone"
    made.close()


def test_a_push_to_a_lost_host_fails_without_a_partial_image(node: Host, layout: Layout) -> None:
    image = random_image(layout, 3_000_000)
    made = machine(node)

    def end() -> None:
        node.run("sh", "-c", 'kill -9 "$(cat /run/sshd.pid)"')  # the listener first: nobody comes back between the two
        node.service("sshd", "stop")

    watched = PushRecorder(1_000_000, end)
    with pytest.raises(Unreachable, match=rf"^node1: {node.address}:22 refused the connection"):
        push_image(made, layout, image, "1", watched)
    assert watched.notes == [f"connection lost; retry {number}/3" for number in (1, 2, 3)]
    assert names(node) == set()
    node.service("sshd", "start")
    node.wait()
    assert push_image(made, layout, image, "1").way == "pull"
    assert node.client.images.get(f"{OURS}:1").id == image.id
    made.close()


def test_a_host_that_never_answered_is_not_tried_again(node: Host, layout: Layout) -> None:
    node.service("sshd", "stop")
    watched = PushRecorder()
    with pytest.raises(Unreachable, match="refused the connection"):
        push_image(machine(node), layout, random_image(layout, 1000), "1", watched)
    assert watched.notes == []


def test_a_push_to_a_full_disk_fails_before_anything_is_sent(lab: Lab, layout: Layout) -> None:
    host = lab.add(disk="24m")
    made, watched = machine(host), PushRecorder()
    with pytest.raises(HostError) as caught:
        push_image(made, layout, random_image(layout, 20_000_000), "1", watched)
    assert str(caught.value).startswith("node5: no room for the image: it needs 46.")
    assert " MiB is free in /var/lib/docker; free some there" in str(caught.value)
    assert (watched.reports, names(host)) == ([], set())
    assert push_image(made, layout, random_image(layout, 2_000_000), "1").way == "pull"
    made.close()


def test_without_a_disk_check_the_engine_reports_a_full_disk(lab: Lab, layout: Layout) -> None:
    host = lab.add(disk="24m")
    host.run("sh", "-c", "mv $(which df) /tmp")
    made = machine(host)
    with pytest.raises(HostError, match=r"^node5: no space left on its disk: .*; free some"):
        push_image(made, layout, random_image(layout, 40_000_000), "1")
    assert names(host) == set()
    assert push_image(made, layout, random_image(layout, 1_000_000), "1").way == "pull"
    made.close()


def test_an_image_for_other_machines_is_refused_before_anything_is_sent(
    node: Host, node_machine: SSHMachine, layout: Layout
) -> None:
    other = random_image(layout, 1000, architecture="s390x")
    watched = PushRecorder()
    with pytest.raises(HostError, match=r"^node1: its engine runs linux/\w+, and the image is for linux/s390x; make"):
        push_image(node_machine, layout, other, "1", watched)
    assert (watched.reports, names(node)) == ([], set())


def test_foreign_images_and_names_stay_as_they_are(
    node: Host, node_machine: SSHMachine, layout: Layout, tiny: OciImage
) -> None:
    foreign = {"foreign/app:1", f"{OURS}-not:1", f"{OURS}/below:1", "push-test:1"}
    for name in foreign:
        load(node, layout, tiny, name)
    for number in range(4):
        push_image(node_machine, layout, compose(layout, tiny, program(1000), "x"), str(number))
    assert list_tags(node_machine.engine, OURS).keys() == {"0", "1", "2", "3"}
    node.client.containers.create(f"{OURS}:0", ["true"])
    node.client.containers.create("foreign/app:1", ["true"])
    remove_old_tags(node_machine.engine, OURS, keep=2)
    assert list_tags(node_machine.engine, OURS).keys() == {"0", "2", "3"}, "0 is in use"
    remove_old_tags(node_machine.engine, OURS, keep=9)
    remove_old_tags(node_machine.engine, "foreign/none", keep=0)
    assert list_tags(node_machine.engine, OURS).keys() == {"0", "2", "3"}
    node.clean()
    remove_old_tags(node_machine.engine, OURS, keep=0)
    assert tags(node) == foreign
    assert {node.client.images.get(name).id for name in foreign} == {tiny.id}


def test_images_are_kept_by_their_last_delivery(
    node: Host, node_machine: SSHMachine, layout: Layout, tiny: OciImage
) -> None:
    made = [compose(layout, tiny, program(1000), "x") for _ in range(3)]
    for number, image in enumerate(made):
        push_image(node_machine, layout, image, str(number))
    push_image(node_machine, layout, made[0], "0")
    remove_old_tags(node_machine.engine, OURS, keep=1)
    assert list_tags(node_machine.engine, OURS) == {"0": made[0].id}


def test_a_tag_that_means_another_image_is_moved(
    node: Host, node_machine: SSHMachine, layout: Layout, tiny: OciImage
) -> None:
    other = random_image(layout, 1000)
    push_image(node_machine, layout, other, "old")
    node.client.images.get(f"{OURS}:old").tag(OURS, "1")
    image = compose(layout, tiny, program(1000), "x")
    push_image(node_machine, layout, image, "1")
    assert list_tags(node_machine.engine, OURS) == {"old": other.id, "1": image.id}


def test_names_that_a_killed_run_left_are_removed_by_the_next(
    node: Host, node_machine: SSHMachine, layout: Layout
) -> None:
    image = random_image(layout, 1000)
    handing = PushRegistry(layout, [image], (), lambda size: None)
    with node_machine.remote_forward(handing.serve) as port, node_machine.engine.errors():
        name, login = f"127.0.0.1:{port}/{handing.name}", handing.login
        pulled = node_machine.engine.api.pull(name, image.manifest.digest, stream=True, decode=True, auth_config=login)
        wait_for_stream(node_machine.engine, pulled)
    assert f"{name}@{image.manifest.digest}" in names(node)
    assert push_image(node_machine, layout, image, "1") == PushResult(0, "there")
    assert names(node) == {f"{OURS}:1"}


def test_an_engine_that_does_not_reach_our_loopback_gets_it_as_an_archive(node: Host, layout: Layout) -> None:
    """As a rootless one, or one in a virtual machine: here it is in another network."""
    here = LocalMachine("here", node.outside / "docker.sock")
    image = random_image(layout, 500_000, 1000)
    pushed = push_image(here, layout, image, "1")
    assert (pushed.way, pushed.reason) == (
        "load",
        "its engine does not reach the host's loopback, so the image went as one archive, which is slower",
    )
    assert node.client.images.get(f"{OURS}:1").id == image.id
    here.close()


LOCALLY = """
import sys
from pathlib import Path
from tests.support.delivery import OURS, push_image, random_image
from tfprov.images.oci_layout import Layout
from tfprov.hosts.machine import LocalMachine

layout, here = Layout(Path(sys.argv[1])), LocalMachine("here", Path(sys.argv[2]))
print(push_image(here, layout, random_image(layout, 500_000), "local").way)
here.close()
"""


def test_the_engine_of_this_machine_pulls_as_any_other(private_engine: PrivateEngine, tmp_path: Path) -> None:
    """The tests' engine has a network of its own: whoever is in there sees it as a user sees the machine's."""
    command = [*private_engine.network.enter, sys.executable, "-c", LOCALLY, str(tmp_path), str(private_engine.socket)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("pull\n", "")
    private_engine.client.images.remove(f"{OURS}:local")


class Claiming:
    """An engine that says it has layers, and when it comes to it wants them: some keep their layers in other ways."""

    def __init__(self, engine: Engine, diff_ids: Sequence[str]) -> None:
        self._engine, self._layers = engine, list(diff_ids)
        self.host, self.errors = engine.host, engine.errors

    @property
    def api(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine.api, name)

    def images(self) -> Any:
        return [*self._engine.api.images(), {"Id": "claimed"}]

    def ask_each(self, *paths: str) -> list[Any]:
        claimed = {"Id": "claimed", "RootFS": {"Layers": self._layers}}
        others = [path for path in paths if "claimed" not in path]
        return [*self._engine.ask_each(*others), *[claimed] * (len(paths) - len(others))]


class Other:
    """A machine with another engine."""

    def __init__(self, machine: Machine, engine: Any) -> None:
        self.host, self.engine = machine.host, cast("Engine", engine)
        self.remote_forward, self.run = machine.remote_forward, machine.run
        self.is_listening, self.close = machine.is_listening, machine.close
        self.link_rate = machine.link_rate


def test_an_engine_that_wants_all_layers_gets_all(node: Host, node_machine: SSHMachine, layout: Layout) -> None:
    image = random_image(layout, 500_000, 1000, 2000)
    pushed = push_image(Other(node_machine, Claiming(node_machine.engine, image.diff_ids[:2])), layout, image, "1")
    assert pushed.way == "load"
    assert image.size < pushed.sent < 1.5 * image.size
    assert node.client.images.get(f"{OURS}:1").id == image.id


MEMORY = """
import json, os, sys
from pathlib import Path
from tfprov.images.push import push
from tests.support.delivery import random_image
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import DOCKER_CONFIG, DOCKER_LAYER, write_manifest
from tfprov.hosts.machine import SSHMachine
from tfprov.hosts.ssh.host import SSHHost
from tfprov.hosts.ssh.client_config import SSHTarget
from tests.support.delivery_images import config
import tarfile

directory, key, known, size, *hosts = sys.argv[1:]
layout = Layout(Path(directory))
way = {"key_files": (Path(key),), "known_hosts": (Path(known),)}
machines = [SSHMachine(SSHHost(SSHTarget(*host.split(","), 22, "trainer", **way))) for host in hosts]

def ignore_progress(sent, total): pass

def memory(kind):  # not getrusage, whose peak begins with that of the process that started this one
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith(kind))

for machine in machines:  # the libraries are loaded, the connections are made
    push(machine, layout, random_image(layout, 1000), "tfprov/push-test:warm", ignore_progress)

with layout.blobs.receive() as blob:
    info = tarfile.TarInfo("data")
    info.size = int(size)
    blob.write(info.tobuf())
    for _ in range(int(size) // 65536):
        blob.write(os.urandom(65536))
    blob.write(bytes(1024))
    layer = blob.keep(DOCKER_LAYER)
document = json.loads(config([b""]))
document["rootfs"]["diff_ids"] = [layer.digest]
manifest, written = write_manifest(layout.blobs.write(json.dumps(document).encode(), DOCKER_CONFIG), (layer,))
layout.blobs.write(written, manifest.media_type)
image = layout.image(manifest)

before = memory("VmRSS")
ways = [push(machine, layout, image, "tfprov/push-test:large", ignore_progress).way for machine in machines]
print(json.dumps([ways, before, memory("VmHWM")]))
for machine in machines:
    machine.close()
"""


def test_memory_does_not_grow_with_the_image(lab: Lab, tmp_path: Path) -> None:
    pulling, loading = lab.hosts[:2]
    loading.sshd_option("AllowTcpForwarding no")
    loading.wait()
    arguments = [tmp_path / "images", lab.bed.key, lab.bed.known_hosts, 200 * 1024 * 1024 // 65536 * 65536]
    hosts = [f"{host.name},{host.address}" for host in (pulling, loading)]
    command = [sys.executable, "-c", MEMORY, *map(str, arguments), *hosts]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ways, before, after = json.loads(done.stdout)
    assert ways == ["pull", "load"]
    assert after - before < 100 * 1024, f"from {before} to {after} KiB"
    for host in (pulling, loading):
        clean(host)
