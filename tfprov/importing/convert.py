"""Converts the content of a foreign file to an inventory, with notes on what is not carried over."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfprov.errors import InvalidInput, Position, Problem
from tfprov.importing.compose import is_compose, read_compose
from tfprov.importing.emit import Key, Line, Page
from tfprov.importing.identify import ForeignTask, IdentifiedTask, Machine, Note, Notes, Setting, told
from tfprov.importing.kubernetes import is_kubernetes, read_kubernetes
from tfprov.importing.roles import Role, plain, roles_of, strategy_of, wiring_of
from tfprov.inventory.yaml_source import read_structure
from tfprov.model.node import Items, Mapping, Node, Scalar
from tfprov.model.settings import implied_wiring
from tfprov.planning.tasks import assign_tasks
from tfprov.settings.cluster_rules import check_processes
from tfprov.settings.resolve import resolve
from tfprov.yamltext.load import MAX_BYTES, decode, parse

_MARK = re.compile(r"^(?:---(?=\s|$)|\.\.\.\s*$)", re.MULTILINE)
"""Where a document ends and another one may begin: YAML allows it at the beginning of a line only, even in a text."""
_TEMPLATE = re.compile(r"^\s*\{[%{][-+ ]", re.MULTILINE)

MOST_VALUES = 200_000
"""In all documents together, each alias counted as often as it is used."""


def documents(data: bytes, name: str) -> list[Node]:
    """Return the documents in a YAML or JSON file; InvalidInput where it is none, or too large."""
    if len(data) > MAX_BYTES:
        raise InvalidInput([Problem(Position(name), f"larger than {MAX_BYTES:,} bytes", "import a part of it")])
    text = decode(data, name)
    nodes: list[Node] = []
    left = MOST_VALUES
    try:
        for start, part in _parts(text):
            if re.sub(r"(?m)^\s*#.*$", "", part).strip(" \t\r\n-"):
                nodes.append(parse(part, name, start=start))
                left = _count(nodes[-1], left)
    except InvalidInput:
        if template := _TEMPLATE.search(text):
            at = Position(name, text.count("\n", 0, template.end()) + 1, 1)
            raise InvalidInput([Problem(at, "a template, not what it renders", "render it first")]) from None
        raise
    if left < 0:
        what = f"more than {MOST_VALUES:,} values once aliases are expanded"
        raise InvalidInput([Problem(Position(name), what, "write fewer aliases")])
    return [one for document in nodes for one in _listed(document)]


def _parts(text: str) -> list[tuple[int, str]]:
    """Return each document with the number of its first line."""
    parts, begin = [], 0
    for mark in _MARK.finditer(text):
        parts.append((text.count("\n", 0, begin) + 1, text[begin : mark.start()]))
        # What stands behind `---` belongs to the document, at its place in the line.
        begin = mark.start() if mark[0].startswith("---") else mark.end()
    parts.append((text.count("\n", 0, begin) + 1, text[begin:]))
    return parts


def _count(node: Node, left: int) -> int:
    """Return what is left of a number of values after those in `node`; it stops below 0."""
    ahead = [node]
    while ahead and left >= 0:
        one = ahead.pop()
        left -= 1
        ahead.extend(one.entries.values() if isinstance(one, Mapping) else one.items if isinstance(one, Items) else ())
    return left


def _listed(document: Node) -> list[Node]:
    """Return the objects in a `kind: List`, as `kubectl get -o yaml` prints them; anything else as it is."""
    kind = document.get("kind") if isinstance(document, Mapping) else None
    items = document.get("items") if isinstance(document, Mapping) else None
    if isinstance(kind, Scalar) and str(kind.data).endswith("List") and isinstance(items, Items):
        return list(items.items)
    return [document]


HERE = Machine("localhost")
_NEEDED = ("image", "command", "wiring", "strategy", "cluster")
"""Settings without which the inventory would be another cluster's, or none."""
_SHARED = ("image", "wiring", "strategy")


@dataclass(frozen=True)
class Imported:
    """The text of an inventory, and what of the file is not in it."""

    text: str
    notes: tuple[Note, ...]


def imported(data: bytes, name: str, home: Path, machines: Sequence[Machine] = ()) -> Imported:
    """Return the inventory for what the file called `name` runs; `home` is the directory it lies in.

    Its tasks are dealt to `machines`; without any, they are where the file keeps each of them, else on this machine.
    InvalidInput carries what keeps the file from becoming an inventory, at its own lines.
    """
    notes = Notes()
    found = _found(documents(data, name), name, notes, home)
    tasks = [task for task in (told(one, notes) for one in found) if task is not None]
    if not tasks and not notes.problems:
        notes.refuse(
            Position(name), "no task of a TensorFlow cluster in it", "give a file whose tasks are told who they are"
        )
    roles = roles_of(tasks, notes) if tasks else []
    if notes.problems:
        raise InvalidInput(notes.problems)
    shared = _shared(tasks, roles, notes)
    if notes.problems:
        raise InvalidInput(notes.problems)
    page = Page(
        Path(name).name if name != "-" else "a pipe",
        _cluster(tasks, home),
        shared,
        roles,
        _hosts(roles, machines, notes),
    )
    return _fitting(page, notes)


def _found(nodes: Sequence[object], name: str, notes: Notes, home: Path) -> list[ForeignTask]:
    tasks: list[ForeignTask] = []
    for node in nodes:
        if is_compose(node):  # type: ignore[arg-type]
            tasks.extend(read_compose(node, notes, home))  # type: ignore[arg-type]
        elif is_kubernetes(node):  # type: ignore[arg-type]
            tasks.extend(read_kubernetes(node, notes))  # type: ignore[arg-type]
        else:
            at = getattr(node, "at", Position(name))
            notes.refuse(at, "neither a Compose file nor an object of Kubernetes", "give one of these, or a TFJob")
    if not nodes:
        notes.refuse(Position(name), "empty", "give a Compose file, a TFJob or objects of Kubernetes")
    return tasks


def _cluster(tasks: Sequence[IdentifiedTask], home: Path) -> str:
    """Return the name of the cluster: what its tasks are told, else what they are called together, else the directory's."""
    names = [task.ours.get("TFPROV_CLUSTER", "") or task.source.group for task in tasks]
    name = next(filter(None, names), "") or home.resolve().name
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "training"


def _shared(tasks: Sequence[IdentifiedTask], roles: Sequence[Role], notes: Notes) -> dict[str, Setting]:
    """Return what all roles have, and take it from them."""
    at = tasks[0].source.at
    images = [task.source.image for task in tasks if task.source.image]
    shared: dict[str, Setting] = {}
    if images:
        # A role of its own may have an image of its own, such as a tensorboard; the training's is the cluster's.
        chosen = next(
            (task.source.image for task in tasks if task.source.image and task.job in ("chief", "worker")), images[0]
        )
        shared["image"] = chosen
        for other in images:
            if other.value != chosen.value:
                notes.add(other.at, "this image is not carried over: all tasks of a cluster have one")
    else:
        notes.refuse(at, "no image", "give the file as its engine takes it")
    if strategy := strategy_of(tasks):
        shared["strategy"] = Setting(strategy, at)
    if (wiring := wiring_of(tasks)) != implied_wiring(strategy):
        shared["wiring"] = Setting(wiring, at)
    for name in dict.fromkeys(name for role in roles for name in role.settings):
        values = [role.settings.get(name) for role in roles]
        first = values[0]
        if first is not None and all(value is not None and plain(value) == plain(first) for value in values):
            shared[name] = first
            for role in roles:
                del role.settings[name]
    return shared


def _hosts(roles: Sequence[Role], machines: Sequence[Machine], notes: Notes) -> dict[str, Sequence[Machine]]:
    """Return the machines of each role; each has as many of its tasks as the others."""
    if not machines and all(role.hosts and len(set(role.hosts)) == role.count for role in roles):
        return {role.name: [Machine(host) for host in role.hosts] for role in roles}
    if not machines:
        if any(role.hosts for role in roles):
            notes.add(Position(roles[0].name), "the machines of some tasks are not carried over: all are on this one")
        return {role.name: [HERE] for role in roles}
    leader = "chief" if any(role.name == "chief" for role in roles) else "worker"
    hosts: dict[str, Sequence[Machine]] = {}
    for role in roles:
        most = max(number for number in range(1, min(role.count, len(machines)) + 1) if role.count % number == 0)
        # The ps from the other end, and who reads the chief's files beside it.
        hosts[role.name] = [*reversed(machines)][:most] if role.name == "ps" else machines[:most]
    for name in ("evaluator", "tensorboard"):
        if name in hosts and leader in hosts:
            hosts[name] = [hosts[leader][0]]
    return hosts


def _fitting(page: Page, notes: Notes) -> Imported:
    """Return the inventory without what would make it wrong, which is told; InvalidInput where that is too much."""
    for _ in range(1 + sum(len(role.settings) for role in page.roles) + 200):
        lines = page.lines()
        text = "".join(f"{line.text}\n" for line in lines)
        problems = _problems(text)
        if not problems:
            return Imported(text, notes.all())
        faulty = [lines[problem.at.line - 1] if problem.at.line else Line("") for problem in problems]
        if fatal := [
            replace(problem, at=line.at or Position(page.source))
            for problem, line in zip(problems, faulty, strict=True)
            if line.key is None or line.key[1] in _NEEDED
        ]:
            raise InvalidInput(fatal)
        for problem, line in zip(problems, faulty, strict=True):
            notes.add(line.at or Position(page.source), f"{line.text.strip()} is not carried over: {problem.what}")
        for key in sorted({line.key for line in faulty if line.key}, reverse=True):
            _remove(page, key)
    raise InvalidInput(problems)


def _problems(text: str) -> Sequence[Problem]:
    name = "inventory.yml"
    try:
        inventory, problems = read_structure(parse(text, name), name)
        assign_tasks(resolve(inventory, problems, [check_processes]))
    except InvalidInput as error:
        return error.problems
    return ()


def _remove(page: Page, key: Key) -> None:
    role, name, number = key
    settings = page.shared if not role else next(one for one in page.roles if one.name == role).settings
    assert isinstance(settings, dict), "both are made here"
    setting = settings[name]
    if number < 0 or not isinstance(setting.value, list):
        del settings[name]
        return
    del setting.value[number]
    if not setting.value:
        del settings[name]
