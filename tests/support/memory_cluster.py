"""Clusters on hosts in memory: make a Context from the text of an inventory."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.clock import ManualClock
from tfprov.engine.artifacts import PackedCode, fetched
from tfprov.engine.context import Context, chief_of
from tfprov.engine.execute import Outcome, current_run, execute
from tfprov.engine.observe import observe, plan
from tfprov.hosts.memory import MemoryRuntime
from tfprov.images.code import Code, CodeStore
from tfprov.inventory.yaml_source import read_groups
from tfprov.model.cluster import Cluster, Task
from tfprov.model.inventory import Inventory
from tfprov.model.plan import Plan
from tfprov.model.state import Container, Observed, State
from tfprov.model.yaml_node import Node
from tfprov.planning.desired import desired_containers
from tfprov.planning.task_program import RoleImage
from tfprov.planning.tasks import assign_tasks
from tfprov.settings.load import parse_extra_vars
from tfprov.settings.resolve import RoleSettings, resolve
from tfprov.settings.role_settings import datasets_of
from tfprov.vault.redaction import KeyedHash
from tfprov.yamltext.load import parse

HASHES = KeyedHash(lambda: b"the key of the tests")
Runtimes = dict[str, MemoryRuntime]


class MemoryStore(CodeStore):
    """Packed code that is kept nowhere else."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.kept: dict[str, bytes] = {}

    def digests(self) -> frozenset[str]:
        return frozenset(self.kept)

    def put(self, code: Code) -> None:
        self.kept[code.digest] = code.archive

    def get(self, digest: str) -> bytes:
        return self.kept[digest]


@dataclass(frozen=True)
class ReadInventory:
    """An inventory as it was read, which takes half of the time until there is a context of it."""

    inventory: Inventory
    roles: Sequence[RoleSettings]
    cluster: Cluster

    @classmethod
    def of(cls, inventory: Node | str, extra: Sequence[str] = ()) -> "ReadInventory":
        document = parse(inventory, "inventory.yml") if isinstance(inventory, str) else inventory
        read = replace(read_groups(document, "inventory.yml"), extra=parse_extra_vars(extra))
        roles = resolve(read)
        return cls(read, roles, assign_tasks(roles))


def make_context(
    inventory: Node | str | ReadInventory,
    extra: Sequence[str] = (),
    runtimes: Runtimes | None = None,
    store: MemoryStore | None = None,
) -> Context:
    """Return the context of `inventory` on hosts in memory, with a clock that waits for nothing.

    `runtimes` and `store` are those of an earlier world.
    """
    read = inventory if isinstance(inventory, ReadInventory) else ReadInventory.of(inventory, extra)
    roles, cluster = read.roles, read.cluster
    hosts = runtimes if runtimes is not None else {}
    for role in roles:
        hosts.setdefault(role.host, MemoryRuntime(role.host)).neighbours = hosts
    shelf = store or MemoryStore()
    codes = {(role.role, role.host): packed(role.values.code) for role in roles if role.values.code}
    in_docker = roles[0].values.runtime == "docker"
    boxes = {(role.role, role.host): _boxed(role, codes.get((role.role, role.host))) for role in roles if in_docker}
    packages = [PackedCode(code, shelf, hosts) for code in codes.values() if not in_docker]
    images = [PackedCode(image_of(options.reference), shelf, hosts) for options in boxes.values()]
    digests = {key: code.digest for key, code in codes.items()}
    wanted = desired_containers(cluster, roles, digests, checkpoint_dir, boxes, hashed=HASHES)
    return Context(
        inventory=read.inventory,
        cluster=cluster,
        wanted=wanted,
        runtimes=hosts,
        data=fetched(datasets_of(roles), wanted, hosts),
        artifacts={made.code.digest: made for made in [*packages, *images]},
        home=Path("/nowhere"),
        target=Path("/nowhere"),
        saves=chief_of(cluster, roles).values.saves,
        clock=ManualClock(),
    )


def _boxed(role: RoleSettings, code: Code | None) -> RoleImage:
    image = role.values.image
    assert image is not None
    description = f"{image.kind} {image.build or image.name or image.archive}"
    key = hashlib.sha256(f"{description} {code.digest if code else None}".encode()).hexdigest()[:32]
    return RoleImage(f"tfprov/{role.values.cluster}:{key}", description, role.bind_address or role.address)


def image_of(reference: str) -> Code:
    """Return an image as a host in memory takes it: bytes under a name."""
    return Code(reference, reference, b"image")


def packed(name: str) -> Code:
    """Return the code of a directory that does not exist: its content is its name."""
    return Code(name, f"sha256:{hashlib.sha256(name.encode()).hexdigest()}", name.encode())


def checkpoint_dir(task: Task) -> str:
    """Return the same directory for a task wherever it is."""
    return f"/checkpoints/{task.name}"


def run_up(context: Context) -> tuple[Plan, Outcome]:
    """Do what `tfprov up` does, without waiting; return the plan and what became of it."""
    seen = observe(context)
    made = plan(context, seen)
    return made, execute(context, made, current_run(context, seen))


def observed_container(container: Container, host: str, state: str) -> Observed:
    """Return what is seen of a container that was started and then became `state`, such as `exited 3`."""
    kind, _, rest = state.partition(" ")
    seen = Observed(container.task.name, host, State.RUNNING, container.spec, id="1", run="run-1", started_at=0.0)
    ended = replace(seen, state=State.EXITED, id="", finished_at=1.0)
    forms = {
        "running": seen,
        "finished": replace(ended, exit_code=0),
        "exited": replace(ended, exit_code=int(rest) if kind == "exited" else None),
        "stopped": replace(ended, exit_code=143, stopped=True),
        "unstartable": replace(ended, exit_code=127, error=rest),
        "lost": replace(seen, state=State.LOST),
        "created": replace(seen, state=State.CREATED, id="", started_at=None),
        "unknown": replace(seen, spec={}),
    }
    return forms[kind]


def add_container(context: Context, hosts: Runtimes, host: str, container: Container, state: str) -> None:
    """Have a container there in `state`, with the code it would have been started from."""
    runtime = hosts.setdefault(host, MemoryRuntime(host))
    if container.artifact is not None:
        made = context.artifacts[container.artifact]
        assert isinstance(made, PackedCode)
        made.build()
        runtime.codes[container.artifact] = made.code.archive
    if container.data is not None:
        runtime.data.add(container.data)
    runtime.puts(observed_container(container, host, state))


def containers(runtimes: Iterable[MemoryRuntime]) -> list[Observed]:
    """Return everything that is on the hosts."""
    return [container for runtime in runtimes for container in runtime.observe().containers]
