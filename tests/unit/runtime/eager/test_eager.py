"""The TF2 strategies without TensorFlow: peers that answer or are lost, and refused clusters."""

import contextlib
import json
import math
import socket
import threading
from collections.abc import Container, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.waiting import until
from tfprov import runtime
from tfprov.runtime import peer_watch
from tfprov.runtime.eager import fit, member, saver
from tfprov.runtime.eager.member import peers, reason_of
from tfprov.runtime.eager.mirrored import heartbeat_timeout
from tfprov.runtime.eager.saver import Saver, task_of, variables_of, write_placement
from tfprov.runtime.resume import repair
from tfprov.wiring import Wiring, to_tf_config

PS = {"ps": ("h0:1", "h1:1"), "chief": ("h2:1",), "worker": ("h3:1",)}


@contextlib.contextmanager
def server(
    greeting: bytes, connections: list[socket.socket] | None = None, refused: Container[int] = ()
) -> Iterator[str]:
    """Listen on a port and send `greeting` to each client; append their sockets to `connections`.

    The clients `refused`, by their number from 0, are disconnected without a greeting.
    """
    connections = [] if connections is None else connections
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                if len(connections) in refused:
                    connection.close()
                else:
                    connection.sendall(greeting)
                connections.append(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
        for connection in connections:
            connection.close()


def test_a_server_that_greets_answers_and_one_that_only_accepts_does_not() -> None:
    with server(b"settings") as greets, server(b"") as mute:
        assert peer_watch.greets(greets)
        assert not peer_watch.greets(mute, timeout=0.1)
        assert peer_watch.unreachable_peers({"ps/0": greets}) == []
        assert f"ps/1 at {mute}" in peer_watch.unreachable_peers({"ps/0": greets, "ps/1": mute}, timeout=0.1)
    assert not peer_watch.greets(greets)
    assert not peer_watch.greets("[::1]:1")


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..example"])
def test_a_peer_whose_name_cannot_be_one_of_a_host_does_not_answer(host: str) -> None:
    assert not peer_watch.greets(f"{host}:1")
    assert peer_watch.unreachable_peers({"ps/0": f"{host}:1"}) == [f"ps/0 at {host}:1"]


def test_the_watch_reports_a_peer_that_left_and_none_that_never_came() -> None:
    reported, lost = threading.Event(), []

    def report(peer: str) -> None:
        lost.append(peer)
        reported.set()

    connections: list[socket.socket] = []
    with server(b"settings") as stays:
        with server(b"settings", connections) as leaves:
            watch = peer_watch.PeerWatch({"ps/0": stays, "ps/1": leaves, "ps/2": "127.0.0.1:1"}, report, 0.02)
            watch.start()
            until(lambda: len(connections) >= 2)  # with the second one, what came of the first is known
            assert not reported.is_set()
        assert reported.wait(300)
        watch.stop()
        assert lost == [f"ps/1 at {leaves}"]


@pytest.mark.parametrize(("patience", "lost"), [(0.0, True), (300.0, False)])
def test_a_peer_may_come_back_within_the_patience_of_the_watch(patience: float, lost: bool) -> None:
    reported = threading.Event()
    connections: list[socket.socket] = []
    with server(b"settings", connections, refused=range(1, 5)) as restarts:
        watch = peer_watch.PeerWatch({"ps/0": restarts}, lambda _: reported.set(), 0.02, patience)
        watch.start()
        until(lambda: reported.is_set() or len(connections) >= 7)
        assert reported.is_set() == lost
        watch.stop()


def test_a_peer_that_was_up_before_the_watch_is_lost_without_an_answer() -> None:
    reported = threading.Event()
    peer_watch.PeerWatch({"ps/0": "127.0.0.1:1"}, lambda _: reported.set(), 0.02, was_up=True).start()
    assert reported.wait(300)


def test_a_task_whose_peers_come_while_it_gives_up_goes_on() -> None:
    """Its process ends otherwise, and with it these tests."""
    connections: list[socket.socket] = []
    with server(b"", connections) as late:
        with member.startup_timeout(Wiring("worker", 0, PS), {"ps/0": late}, 0.01):
            until(lambda: connections)
        (asks,) = (thread for thread in threading.enumerate() if isinstance(thread, threading.Timer))
    asks.join(300)
    assert not asks.is_alive()


def test_a_stopped_watch_reports_nothing() -> None:
    reported = threading.Event()
    connections: list[socket.socket] = []
    with server(b"settings", connections) as leaves:
        watch = peer_watch.PeerWatch({"ps/0": leaves}, lambda _: reported.set(), 0.02)
        watch.start()
        until(lambda: len(connections) >= 2)
        watch.stop()
    for thread in threading.enumerate():
        if thread.name == "tfprov-ps/0":
            thread.join()
    assert not reported.is_set()


def test_peers_are_the_tasks_of_the_jobs_without_the_task_itself() -> None:
    assert peers(Wiring("ps", 1, PS), "ps", "worker") == {"ps/0": "h0:1", "worker/0": "h3:1"}


@pytest.mark.parametrize(
    ("strategy", "wiring", "message"),
    [
        ("parameter_server", Wiring("worker", 0, {"worker": ("a:1", "b:1")}), "there is no chief"),
        ("parameter_server", Wiring("chief", 0, {"chief": ("a:1",), "worker": ("b:1",)}), "there is no ps"),
        ("parameter_server", Wiring("dispatcher", 0, PS), "dispatcher/0 is not part of the training"),
        ("parameter_server", Wiring("ps", 0), "ps/0 has no cluster"),
        ("parameter_server", Wiring("ps", 0, PS | {"worker": ("h3:0",)}), "'h3:0' is not an address"),
        ("multi_worker_mirrored", Wiring("chief", 0, PS), "not ps: every task has all variables"),
        ("multi_worker_mirrored", Wiring("worker", 1), "worker/1 has no cluster"),
    ],
)
def test_a_cluster_that_does_not_fit_the_strategy_ends_the_task_with_code_2(
    strategy: str, wiring: Wiring, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["program"])
    monkeypatch.setenv("TF_CONFIG", to_tf_config(wiring))
    with pytest.raises(SystemExit) as ended:
        getattr(runtime, strategy)()
    reported = capsys.readouterr().err
    assert ended.value.code == 2
    assert reported.startswith("tfprov: error: ")
    assert message in reported
    assert reported.count("\n") == 1


@pytest.mark.parametrize("strategy", ["parameter_server", "multi_worker_mirrored"])
def test_an_evaluator_may_be_beside_a_task_that_trains_alone(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["program"])
    monkeypatch.setenv("TF_CONFIG", to_tf_config(Wiring("evaluator", 0, {"worker": ("a:1",)})))
    monkeypatch.setattr(
        member, "tensorflow", lambda: SimpleNamespace(distribute=SimpleNamespace(get_strategy=lambda: "default"))
    )
    task = getattr(runtime, strategy)()
    assert (task.name, task.is_evaluator, task.strategy) == ("evaluator/0", True, "default")


def test_variables_are_found_in_modules_collections_and_in_keras_variables() -> None:
    plain, inner = SimpleNamespace(value=lambda: 1), SimpleNamespace(value=lambda: 2)
    keras = SimpleNamespace(value=inner)
    module = SimpleNamespace(variables=[plain, keras])
    old = SimpleNamespace(variables=lambda: [plain])
    assert variables_of({"model": module, "others": [old, plain]}) == [plain, inner, plain, plain]


def test_replicas_that_share_a_directory_save_aside_without_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile: list[Saver] = []

    class Checkpoint:
        save_counter = 0

        def write(self, prefix: str) -> str:
            Path(prefix).parent.mkdir()
            Path(prefix).touch()
            while meanwhile:
                meanwhile.pop().save_aside()
            assert Path(prefix).is_file()
            return prefix

    train = SimpleNamespace(
        Checkpoint=Checkpoint, CheckpointOptions=lambda **_: None, CheckpointManager=lambda *_, **__: None
    )
    monkeypatch.setattr(saver, "tensorflow", lambda: SimpleNamespace(train=train))
    first, second = (Saver(str(tmp_path), {}, 5) for _ in range(2))
    meanwhile.append(second)
    left = tmp_path / Path(first.save_aside()).parent.name
    assert list(tmp_path.iterdir()) == []
    left.mkdir()
    repair(str(tmp_path))
    assert not left.exists()


@pytest.mark.parametrize(
    ("device", "task"),
    [
        ("/job:ps/replica:0/task:1/device:CPU:0", "/job:ps/task:1"),
        ("/job:ps/task:1", "/job:ps/task:1"),
        ("/device:CPU:0", ""),
        ("", ""),
    ],
)
def test_the_device_of_a_variable_names_its_task(device: str, task: str) -> None:
    assert task_of(device) == task


class Shape(SimpleNamespace):
    """A shape of TensorFlow: `sizes` is None if their number is unknown."""

    sizes: "list[int | None] | None"

    @property
    def rank(self) -> "int | None":
        return None if self.sizes is None else len(self.sizes)

    def as_list(self) -> "list[int | None]":
        if self.sizes is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return self.sizes

    def is_fully_defined(self) -> bool:
        return self.sizes is not None and None not in self.sizes

    def num_elements(self) -> "int | None":
        return math.prod(size or 0 for size in self.sizes or ()) if self.is_fully_defined() else None


@pytest.mark.parametrize(
    ("sizes", "size"), [([2, 3], 24), ([], 4), ([0, 3], 0), ([None], 0), ([2, None], 0), (None, 0)], ids=str
)
def test_a_variable_whose_shape_is_not_known_in_full_has_a_placement(
    sizes: "list[int | None] | None", size: int, tmp_path: Path
) -> None:
    float32 = SimpleNamespace(size=4)
    float32.base_dtype = float32
    device = "/job:ps/replica:0/task:1/device:CPU:0"
    write_placement(
        str(tmp_path), [SimpleNamespace(name="w:0", device=device, shape=Shape(sizes=sizes), dtype=float32)]
    )
    entry = {"name": "w", "device": "/job:ps/task:1", "shape": sizes, "bytes": size}
    assert json.loads((tmp_path / "placement.json").read_text()) == {"variables": [entry]}


class Context:
    """TensorFlow's context of eager execution, as far as a strategy configures it."""

    def __init__(self) -> None:
        self.configured: list[tuple[str, dict[str, object]]] = []

    def configure_coordination_service(self, service_type: str, **options: object) -> None:
        self.configured.append((service_type, options))


def test_the_coordination_service_waits_longer_for_a_heartbeat_while_a_strategy_configures_it() -> None:
    context = Context()
    with heartbeat_timeout(context, 60.0):
        context.configure_coordination_service("standalone", service_leader="/job:worker/task:0")
        context.configure_coordination_service("standalone", heartbeat_timeout_in_ms=5)
    context.configure_coordination_service("standalone")
    assert context.configured == [
        ("standalone", {"service_leader": "/job:worker/task:0", "heartbeat_timeout_in_ms": 60_000}),
        ("standalone", {"heartbeat_timeout_in_ms": 5}),
        ("standalone", {}),
    ]


def test_a_tensorflow_without_a_coordination_service_is_left_as_it_is() -> None:
    context = SimpleNamespace()
    with heartbeat_timeout(context):
        assert vars(context) == {}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Socket closed\nmore", "Socket closed"),
        (
            (
                "Graph execution error:\n\nDetected at node CollectiveReduceV2 defined at:\n  File 'train.py', line 25\n\n"
                "Collective ops is aborted by: Deadline Exceeded\n\nRPC: /tensorflow.CoordinationService/Heartbeat\n"
            ),
            "Collective ops is aborted by: Deadline Exceeded",
        ),
        ("Graph execution error:\n", "RuntimeError"),
        ("", "RuntimeError"),
    ],
)
def test_the_line_about_a_lost_task_has_the_reason_and_not_the_stack(message: str, reason: str) -> None:
    assert reason_of(RuntimeError(message)) == reason


def test_keras_without_a_version_is_that_of_an_old_tensorflow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keras, waits = SimpleNamespace(), list[str]()

    def wait() -> None:
        waits.append("for the others")
        raise ConnectionError

    tf = SimpleNamespace(__version__="2.13.1", keras=keras, errors=SimpleNamespace(OpError=ConnectionError))
    monkeypatch.setattr(fit, "tensorflow", lambda: tf)
    fit.check_keras(object(), "worker/0", wait)
    keras.__version__ = "3.8.0"
    fit.check_keras(object(), "worker/0", None)
    assert waits == []
    with pytest.raises(SystemExit):
        fit.check_keras(object(), "worker/0", wait)
    assert waits == ["for the others"]
    assert "Model.fit of Keras 3.8.0 cannot train on several workers" in capsys.readouterr().err
