"""Answer questions with ansible-core, in a process of its own: each question and answer is a line of JSON.

    {"ask": "ranges", "texts": ["node[1:3]"]}    →    {"answer": [["node1", "node2", "node3"]]}

Apart from the tests, because importing Ansible changes the process: its locale, its signals, its warnings. It takes a
second to start and milliseconds to answer, so one process answers all questions of a module: see `asking.py`.
"""

import contextlib
import functools
import gc
import inspect
import io
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ansible import constants
from ansible.cli.inventory import InventoryCLI
from ansible.inventory import group as groups_module
from ansible.inventory.helpers import get_group_vars
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultSecretsContext
from ansible.playbook.play_context import PlayContext
from ansible.plugins.inventory import detect_range, expand_hostname_range
from ansible.plugins.loader import become_loader, connection_loader, init_plugin_loader
from ansible.plugins.vars import host_group_vars
from ansible.template import Templar, trust_as_template
from ansible.utils.context_objects import GlobalCLIArgs
from ansible.utils.vars import combine_vars
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

Action = list[str]


class Ordered(dict[Any, None]):
    """A set that is walked in the order in which it was filled.

    Ansible walks the groups of a level in the order of a set, which is another one in every process. This is one of
    the orders it can have: that of the file.
    """

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__(dict.fromkeys(items))

    def add(self, item: Any) -> None:
        self[item] = None

    def update(self, *several: Iterable[Any]) -> None:  # type: ignore[override]
        super().update((item, None) for items in several for item in items)

    def difference_update(self, items: Iterable[Any]) -> None:
        for item in list(items):
            self.pop(item, None)

    def copy(self) -> "Ordered":
        return Ordered(self)


def main() -> None:
    """Answer the questions on the standard input, a line each, until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ansible prints its warnings here and there
    warnings.simplefilter("ignore")  # of ansible.cli, which expects to be run once in a process
    groups_module.set = Ordered
    init_plugin_loader()
    inspect.signature = functools.cache(inspect.signature)  # a third of what each of its commands takes
    gc.disable()  # Ansible's objects are many and stay; a collection in a fork copies all their pages
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = {"answer": QUESTIONS[question.pop("ask")](**question)}
        except Exception:
            answer = {"failed": traceback.format_exc()}
        print(json.dumps(answer, default=_encoded), file=answers, flush=True)


def _encoded(value: Any) -> Any:
    """Encode what JSON does not know: a date is an object, whatever else there is a list."""
    return {"date": value.isoformat()} if hasattr(value, "isoformat") else list(value)


# ansible-inventory


def commands(arguments: list[str], actions: list[Action], *, lenient: bool = False) -> list[tuple[int, str]]:
    """Return exit code and output of `ansible-inventory ARGUMENTS ACTION` for every action.

    As users have it, so `lenient`: a source that it cannot read ends nothing.
    """
    _warm_up(arguments)
    answers: list[tuple[int, str]] = _forked(lambda: _commands(arguments, actions, lenient=lenient))
    return answers


def _commands(arguments: list[str], actions: list[Action], *, lenient: bool = False) -> list[tuple[int, str]]:
    """Run the command itself for every action; what it read for the first is there for the others."""
    if lenient:  # in a fork of its own
        constants.INVENTORY_ANY_UNPARSED_IS_FAILED = False
    read: list[Any] = []
    answers = []
    for action in actions:
        GlobalCLIArgs._Singleton__instance = None
        command = InventoryCLI(["ansible-inventory", *arguments, *action])
        if read:
            read[0][1].subset(None)
            command._play_prereqs = lambda: read[0]
        else:
            command._play_prereqs = _remembering(command._play_prereqs, read)
        answers.append(_run(command))
    return answers


def _remembering(prepare: Callable[[], Any], read: list[Any]) -> Callable[[], Any]:
    def prepare_once() -> Any:
        read.append(prepare())
        return read[0]

    return prepare_once


def _run(command: Any) -> tuple[int, str]:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            command.run()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except Exception as error:
            code = 1
            print(error)
    return code, output.getvalue()


_warm: list[bool] = []


def _warm_up(arguments: list[str]) -> None:
    """Load the plugins before the first fork, so that not every child loads them for itself."""
    if not _warm:
        _commands(arguments, [["--list"]])
        _warm.append(True)
        VaultSecretsContext._current = None
        _forget()


def _forked(ask: Callable[[], Any]) -> Any:
    """Ask in a process that begins with nothing remembered: Ansible keeps options, files and secrets in globals."""
    inlet, outlet = os.pipe()
    if not (child := os.fork()):
        os.close(inlet)
        with os.fdopen(outlet, "w") as file:
            try:
                json.dump(ask(), file)
            except Exception:
                json.dump([[-1, traceback.format_exc()]], file)
        os._exit(0)
    os.close(outlet)
    with os.fdopen(inlet) as file:
        text = file.read()
    os.waitpid(child, 0)
    return json.loads(text)


def _forget() -> None:
    """Forget which files of variables there are: questions about generated files come with their own."""
    for remembered in (host_group_vars.CANONICAL_PATHS, host_group_vars.FOUND, host_group_vars.NAK):
        remembered.clear()


# Objects


def ranges(texts: list[str]) -> list[list[str] | None]:
    """Return the names each range stands for; null for one that is refused."""
    return [_range(text) for text in texts]


def _range(text: str) -> list[str] | None:
    try:
        return list(expand_hostname_range(text)) if detect_range(text) else [text]
    except Exception:
        return None


def structure(sources: list[str]) -> dict[str, Any]:
    """Return hosts with their variables, groups with their hosts, and how each host is reached."""
    inventory = InventoryManager(loader=DataLoader(), sources=sources)
    hosts = {
        host.name: combine_vars(
            get_group_vars(host.get_groups()), {k: v for k, v in host.vars.items() if "inventory_" not in k}
        )
        for host in inventory.get_hosts()
    }
    groups = {name: sorted(names) for name, names in inventory.get_groups_dict().items() if name != "ungrouped"}
    ways = {name: _way({"inventory_hostname": name, **values}) for name, values in hosts.items()}
    return {"hosts": hosts, "groups": groups, "ways": ways}


def effective(sources: list[str]) -> dict[str, Any]:
    """Return hosts with all their variables, those of files beside the sources too, and groups with hosts and children."""
    inventory, manager = _managers(sources)
    result = {host.name: manager.get_vars(host=host, include_hostvars=False) for host in inventory.get_hosts()}
    for values in result.values():
        InventoryCLI._remove_internal(values)
    children = {name: [child.name for child in group.child_groups] for name, group in inventory.groups.items()}
    return {"hosts": result, "groups": inventory.get_groups_dict(), "children": children}


def _managers(sources: list[str]) -> tuple[Any, Any]:
    _forget()
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=sources)
    return inventory, VariableManager(loader=loader, inventory=inventory)


def patterns(sources: list[str], texts: list[str]) -> list[list[str] | None]:
    """Return the hosts each pattern of a play's `hosts:` selects; null for none, or one that is refused."""
    inventory, _ = _managers(sources)
    return [_hosts(inventory, text) for text in texts]


def limits(sources: list[str], texts: list[str]) -> list[list[str] | None]:
    """Return the hosts that `hosts: all` has under each `--limit`; null for none, or one that is refused."""
    inventory, _ = _managers(sources)
    return [_limited(inventory, text) for text in texts]


def _limited(inventory: Any, text: str) -> list[str] | None:
    try:
        inventory.subset(text)
    except Exception:
        return None
    return _hosts(inventory, "all")


def _hosts(inventory: Any, pattern: str) -> list[str] | None:
    try:
        result = inventory.get_hosts(pattern)
    except Exception:
        return None
    return [host.name for host in result] or None


def rendered(sources: list[str], host: str, texts: list[str]) -> list[dict[str, Any]]:
    """Return the value of every template for `host`, or the error it ends in."""
    inventory, manager = _managers(sources)
    HostVars(inventory, manager, manager._loader)
    variables = manager.get_vars(host=inventory.get_host(host))
    templar = Templar(loader=manager._loader, variables=variables)
    return [_rendered(templar, text) for text in texts]


def _rendered(templar: Any, text: str) -> dict[str, Any]:
    try:
        value = templar.template(trust_as_template(text))
        return {"value": json.loads(json.dumps(value, default=_encoded))}
    except Exception as error:
        return {"error": str(error)}


def plugins() -> dict[str, list[str]]:
    """Return the names of all filters and tests that come with ansible-core."""
    from ansible.plugins.loader import filter_loader, test_loader  # noqa: PLC0415

    return {
        "filters": sorted({name for plugin in filter_loader.all() for name in [plugin.ansible_name.split(".")[-1]]}),
        "tests": sorted({name for plugin in test_loader.all() for name in [plugin.ansible_name.split(".")[-1]]}),
    }


def booleans(values: list[Any]) -> list[bool | None]:
    """Return what each value is as a boolean; null for one that is none."""
    return [_boolean(value) for value in values]


def _boolean(value: Any) -> bool | None:
    try:
        return bool(boolean(value))
    except TypeError:
        return None


def _way(variables: dict[str, Any]) -> dict[str, Any]:
    """Return what Ansible's ssh connection makes of a host's variables."""
    ssh = connection_loader.get("ssh", PlayContext(), None)
    ssh.set_options(var_options=variables)
    names = ("host", "port", "remote_user", "password", "private_key_file", "timeout")
    return {name: ssh.get_option(name) for name in names}


def connection_variables() -> list[str]:
    """Return the names of all variables that an ssh connection and sudo look at."""
    connection_loader.get("ssh", class_only=True)
    become_loader.get("sudo", class_only=True)
    result = set(constants.MAGIC_VARIABLE_MAPPING)
    aliases = {name for names in constants.MAGIC_VARIABLE_MAPPING.values() for name in names}
    kinds = (("connection", "ssh"), ("connection", "local"), ("become", "sudo"))
    named = {name for kind, plugin in kinds for name in constants.config.get_plugin_vars(kind, plugin)}
    return sorted(name for name in result | aliases | named if name.startswith("ansible_"))


def _questions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for question in (
        commands, ranges, structure, effective, patterns, limits, rendered, plugins, booleans, connection_variables,
    ):  # fmt: skip
        yield question.__name__, question


QUESTIONS: dict[str, Callable[..., Any]] = dict(_questions())

if __name__ == "__main__":
    main()
