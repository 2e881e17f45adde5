"""What completion offers for values: tasks, hosts, render targets, playbooks and files.

No host is contacted, no inventory script is run, and no password is asked for: where one of these were needed, nothing is
offered. Errors are no candidates either; `answer` drops them.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from tfprov.paths import INVENTORY

if TYPE_CHECKING:
    from tfprov.model.inventory import Inventory

Items = list[CompletionItem]


def files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Let the shell complete a path."""
    return [CompletionItem(incomplete, type="file")]


def vars_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Offer files behind the `@` of `-e @FILE`."""
    return _local_paths("@", incomplete[1:]) if incomplete.startswith("@") else []


def tasks(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Offer the names of the inventory's tasks, with the host of each."""
    return [CompletionItem(name, help=host) for name, host in _tasks(context) if name.startswith(incomplete)]


def task_paths(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Offer `TASK:` for each task, and files of this machine."""
    offered = [f"{name}:" for name, _ in _tasks(context) if f"{name}:".startswith(incomplete)]
    return [CompletionItem(text) for text in offered] or _local_paths("", incomplete)


def hosts(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Offer the inventory's hosts."""
    return _starting(_inventory(context).hosts, incomplete)


def patterns(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Offer hosts and groups for a host pattern, of which the last part is completed."""
    inventory = _inventory(context)
    cut = max(incomplete.rfind(mark) for mark in ",:&!") + 1
    names = [*inventory.hosts, *inventory.groups]
    return [CompletionItem(incomplete[:cut] + name) for name in names if name.startswith(incomplete[cut:])]


def groups(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Offer the inventory's groups."""
    return _starting(_inventory(context).groups, incomplete)


def targets(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Offer the targets of `render`, each with what it is."""
    from tfprov.render.target import TARGETS, find_target  # noqa: PLC0415  completion of other verbs needs none of it

    return [CompletionItem(name, help=find_target(name).title) for name in TARGETS if name.startswith(incomplete)]


def target_settings(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Offer the options of the target that stands on the command line, as `NAME=`."""
    from tfprov.render.render import options_of  # noqa: PLC0415
    from tfprov.render.target import find_target  # noqa: PLC0415

    # An option without its value keeps click from assigning the arguments.
    options = options_of(find_target(context.params["target"] or context.args[0]))
    return [CompletionItem(f"{name}=", help=one.help) for name, one in options.items() if name.startswith(incomplete)]


def playbooks(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Offer the playbooks that ship with tfprov, else files."""
    return _starting(("up", "run", "down"), incomplete) or [CompletionItem(incomplete, type="file")]


def verbs_and_commands(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Offer what may follow `tfprov help` and the words behind it."""
    command = context.find_root().command
    for word in context.params.get("words") or ():
        below = command.get_command(context, word) if isinstance(command, click.Group) else None
        if below is None:
            return []
        command = below
    return command.shell_complete(context, incomplete) if isinstance(command, click.Group) else []


def _starting(names: Iterable[str], incomplete: str) -> Items:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _local_paths(prefix: str, incomplete: str) -> Items:
    """Offer paths with a prefix, which a shell's own completion of files does not know."""
    directory, _, name = incomplete.rpartition("/")
    below = f"{directory}/" if "/" in incomplete else ""
    with os.scandir(below or ".") as entries:
        names = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries]
    return [CompletionItem(f"{prefix}{below}{entry}") for entry in sorted(names) if entry.startswith(name)]


def _tasks(context: click.Context) -> Iterator[tuple[str, str]]:
    from tfprov.planning.tasks import assign_tasks  # noqa: PLC0415  schema and settings take a tenth of a second
    from tfprov.settings.load import load  # noqa: PLC0415

    extra, lookup_dirs = _options(context, "extra"), _options(context, "lookup_dirs")
    _, roles = load(_sources(context), extra, lookup_dirs=lookup_dirs, needs_files=False)
    yield from ((task.name, task.host) for task in assign_tasks(roles).tasks)


def _inventory(context: click.Context) -> "Inventory":
    from tfprov.settings.load import load_inventory  # noqa: PLC0415

    return load_inventory(_sources(context), _options(context, "extra"), lookup_dirs=_options(context, "lookup_dirs"))


def _options(context: click.Context, name: str) -> Any:
    return context.params.get(name) or ()


class NotQuick(Exception):
    """Something would have to be run or asked for."""


def _sources(context: click.Context) -> list[str]:
    """Return the inventory's sources; raise NotQuick if one of them is a program, which may take long and ask a cloud."""
    from tfprov.inventory.sources import source_path  # noqa: PLC0415

    sources = list(context.params.get("sources") or [os.environ.get("TFPROV_INVENTORY") or INVENTORY])
    for source in map(source_path, sources):
        path = Path(source)
        if path.is_dir():
            programs = [one for one in path.iterdir() if one.is_file() and os.access(one, os.X_OK)]
        else:
            programs = [path] if path.is_file() and os.access(path, os.X_OK) else []
        for program in programs:
            with program.open("rb") as file:
                if file.read(2) in (b"#!", b"\x7fE"):
                    raise NotQuick(source)
    return sources
