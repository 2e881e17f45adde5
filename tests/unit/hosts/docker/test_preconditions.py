"""What of others is in the way of a start, decided without an engine."""

from dataclasses import replace
from typing import Any

from tests.support.runtime_bench import container
from tfprov.hosts.docker.preconditions import obstacles
from tfprov.hosts.facts import Listener, Present
from tfprov.model.state import Box

NAME = "tfprov-lab-worker-0"
WORKER = replace(container(), box=Box("tfprov/lab:1", address="10.0.0.5"))
PORT = WORKER.task.port
FIX = "stop it, or choose another `port`"


def there(name: str = "theirs", **facts: Any) -> Present:
    return Present("0123456789abcdef", name, running=facts.pop("running", True), **facts)


def volume(cluster: str | None) -> dict[str, Any]:
    return {"Name": f"{NAME}-checkpoints", "Labels": {"tfprov.cluster": cluster} if cluster else None}


PUBLISHED = ((("10.0.0.5", PORT)),)
BY_CONTAINER = (f"port {PORT} for worker/0 is taken by the container theirs (0123456789ab)", FIX)
NOT_OURS = (f"the container {NAME} (0123456789ab) is not ours", "rename it, or choose another `cluster`")
VOLUME = (
    f"the volume {NAME}-checkpoints is not ours",
    f"remove it (`docker volume rm {NAME}-checkpoints`), or choose another `cluster`",
)

ROWS: list[tuple[str, list[Present], list[dict[str, Any]], list[Listener], list[tuple[str, str]]]] = [
    ("nothing", [], [], [], []),
    ("a foreign container of our name", [there(NAME, running=False)], [], [], [NOT_OURS]),
    ("one of another cluster", [there(NAME, cluster="other")], [], [], [NOT_OURS]),
    ("our own", [there(NAME, cluster="lab", task="worker/0", published=PUBLISHED)], [volume("lab")], [], []),
    ("a foreign volume", [], [volume(None)], [], [VOLUME]),
    ("a volume of another cluster", [], [volume("other")], [], [VOLUME]),
    ("a volume with a longer name", [], [{"Name": f"x{NAME}-checkpoints"}], [], []),
    ("a container on the port", [there(published=PUBLISHED)], [], [], [BY_CONTAINER]),
    ("one on the port everywhere", [there(published=(("0.0.0.0", PORT),))], [], [], [BY_CONTAINER]),
    ("one on another address", [there(published=(("10.0.0.6", PORT),))], [], [], []),
    ("one that does not run", [there(running=False, published=PUBLISHED)], [], [], []),
    (
        "a program on the port",
        [],
        [],
        [Listener("*", PORT, "nc (pid 7)")],
        [(f"port {PORT} for worker/0 is taken by nc (pid 7)", FIX)],
    ),
    (
        "the engine's own proxy for our container",
        [there(cluster="lab", published=PUBLISHED)],
        [],
        [Listener("10.0.0.5", PORT, "docker-proxy (pid 8)")],
        [],
    ),
    ("a program on the loopback", [], [], [Listener("127.0.0.1", PORT, "nc (pid 7)")], []),
    (
        "all at once",
        [there(NAME), there(published=PUBLISHED)],
        [volume(None)],
        [],
        [NOT_OURS, VOLUME, BY_CONTAINER],
    ),
]


def test_what_is_in_the_way_is_named_with_its_owner() -> None:
    wrong = {}
    for name, present, volumes, listeners, expected in ROWS:
        if (found := list(obstacles("lab", [WORKER], present, volumes, listeners))) != expected:
            wrong[name] = found
    assert not wrong


def test_who_does_not_serve_needs_no_port_and_who_reads_has_the_chiefs_volume() -> None:
    task = replace(WORKER.task, job="evaluator", role="evaluator")
    evaluator = replace(WORKER, task=task, box=replace(WORKER.box or Box(""), files_of="worker/0"))
    assert list(obstacles("lab", [evaluator], [there(published=PUBLISHED)], [volume(None)], [])) == [VOLUME]
