"""Batches of hosts: a play's `serial:` and `max_fail_percentage:`, read and applied; canaries. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tfprov.errors import InvalidInput, Position, Problem, printable
from tfprov.model.plan import ActionKind, Plan
from tfprov.model.playbook import BatchSize
from tfprov.model.state import Container, Observation, State
from tfprov.model.yaml_node import Items, Node, Scalar

_SIZE = re.compile(r"(?P<number>[0-9]{1,9})(?P<percent>%?)")
_SHARE = re.compile(r"(?P<number>[0-9]{1,3}(?:\.[0-9]{1,9})?)%?")
_SERIAL_FIX = 'write a number from 1, a share from "1%" to "100%", or a list of them'
_SHARE_FIX = "write a number from 0 to 100"


def read_serial(node: Node, skipped: Callable[[Position], bool]) -> tuple[BatchSize, ...]:
    """Return the sizes of the batches; InvalidInput for each wrong one, except at `skipped` positions."""
    entries = node.items if isinstance(node, Items) else (node,)
    if not entries:
        raise InvalidInput([Problem(node.at, "`serial` is an empty list", _SERIAL_FIX)])
    sizes = [(entry, _size(entry)) for entry in entries if not skipped(entry.at)]
    wrong = [
        Problem(entry.at, f"`serial: {_spelled(entry)}` is no batch size", _SERIAL_FIX)
        for entry, size in sizes
        if size is None
    ]
    if wrong:
        raise InvalidInput(wrong)
    return tuple(size for _, size in sizes if size is not None)


def _size(node: Node) -> BatchSize | None:
    if not isinstance(node, Scalar) or isinstance(node.data, bool) or not isinstance(node.data, int | str):
        return None
    match = _SIZE.fullmatch(str(node.data))
    if match is None:
        return None
    number, percent = int(match["number"]), bool(match["percent"])
    return BatchSize(number, percent) if number > 0 and not (percent and number > 100) else None


def read_percentage(node: Node) -> float:
    """Return the share of a batch that may fail, 0 to 100; InvalidInput if it is none."""
    if isinstance(node, Scalar) and isinstance(node.data, int | float | str) and not isinstance(node.data, bool):
        match = _SHARE.fullmatch(node.data) if isinstance(node.data, str) else None
        share = float(match["number"]) if match else -1.0 if isinstance(node.data, str) else float(node.data)
        if 0 <= share <= 100:
            return share
    raise InvalidInput([Problem(node.at, f"`max_fail_percentage: {_spelled(node)}` is no percentage", _SHARE_FIX)])


def _spelled(node: Node) -> str:
    if not isinstance(node, Scalar):
        return "…"
    return "null" if node.data is None else printable(node.text or str(node.data))


def split(hosts: Sequence[str], sizes: Sequence[BatchSize]) -> Iterator[tuple[str, ...]]:
    """Yield the batches of `hosts`; the last size repeats, and without sizes all hosts are one batch.

    A share counts from all hosts, is rounded down, and is one host at least, as in Ansible.
    """
    begin, number = 0, 0
    while begin < len(hosts):
        end = begin + _count(sizes[min(number, len(sizes) - 1)], len(hosts)) if sizes else len(hosts)
        yield tuple(hosts[begin:end])
        begin, number = end, number + 1


def moves(wanted: Iterable[Container], seen: Observation) -> Mapping[str, Sequence[str]]:
    """Return, for each host, the hosts where tasks run that move to it: they must end there before they start on it."""
    runs: dict[str, list[str]] = {}
    for one in seen.containers():
        if one.state is State.RUNNING:
            runs.setdefault(one.task, []).append(one.host)
    left: dict[str, list[str]] = {}
    for container in wanted:
        name, host = container.task.name, container.task.host
        left.setdefault(host, []).extend(old for old in runs.get(name, ()) if old != host)
    return left


def joined(batches: Sequence[Sequence[str]], left: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return `batches` with the hosts from which tasks move to a host (`left`) in its batch, or in an earlier one."""
    played: dict[str, None] = {}
    known = {host for batch in batches for host in batch}
    result = []
    for batch in batches:
        hosts: dict[str, None] = dict.fromkeys(host for host in batch if host not in played)
        waiting = list(hosts)
        while waiting:
            for old in left.get(waiting.pop(0), ()):
                if old in known and old not in hosts and old not in played:
                    hosts[old] = None
                    waiting.append(old)
        played |= hosts
        result.append(tuple(hosts))
    return [hosts for hosts in result if hosts]


def _count(size: BatchSize, hosts: int) -> int:
    return max(1, hosts * size.number // 100) if size.percent else size.number


def canary_hosts(plan: Plan, number: int) -> tuple[str, ...]:
    """Return the first `number` hosts on which `plan` starts tasks, those from which these tasks move, and so on.

    A task that moves is stopped on its old host first, or it would run twice; what starts there may have moved, too. Empty
    if nothing starts.
    """
    starting: dict[str, list[str]] = {}
    left: dict[str, list[str]] = {}
    for action in plan.actions:
        if action.kind == ActionKind.START:
            starting.setdefault(action.host, []).append(action.subject)
        elif action.kind == ActionKind.REMOVE:
            left.setdefault(action.subject, []).append(action.host)
    hosts = list(starting)[:number]
    for host in hosts:  # which grows meanwhile
        hosts += [old for task in starting.get(host, ()) for old in left.get(task, ()) if old not in hosts]
    return tuple(dict.fromkeys(hosts))


def is_exceeded(failed: int, size: int, percentage: float) -> bool:
    """Whether a play stops after `failed` of the `size` hosts of a batch: more than `percentage`, or all of them."""
    return failed >= size or 100 * failed > percentage * size
