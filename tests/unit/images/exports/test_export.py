"""Exports from an engine that pushes over real HTTP: what comes, what is kept, and what an interrupted push leaves."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.delivery_images import contents, tar
from tests.support.pushing_engine import Client, PushingEngine, Send
from tfprov.errors import HostError, Unreachable
from tfprov.hosts.ssh.errors import ForwardingForbidden
from tfprov.images.exports.export import export
from tfprov.images.exports.layer_upload import OPENING
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import digest_of

BASE = tar({"lib": bytes(20_000_000)})
COMMON = tar({"packages": os.urandom(300_000)})
OLD, NEW = tar({"code": b"old"}), tar({"code": b"new"})


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layout with the image before the edit."""
    directory = tmp_path_factory.mktemp("before") / "images"
    engine = PushingEngine([BASE, COMMON, OLD], "before")
    assert export(engine.machine, engine.id, Layout(directory), "before").id == engine.id
    assert (engine.saved, engine.pushed) == (1, 0), "there was nothing to begin with"
    return directory


@pytest.fixture
def layout(before: Path, tmp_path: Path) -> Layout:
    """A copy of it."""
    return Layout(shutil.copytree(before, tmp_path / "images"))


def exported(engine: PushingEngine, layout: Layout) -> tuple[int, list[str]]:
    """Export the image of `engine`; return the bytes received and the notes."""
    received: list[int] = []
    notes: list[str] = []
    image = export(engine.machine, engine.id, layout, "after", lambda size, total: received.append(size), notes.append)
    assert image.id == engine.id
    assert layout.find("after") == image
    assert layout.verify(image)
    assert list(layout.blobs.incoming.iterdir()) == []
    assert engine.names == {}
    return (received or [0])[-1], notes


@pytest.mark.parametrize("later", [False, True])
def test_after_an_edit_of_the_last_step_only_its_layer_is_uploaded(layout: Layout, tmp_path: Path, later: bool) -> None:
    engine = PushingEngine([BASE, COMMON, NEW], later=later)
    received, notes = exported(engine, layout)
    assert 0 < received < 1000 + OPENING, "the layer, and as much of the one below as recognizes it"
    assert (engine.saved, engine.pushed, notes) == (0, 1, [])
    whole = export(engine.machine, engine.id, Layout(tmp_path / "elsewhere"), "after")
    assert (engine.saved, whole) == (1, layout.find("after")), "it is the same as `docker save` has it"


def test_a_layer_below_kept_ones_is_uploaded_with_those_above_it(layout: Layout) -> None:
    engine = PushingEngine([BASE, tar({"packages": os.urandom(300_000)}), OLD])
    received, _ = exported(engine, layout)
    assert 300_000 < received < 310_000 + OPENING
    assert (engine.saved, engine.pushed) == (0, 1)


def test_a_change_without_a_layer_uploads_nothing(layout: Layout) -> None:
    engine = PushingEngine([BASE, COMMON, OLD], "another label")
    assert exported(engine, layout) == (0, [])
    assert (engine.saved, engine.pushed) == (0, 0)


@pytest.mark.parametrize(
    "layers",
    [
        [tar({"lib": b"another base"}), COMMON, NEW],
        [BASE, tar({"packages": os.urandom(6_000_000)}), NEW],
        [tar({"lib": b"s"}), NEW],
    ],
    ids=["another base", "most of it is new", "small"],
)
def test_an_image_of_which_little_is_there_is_saved_whole(layout: Layout, layers: Sequence[bytes]) -> None:
    small = PushingEngine([*layers[:-1], OLD], "small")
    if len(layers) == 2:
        export(small.machine, small.id, layout, "small")
    engine = PushingEngine(layers)
    received, notes = exported(engine, layout)
    assert received > sum(map(len, layers))
    assert (engine.saved, engine.pushed, notes) == (1, 0, [])


def _half(client: Client, layers: Sequence[bytes]) -> Iterator[str]:
    """Break the connection within the layer."""
    client.connection.putrequest("PATCH", client.begin())
    for name, value in {**client.headers, "Content-Length": "1000000"}.items():
        client.connection.putheader(name, value)
    client.connection.endheaders(b"\x1f\x8b")
    yield "connection reset by peer"


def _another_digest(client: Client, layers: Sequence[bytes]) -> Iterator[str]:
    location = client.begin()
    yield str(client.ask("PUT", f"{location}?digest=sha256:{0:064x}")[1])


def _other_layers(client: Client, layers: Sequence[bytes]) -> Iterator[str]:
    assert client.upload(tar({"code": b"of somebody else"})) == ""
    yield from ()


def _nothing(client: Client, layers: Sequence[bytes]) -> Iterator[str]:
    yield "dial tcp 127.0.0.1: connection refused"


@pytest.mark.parametrize(
    ("send", "reason"),
    [
        (_half, "connection reset by peer"),
        (_another_digest, "DIGEST_INVALID"),
        (_other_layers, "its engine uploaded other layers"),
        (_nothing, "its engine does not reach this machine through the loopback"),
    ],
    ids=["broken", "another digest", "other layers", "unreachable"],
)
def test_an_interrupted_push_keeps_nothing_and_the_whole_image_is_saved(
    layout: Layout, send: Send, reason: str
) -> None:
    before = set(contents(layout))
    engine = PushingEngine([BASE, COMMON, NEW], send=send)
    _, notes = exported(engine, layout)
    assert (engine.saved, engine.pushed) == (1, 1)
    assert notes == [f"the whole image is exported, which is slower: {reason}"]
    assert len(set(contents(layout)) - before) == 3, "a layer, a configuration and a manifest"


class WithoutForwards(PushingEngine):
    """An engine on a host whose sshd forwards no ports."""

    error: Exception = ForwardingForbidden("h1", "its sshd forbids it", "allow it")

    @property
    def machine(self) -> Any:
        def refuse(_serve: object) -> None:
            raise self.error

        made = super().machine
        made.remote_forward = refuse
        return made


def test_where_sshd_forwards_no_ports_the_whole_image_is_saved(layout: Layout) -> None:
    engine = WithoutForwards([BASE, COMMON, NEW])
    _, notes = exported(engine, layout)
    assert (engine.saved, engine.pushed) == (1, 0)
    assert notes == ["the whole image is exported, which is slower: its sshd forwards no ports"]


class WithoutParent(PushingEngine):
    """An engine that names no image below this one, as BuildKit leaves it."""

    def _facts(self, name: str) -> dict[str, Any]:
        return super()._facts(name) | {"Parent": ""}


def test_an_image_without_a_parent_is_saved_whole(layout: Layout) -> None:
    engine = WithoutParent([BASE, COMMON, NEW])
    assert exported(engine, layout)[1] == []
    assert (engine.saved, engine.pushed) == (1, 0)


def test_where_the_connection_is_lost_nothing_is_saved(layout: Layout) -> None:
    engine = WithoutForwards([BASE, COMMON, NEW])
    engine.error = Unreachable("h1", "the connection is lost")
    with pytest.raises(Unreachable):
        export(engine.machine, engine.id, layout, "after")
    assert (engine.saved, engine.pushed) == (0, 0)


def test_an_unknown_configuration_is_never_guessed(layout: Layout) -> None:
    engine = PushingEngine([BASE, COMMON, NEW])
    engine.document = json.dumps(json.loads(engine.document) | {"new field": 1}).encode()
    engine.id = digest_of(engine.document)
    exported(engine, layout)
    assert (engine.saved, engine.pushed) == (1, 0)


def test_names_of_a_killed_export_are_removed_by_the_next_one(layout: Layout) -> None:
    engine = PushingEngine([BASE, COMMON, NEW])
    engine.names = {f"127.0.0.1:40001/tfprov/{7:032x}:export": "step1", f"127.0.0.1:40001/tfprov/{7:032x}:1": "step1"}
    export(engine.machine, engine.id, layout, "after")
    assert list(engine.names) == [f"127.0.0.1:40001/tfprov/{7:032x}:1"]


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (None, "nothing instead of a list"),
        ({}, "an object instead of a list"),
        ([1], "a number instead of an object in [0]"),
        ([{"Id": 1}], "a number instead of a text in [0].Id"),
        ([{"Id": "a", "Size": "much"}], "a text instead of an integer in [0].Size"),
        ([{"Id": "a"}, {"Id": "b", "CreatedBy": []}], "a list instead of a text in [1].CreatedBy"),
    ],
)
def test_a_history_that_no_engine_sends_is_an_error_of_its_host(layout: Layout, answer: object, fault: str) -> None:
    engine: Any = PushingEngine([BASE, COMMON, NEW])
    engine.ask = lambda path: [answer]
    with pytest.raises(HostError) as raised:
        export(engine.machine, engine.id, layout, "after")
    assert str(raised.value) == (
        f"h1: its Docker engine sent a malformed answer: {fault}; "
        "is that a Docker engine? check what listens on its socket, and restart it"
    )
