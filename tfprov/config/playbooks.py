"""Playbook files to plays: Ansible's keys, and a closed set of modules."""

import difflib
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tfprov.config.yaml import read
from tfprov.errors import InvalidInput, Position, Problem
from tfprov.model.inventory import ROLES
from tfprov.model.node import Items, Mapping, Node, Scalar, find, plain
from tfprov.model.playbook import MODULES, Play, Step

_PLAY_KEYS = ("name", "hosts", "tasks", "when", "tags", "always")
_STEP_KEYS = ("name", "when", "tags")
_IMPORT = "import_playbook"


def read_playbook(path: Path, seen: tuple[Path, ...] = ()) -> tuple[Play, ...]:
    """Return the plays in the file at `path` and in those it imports; InvalidInput carries every problem."""
    reader = _Reader(path, (*seen, path.resolve()))
    plays = tuple(reader.plays(read(path)))
    if reader.problems:
        raise InvalidInput(reader.problems)
    return plays


class _Reader:
    def __init__(self, path: Path, seen: tuple[Path, ...]) -> None:
        self.path, self.seen = path, seen
        self.problems: list[Problem] = []

    def report(self, at: Position, what: str, fix: str) -> None:
        self.problems.append(Problem(at, what, fix))

    def plays(self, document: Node) -> Iterator[Play]:
        if not isinstance(document, Items) or not document.items:
            self.report(document.at, "a playbook must be a list of plays", "start each play with `- name:`")
            return
        for item in document.items:
            if not isinstance(item, Mapping):
                self.report(item.at, "a play must be a mapping", "write `- name: …`, `hosts: …`, `tasks: …`")
            elif _IMPORT in item.entries:
                yield from self.imported(item)
            else:
                yield self.play(item)

    def imported(self, item: Mapping) -> Iterator[Play]:
        self.known(item, (_IMPORT, "name"), "play")
        name = self.text(item, _IMPORT, "")
        path = self.path.parent / name
        if path.resolve() in self.seen:
            self.report(item.key_at(_IMPORT), f"`{name}` imports itself", "remove the import")
            return
        try:
            yield from read_playbook(path, self.seen)
        except InvalidInput as error:
            self.problems.extend(error.problems)

    def play(self, item: Mapping) -> Play:
        self.known(item, _PLAY_KEYS, "play")
        tasks = item.get("tasks")
        if not isinstance(tasks, Items) or not tasks.items:
            self.report(item.key_at("tasks"), "a play needs `tasks:`, a list of steps", "for example `- start:`")
        steps = [step for entry in getattr(tasks, "items", ()) if (step := self.step(entry))]
        if "hosts" not in item.entries:
            self.report(item.at, "a play needs `hosts:`", "for example `hosts: all`")
        always = item.get("always")
        if always is not None and not (isinstance(always, Scalar) and isinstance(always.data, bool)):
            self.report(item.key_at("always"), "`always` must be true or false", "write `always: true`")
        return Play(
            name=self.text(item, "name", ""),
            hosts=self.text(item, "hosts", "all"),
            steps=tuple(steps),
            at=item.at,
            when=self.roles(item),
            tags=frozenset(self.words(item, "tags")),
            always=always is not None and plain(always) is True,
        )

    def step(self, entry: Node) -> Step | None:
        if isinstance(entry, Scalar) and isinstance(entry.data, str):
            entry = Mapping({entry.data: Scalar(None, entry.at)}, entry.at, {entry.data: entry})
        if not isinstance(entry, Mapping):
            self.report(entry.at, "a step must be a module", f"one of {', '.join(MODULES)}")
            return None
        modules = [key for key in entry.entries if key in MODULES]
        self.known(entry, (*_STEP_KEYS, *MODULES), "step")
        if len(modules) != 1:
            if not modules and all(key in _STEP_KEYS for key in entry.entries):
                self.report(entry.at, "a step without a module", f"add one of {', '.join(MODULES)}")
            if len(modules) > 1:
                self.report(entry.key_at(modules[1]), "two modules in one step", "write a step for each")
            return None
        return self.with_arguments(modules[0], entry)

    def with_arguments(self, module: str, entry: Mapping) -> Step | None:
        node = entry.entries[module]
        try:
            arguments: Any = MODULES[module].model_validate(_short_form(module, node))
        except (ValidationError, ValueError) as error:
            self.problems.extend(_problems(module, node, entry.key_at(module), error))
            return None
        words = self.words(entry, "tags")
        return Step(module, arguments, entry.at, self.text(entry, "name", ""), self.roles(entry), frozenset(words))

    def known(self, item: Mapping, keys: Iterable[str], kind: str) -> None:
        for key in item.entries:
            if key not in keys:
                close = difflib.get_close_matches(key, list(keys), n=1)
                fix = f"did you mean `{close[0]}`?" if close else f"known keys: {', '.join(keys)}"
                self.report(item.key_at(key), f"unknown key `{key}` in a {kind}", fix)

    def text(self, item: Mapping, key: str, default: str) -> str:
        node = item.get(key)
        if node is None:
            return default
        if not isinstance(node, Scalar) or not isinstance(node.data, str) or not node.data:
            self.report(item.key_at(key), f"`{key}` must be text", "quote it")
            return default
        return node.data

    def words(self, item: Mapping, key: str) -> list[str]:
        node = item.get(key)
        found = [node] if isinstance(node, Scalar) else list(node.items) if isinstance(node, Items) else []
        if node is not None and not all(
            isinstance(one, Scalar) and isinstance(one.data, str) for one in found or [None]
        ):
            self.report(item.key_at(key), f"`{key}` must be a name or a list of names", f"for example `{key}: [ps]`")
            return []
        return [one.text for one in found if isinstance(one, Scalar)]

    def roles(self, item: Mapping) -> tuple[str, ...]:
        names = self.words(item, "when")
        for name in names:
            if name not in ROLES:
                close = difflib.get_close_matches(name, ROLES, n=1)
                fix = f"did you mean `{close[0]}`?" if close else f"roles are {', '.join(ROLES)}"
                self.report(item.key_at("when"), f"`when: {name}` is not a role", fix)
        return tuple(names)


def _short_form(module: str, node: Node) -> Any:
    """Ansible's short forms: nothing for no arguments, and a command on one line."""
    value = plain(node)
    if value is None:
        return {}
    if module == "command" and isinstance(value, str):
        return {"argv": shlex.split(value)}
    return value


def _problems(module: str, node: Node, at: Position, error: ValueError) -> Iterator[Problem]:
    if not isinstance(error, ValidationError):
        yield Problem(at, f"`{module}`: {error}", "check the quotes")
        return
    model = MODULES[module]
    names = [info.alias or name for name, info in model.model_fields.items()]
    takes = (
        f"`{module}` takes {', '.join(f'`{name}`' for name in names)}" if names else f"`{module}` takes no arguments"
    )
    for item in error.errors():
        where = find(node, item["loc"])[1] if item["loc"] and isinstance(node, Mapping) else at
        key = ".".join(map(str, item["loc"]))
        if item["type"] == "extra_forbidden":
            yield Problem(where, f"unknown argument `{key}` of `{module}`", takes)
        else:
            message = item["msg"].replace("'", "`").removeprefix("Value error, ")
            yield Problem(where, f"`{module}`{f'.{key}' if key else ''}: {message[0].lower()}{message[1:]}", takes)
