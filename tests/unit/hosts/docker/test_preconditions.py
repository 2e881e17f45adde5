"""Conflicts of a start with foreign containers, volumes and ports."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.runtime_bench import container
from tfprov.hosts.collect_facts import container_summary
from tfprov.hosts.docker.preconditions import find_conflicts
from tfprov.hosts.facts import ContainerSummary, Listener
from tfprov.model.state import DockerOptions

NAME = "tfprov-lab-worker-0"
WORKER = replace(container(), docker=DockerOptions("tfprov/lab:1", address="10.0.0.5"))
PORT = WORKER.task.port
FIX = "stop it, or choose another `port`"


def summary(name: str = "theirs", **facts: Any) -> ContainerSummary:
    return ContainerSummary("0123456789abcdef", name, running=facts.pop("running", True), **facts)


def volume(cluster: str | None) -> dict[str, Any]:
    return {"Name": f"{NAME}-checkpoints", "Labels": {"tfprov.cluster": cluster} if cluster else None}


PUBLISHED = ((("10.0.0.5", PORT)),)
BY_CONTAINER = (f"port {PORT} for worker/0 is taken by the container theirs (0123456789ab)", FIX)
OF_OTHER = (
    f"{BY_CONTAINER[0]} of cluster other",
    "take down other with `tfprov down`, or choose another `port`",
)
NOT_OURS = (f"the container {NAME} (0123456789ab) is not ours", "rename it, or choose another `cluster`")
VOLUME = (
    f"the volume {NAME}-checkpoints is not ours",
    f"remove it (`docker volume rm {NAME}-checkpoints`), or choose another `cluster`",
)

ROWS: list[tuple[str, list[ContainerSummary], list[dict[str, Any]], list[Listener], list[tuple[str, str]]]] = [
    ("nothing", [], [], [], []),
    ("a foreign container of our name", [summary(NAME, running=False)], [], [], [NOT_OURS]),
    ("a container of another cluster", [summary(NAME, cluster="other")], [], [], [NOT_OURS]),
    ("our own", [summary(NAME, cluster="lab", task="worker/0", published=PUBLISHED)], [volume("lab")], [], []),
    ("a foreign volume", [], [volume(None)], [], [VOLUME]),
    ("a volume of another cluster", [], [volume("other")], [], [VOLUME]),
    ("a volume with a longer name", [], [{"Name": f"x{NAME}-checkpoints"}], [], []),
    ("a container on the port", [summary(published=PUBLISHED)], [], [], [BY_CONTAINER]),
    ("another cluster's task", [summary(cluster="other", published=PUBLISHED)], [], [], [OF_OTHER]),
    ("a container on the port at all addresses", [summary(published=(("0.0.0.0", PORT),))], [], [], [BY_CONTAINER]),
    ("a container on the port at another address", [summary(published=(("10.0.0.6", PORT),))], [], [], []),
    ("a stopped container on the port", [summary(running=False, published=PUBLISHED)], [], [], []),
    (
        "a program on the port",
        [],
        [],
        [Listener("*", PORT, "nc (pid 7)")],
        [(f"port {PORT} for worker/0 is taken by nc (pid 7)", FIX)],
    ),
    (
        "the engine's own proxy for our container",
        [summary(cluster="lab", published=PUBLISHED)],
        [],
        [Listener("10.0.0.5", PORT, "docker-proxy (pid 8)")],
        [],
    ),
    ("a program on the loopback", [], [], [Listener("127.0.0.1", PORT, "nc (pid 7)")], []),
    (
        "all at once",
        [summary(NAME), summary(published=PUBLISHED)],
        [volume(None)],
        [],
        [NOT_OURS, VOLUME, BY_CONTAINER],
    ),
]


def test_conflicts_name_their_owner() -> None:
    failures = {}
    for name, containers, volumes, listeners, expected in ROWS:
        if (conflicts := list(find_conflicts("lab", [WORKER], containers, volumes, listeners))) != expected:
            failures[name] = conflicts
    assert not failures


@pytest.mark.parametrize(("state", "running"), [("running", True), ("paused", True), ("exited", False)])
def test_a_paused_container_keeps_its_ports(state: str, running: bool) -> None:
    ports = [{"PrivatePort": PORT, "PublicPort": PORT, "IP": "10.0.0.5", "Type": "tcp"}]
    labels = {"tfprov.cluster": "lab", "tfprov.task": "worker/0"}
    paused = container_summary({"Id": "c1", "Names": [f"/{NAME}"], "State": state, "Labels": labels, "Ports": ports})
    proxy = Listener("10.0.0.5", PORT, "another program")
    assert [*find_conflicts("lab", [WORKER], [paused], [], [proxy])] == (
        [] if running else [(f"port {PORT} for worker/0 is taken by another program", FIX)]
    )


def test_a_container_in_the_network_of_its_host_has_the_port_of_its_label() -> None:
    listed = {"Id": "0123456789abcdef", "Names": ["/other"], "State": "running", "Ports": []}
    listener = Listener("*", PORT, "python (pid 7)")
    conflicts = {
        (cluster, port): [what for what, _ in find_conflicts("lab", [WORKER], [container_summary(one)], [], [listener])]
        for cluster in ("lab", "other")
        for port in (str(PORT), str(PORT + 1), "999999", "x", "")
        for one in [listed | {"Labels": {"tfprov.cluster": cluster, "tfprov.port": port}}]
    }
    taken = f"port {PORT} for worker/0 is taken by"
    assert conflicts["lab", str(PORT)] == []
    assert conflicts["other", str(PORT)] == [f"{taken} the container other (0123456789ab) of cluster other"]
    others = [what for (_, port), what in conflicts.items() if port != str(PORT)]
    assert others == [[f"{taken} python (pid 7)"]] * 8


def test_an_evaluator_needs_no_port_and_uses_the_chiefs_volume() -> None:
    task = replace(WORKER.task, job="evaluator", role="evaluator")
    evaluator = replace(WORKER, task=task, docker=replace(WORKER.docker or DockerOptions(""), files_of="worker/0"))
    assert list(find_conflicts("lab", [evaluator], [summary(published=PUBLISHED)], [volume(None)], [])) == [VOLUME]
