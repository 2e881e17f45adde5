"""Converts the content of a foreign file to an inventory, with notes on what is not carried over."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfprov.errors import InvalidInput, Position, Problem
from tfprov.importing.compose import is_compose, read_compose
from tfprov.importing.emit import InventoryDraft, Key, Line, TargetHost
from tfprov.importing.identify import DroppedKey, ForeignTask, IdentifiedTask, Notes, Setting, identify
from tfprov.importing.kubernetes import is_kubernetes, read_kubernetes
from tfprov.importing.roles import Role, group_by_role, strategy_of, wiring_of, without_positions
from tfprov.inventory.yaml_source import read_structure
from tfprov.model.setting_types import implied_wiring
from tfprov.model.yaml_node import Items, Mapping, Node, Scalar
from tfprov.planning.tasks import assign_tasks
from tfprov.settings.cluster_rules import check_processes
from tfprov.settings.resolve import resolve
from tfprov.yamltext.load import MAX_BYTES, decode, parse

_MARK = re.compile(r"^(?:---(?=\s|$)|\.\.\.\s*$)", re.MULTILINE)
"""The markers between documents: YAML allows them only at the beginning of a line."""
_OUTSIDE = re.compile(r"^\s*[%#].*$", re.MULTILINE)
"""Directives and comments in front of a document."""
_TEMPLATE = re.compile(r"^\s*\{[%{][-+ ]", re.MULTILINE)

MAX_VALUES = 200_000
"""Limit for all documents together; an alias counts each time it is used."""


def documents(data: bytes, name: str) -> list[Node]:
    """Return the documents in a YAML or JSON file; InvalidInput when it is malformed or too large."""
    if len(data) > MAX_BYTES:
        raise InvalidInput([Problem(Position(name), f"larger than {MAX_BYTES:,} bytes", "import a part of it")])
    text = decode(data, name)
    nodes: list[Node] = []
    budget = MAX_VALUES
    try:
        for start, part in _parts(text):
            if _OUTSIDE.sub("", part).strip(" \t\r\n-"):
                nodes.append(parse(part, name, start=start))
                budget = _subtract_values(nodes[-1], budget)
    except InvalidInput:
        if template := _TEMPLATE.search(text):
            at = Position(name, text.count("\n", 0, template.end()) + 1, 1)
            raise InvalidInput([Problem(at, "a template", "render it first")]) from None
        raise
    if budget < 0:
        what = f"more than {MAX_VALUES:,} values once aliases are expanded"
        raise InvalidInput([Problem(Position(name), what, "write fewer aliases")])
    return [item for document in nodes for item in _list_items(document)]


def _parts(text: str) -> list[tuple[int, str]]:
    """Return each document with the number of its first line."""
    parts, begin = [], 0
    for mark in _MARK.finditer(text):
        if mark[0].startswith("---") and not _OUTSIDE.sub("", text[begin : mark.start()]).strip():
            continue  # directives, such as `%YAML 1.2`, belong to the document behind them
        parts.append((text.count("\n", 0, begin) + 1, text[begin : mark.start()]))
        # Text behind `---` belongs to the document and keeps its column.
        begin = mark.start() if mark[0].startswith("---") else mark.end()
    parts.append((text.count("\n", 0, begin) + 1, text[begin:]))
    return parts


def _subtract_values(node: Node, budget: int) -> int:
    """Subtract the number of values in `node` from `budget`; stops below 0."""
    stack = [node]
    while stack and budget >= 0:
        value = stack.pop()
        budget -= 1
        stack.extend(
            value.entries.values() if isinstance(value, Mapping) else value.items if isinstance(value, Items) else ()
        )
    return budget


def _list_items(document: Node) -> list[Node]:
    """Return the objects of a `kind: List`, as `kubectl get -o yaml` prints them, or the document itself."""
    if not isinstance(document, Mapping):
        return [document]
    kind, items = document.get("kind"), document.get("items")
    if isinstance(kind, Scalar) and str(kind.data).endswith("List") and isinstance(items, Items):
        return list(items.items)
    return [document]


LOCALHOST = TargetHost("localhost")
_REQUIRED = ("image", "command", "wiring", "strategy")
"""Settings that cannot be dropped: without them the inventory would describe another cluster."""


@dataclass(frozen=True)
class Conversion:
    """The text of an inventory, and notes on what is not carried over."""

    text: str
    notes: tuple[DroppedKey, ...]


def convert(data: bytes, name: str, home: Path, hosts: Sequence[TargetHost] = ()) -> Conversion:
    """Convert the content of the file `name` to an inventory; `home` is the file's directory.

    The tasks are distributed over `hosts`; without hosts, each task stays on the host that the file names, else on this
    machine. InvalidInput has the problems that prevent the import, with the file's lines.
    """
    notes = Notes()
    foreign_tasks = _read_tasks(documents(data, name), name, notes, home)
    tasks = [task for task in (identify(foreign, notes) for foreign in foreign_tasks) if task is not None]
    if not tasks and not notes.problems:
        notes.refuse(
            Position(name),
            "no task of a TensorFlow cluster in it",
            "its tasks need TF_CONFIG or cluster flags",
        )
    if notes.problems:  # what could not be read would be reported as missing, too
        raise InvalidInput(notes.problems)
    roles = group_by_role(tasks, notes)
    if not roles:
        notes.refuse(Position(name), "no task in it has a replica", "correct its `replicas`")
    if notes.problems:
        raise InvalidInput(notes.problems)
    shared = _shared(tasks, roles, notes)
    if notes.problems:
        raise InvalidInput(notes.problems)
    draft = InventoryDraft(
        Path(name).name,
        _cluster(tasks, home),
        shared,
        roles,
        _assign_hosts(roles, hosts, notes),
    )
    return _drop_invalid(draft, notes)


def _read_tasks(nodes: Sequence[Node], name: str, notes: Notes, home: Path) -> list[ForeignTask]:
    tasks: list[ForeignTask] = []
    for node in nodes:
        if is_compose(node):
            tasks.extend(read_compose(node, notes, home))
        elif is_kubernetes(node):
            tasks.extend(read_kubernetes(node, notes))
        else:
            notes.refuse(node.at, "neither a Compose file nor a Kubernetes object", "give one of these, or a TFJob")
    if not nodes:
        notes.refuse(Position(name), "empty", "give a Compose file, a TFJob or Kubernetes objects")
    return tasks


def _cluster(tasks: Sequence[IdentifiedTask], home: Path) -> str:
    """Return the name of the cluster: from the tasks' environment, the file's project or job, or its directory."""
    names = [task.own_env.get("TFPROV_CLUSTER", "") or task.source.group for task in tasks]
    name = next(filter(None, names), "") or home.resolve().name
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "training"


def _shared(tasks: Sequence[IdentifiedTask], roles: Sequence[Role], notes: Notes) -> dict[str, Setting]:
    """Move the settings that all roles share out of the roles, and return them."""
    at = tasks[0].source.at
    images = [task.source.image for task in tasks if task.source.image]
    shared: dict[str, Setting] = {}
    if images:
        # A tensorboard may have an image of its own; the cluster gets the image of the training.
        chosen = next(
            (task.source.image for task in tasks if task.source.image and task.job in ("chief", "worker")), images[0]
        )
        shared["image"] = chosen
        for other in images:
            if other.value != chosen.value:
                notes.add(other.at, "this image is not carried over: all tasks of a cluster use the same image")
    else:
        notes.refuse(at, "no image", "correct the file")
    if strategy := strategy_of(tasks):
        shared["strategy"] = Setting(strategy, at)
    if (wiring := wiring_of(tasks)) != implied_wiring(strategy):
        shared["wiring"] = Setting(wiring, at)
    for name in dict.fromkeys(name for role in roles for name in role.settings):
        values = [role.settings.get(name) for role in roles]
        first = values[0]
        if first is not None and all(
            value is not None and without_positions(value) == without_positions(first) for value in values
        ):
            shared[name] = first
            for role in roles:
                del role.settings[name]
    return shared


def _assign_hosts(roles: Sequence[Role], hosts: Sequence[TargetHost], notes: Notes) -> dict[str, Sequence[TargetHost]]:
    """Return the hosts of each role, with the same number of tasks on each."""
    if not hosts and all(len({host.text for host in role.hosts}) == role.count for role in roles):
        return {role.name: [TargetHost(host.text) for host in role.hosts] for role in roles}
    if not hosts:
        if dropped := [host.at for role in roles for host in role.hosts]:
            notes.add(min(dropped), "the hosts of some tasks are not carried over: all tasks are on this machine")
        return {role.name: [LOCALHOST] for role in roles}
    assigned: dict[str, Sequence[TargetHost]] = {}
    for role in roles:
        count = max(number for number in range(1, min(role.count, len(hosts)) + 1) if role.count % number == 0)
        # The ps start from the last host. All others start from the first one: tasks that read the chief's files, of which
        # there is one of each kind, run beside it.
        assigned[role.name] = [*reversed(hosts)][:count] if role.name == "ps" else hosts[:count]
    return assigned


def _drop_invalid(draft: InventoryDraft, notes: Notes) -> Conversion:
    """Drop invalid settings, with a note each; InvalidInput when a required setting is invalid."""
    while True:
        lines = draft.lines()
        text = "".join(f"{line.text}\n" for line in lines)
        problems = _problems(text, draft.source)
        if not problems:
            return Conversion(text, notes.all())
        faulty = [lines[problem.at.line - 1] if problem.at.line else Line("") for problem in problems]
        if fatal := [
            replace(problem, at=line.at or Position(draft.source))
            for problem, line in zip(problems, faulty, strict=True)
            if line.key is None or line.key[1] in _REQUIRED
        ]:
            raise InvalidInput(fatal)
        for problem, line in zip(problems, faulty, strict=True):
            notes.add(line.at or Position(draft.source), f"{line.text.strip()} is not carried over: {problem.what}")
        for key in sorted({line.key for line in faulty if line.key}, reverse=True):
            _remove(draft, key)


def _problems(text: str, name: str) -> Sequence[Problem]:
    try:
        inventory, problems = read_structure(parse(text, name), name)
        assign_tasks(resolve(inventory, problems, [check_processes]))
    except InvalidInput as error:
        return error.problems
    return ()


def _remove(draft: InventoryDraft, key: Key) -> None:
    role, name, number = key
    settings = (
        draft.shared if not role else next(candidate for candidate in draft.roles if candidate.name == role).settings
    )
    assert isinstance(settings, dict)
    setting = settings[name]
    if not isinstance(setting.value, list):
        del settings[name]
        return
    del setting.value[number]
    if not setting.value:
        del settings[name]
