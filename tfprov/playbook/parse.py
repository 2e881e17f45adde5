"""Playbook files to plays: Ansible's keys, and a closed set of modules."""

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from tfprov.errors import InvalidInput, Position, Problem, closest, one_line, printable, suggest
from tfprov.model.inventory import ROLES
from tfprov.model.playbook import (
    IMPORT,
    IMPORT_KEYS,
    MODULE_KEYS,
    MODULES,
    PLAY_KEYS,
    STEP_KEYS,
    Command,
    Play,
    Step,
    WaitFor,
)
from tfprov.model.yaml_node import Items, Mapping, Node, Scalar, plain
from tfprov.paths import shipped_directory
from tfprov.playbook.batches import read_percentage, read_serial
from tfprov.settings.pydantic_errors import ErrorExplainer, to_flow_yaml
from tfprov.templating.host_values import is_template
from tfprov.yamltext.load import load_file, parse, read_bytes
from tfprov.yamltext.yaml11 import lint_values

T = TypeVar("T")
_FIRST = "start each play with `- name:`"
_TEXTS = {"name": "`name: train`", "hosts": "`hosts: all`", IMPORT: f"`{IMPORT}: up.yml`"}


def read_playbook(path: Path, importing: tuple[Path, ...] = ()) -> tuple[Play, ...]:
    """Return the plays in the file at `path` and in those it imports; InvalidInput carries every problem."""
    return _plays(path, load_file(path, fix="check the path of the playbook", start_from=_FIRST), importing)


def _plays(path: Path, document: Node, importing: tuple[Path, ...]) -> tuple[Play, ...]:
    reader = _Reader(path, (*importing, path.resolve()))
    plays = tuple(reader.plays(document))
    if reader.problems:
        raise InvalidInput(reader.problems)
    return plays


class _Reader:
    def __init__(self, path: Path, importing: tuple[Path, ...]) -> None:
        self.path, self.seen = path, importing
        self.problems: list[Problem] = []
        self.ambiguous: set[Position] = set()

    def report(self, at: Position, what: str, fix: str) -> None:
        self.problems.append(Problem(at, what, fix))

    def plays(self, document: Node) -> Iterator[Play]:
        if not isinstance(document, Items) or not document.items:
            self.report(document.at, "a playbook must be a list of plays", _FIRST)
            return
        for item in document.items:
            if not isinstance(item, Mapping):
                self.report(item.at, "a play must be a mapping", "write `- name: …`, `hosts: …`, `tasks: …`")
            elif IMPORT in item.entries:
                yield from self.import_plays(item)
            else:
                yield self.play(item)

    def import_plays(self, item: Mapping) -> Iterator[Play]:
        self.check_keys(item, IMPORT_KEYS, "play with `import_playbook`")
        name, at = self.text(item, IMPORT), item.key_at(IMPORT)
        path = self.path.parent / name
        if not name or self.circular(path, name, at):
            return
        if name in {ours.name for ours in shipped_directory("playbooks").glob("*.yml")} and not path.exists():
            path = shipped_directory("playbooks") / name
        try:
            data = read_bytes(path, at, fix="a relative path counts from this file", name=f"`{printable(name)}` ")
            yield from _plays(path, parse(data, str(path), start_from=_FIRST), self.seen)
        except InvalidInput as error:
            self.problems.extend(error.problems)

    def circular(self, path: Path, name: str, at: Position) -> bool:
        try:
            if path.resolve() not in self.seen:
                return False
            self.report(at, f"`{printable(name)}` imports itself", "remove the import")
        except (OSError, RuntimeError, ValueError):  # a loop of symbolic links, or a null byte in the name
            self.report(at, f"`{printable(name)}` is not a path", "correct it")
        return True

    def play(self, item: Mapping) -> Play:
        self.check_keys(item, PLAY_KEYS, "play")
        tasks = item.get("tasks")
        self.lint({key: node for key, node in item.entries.items() if key != "tasks"})
        if not isinstance(tasks, Items) or not tasks.items:
            self.report(item.key_at("tasks"), "a play needs `tasks:`, a list of steps", "for example `- start:`")
        steps = [step for entry in getattr(tasks, "items", ()) if (step := self.step(entry))]
        if "hosts" not in item.entries and closest("hosts", item.entries) is None:
            self.report(item.at, "a play needs `hosts:`", "for example `hosts: all`")
        always = item.get("always")
        if always is not None and always.at not in self.ambiguous and not _is_truth(always):
            self.report(item.key_at("always"), "`always` must be true or false", "write `always: true`")
        serial = self.read(item, "serial", lambda node: read_serial(node, self.ambiguous.__contains__)) or ()
        percentage = self.read(item, "max_fail_percentage", read_percentage)
        play = Play(
            name=self.text(item, "name"),
            hosts=self.text(item, "hosts"),
            steps=tuple(steps),
            at=item.at,
            when=self.roles(item),
            tags=frozenset(self.words(item, "tags")),
            always=always is not None and plain(always) is True,
            serial=serial,
            max_fail_percentage=percentage,
        )
        self.check_batches(item, play)
        return play

    def read(self, item: Mapping, key: str, reader: Callable[[Node], T]) -> T | None:
        node = item.get(key)
        if node is None or node.at in self.ambiguous:
            return None
        try:
            return reader(node)
        except InvalidInput as error:
            self.problems.extend(error.problems)
            return None

    def check_batches(self, item: Mapping, play: Play) -> None:
        """Report steps for the whole training in a play with batches, and `always` beside what stops at failures."""
        if play.max_fail_percentage is not None and play.always:
            at = item.key_at("max_fail_percentage")
            self.report(at, "`max_fail_percentage` in a play with `always`", "remove one: `always` tries each step")
        for step in play.steps if play.serial else ():
            if step.module == "gather" or (isinstance(step.arguments, WaitFor) and step.arguments.condition == "done"):
                name = "gather" if step.module == "gather" else "wait: {for: done}"
                what = f"`{name}` in a play with `serial`"
                self.report(step.at, what, "put it into a play of its own: there is one training for all batches")

    def step(self, entry: Node) -> Step | None:
        if isinstance(entry, Scalar) and isinstance(entry.data, str):
            entry = Mapping({entry.data: Scalar(None, entry.at)}, entry.at, {entry.data: entry})
        if not isinstance(entry, Mapping):
            self.report(entry.at, "a step must be a module", f"one of {', '.join(MODULES)}")
            return None
        self.lint(entry.entries)
        modules = [key for key in entry.entries if key in MODULES]
        if not modules:
            self.no_module(entry)
            return None
        self.check_keys(entry, (*STEP_KEYS, *modules), "step")
        if len(modules) == 1:
            return self.with_arguments(modules[0], entry)
        self.report(entry.key_at(modules[1]), "two modules in one step", "write a step for each")
        return None

    def no_module(self, entry: Mapping) -> None:
        others = [key for key in entry if key not in STEP_KEYS]
        if not others:
            self.report(entry.at, "a step without a module", f"add one of {', '.join(MODULES)}")
        for key in others:
            fix = suggest(key, MODULES, f"there are {', '.join(MODULES)}")
            self.report(entry.key_at(key), f"no module `{printable(key)}`", fix)

    def with_arguments(self, module: str, entry: Mapping) -> Step | None:
        node, at = entry.entries[module], entry.key_at(module)
        words = self.words(entry, "tags")
        name, when = self.text(entry, "name"), self.roles(entry)
        if node.at in self.ambiguous:
            return None
        try:
            node = _long_form(module, node)
            arguments: Any = MODULES[module].model_validate(plain(node))
        except ValidationError as error:
            whole = node if isinstance(node, Mapping) else Mapping(at=at)
            problems = ErrorExplainer(MODULES[module], module, _example(module)).problems(whole, error, self.ambiguous)
            short = not isinstance(node, Mapping)
            self.problems.extend(replace(one, at=at, fix=_example(module)) if short else one for one in problems)
            return None
        except ValueError as error:
            self.report(at, f"`{module}`: {one_line(str(error)).lower()}", "close the quote")
            return None
        if isinstance(arguments, Command) and not arguments.argv[0].strip():
            self.report(at, "`command` must begin with a program", _example("command"))
        return Step(module, arguments, entry.at, name, when, frozenset(words))

    def lint(self, entries: dict[str, Node]) -> None:
        """Report templates, and values that YAML 1.1 reads unexpectedly; the latter get no further error."""
        for node in entries.values():
            self.no_templates(node)
            for problem in lint_values(node):
                self.problems.append(problem)
                self.ambiguous.add(problem.at)

    def no_templates(self, node: Node) -> None:
        """Report templates: a playbook has no variables, and braces would reach the hosts as they are."""
        if isinstance(node, Scalar):
            if not node.literal and is_template(node.data):
                self.report(
                    node.at, "a template in a playbook", "put it into the inventory, where templates are rendered"
                )
            return
        for below in node.entries.values() if isinstance(node, Mapping) else node.items:
            self.no_templates(below)

    def check_keys(self, item: Mapping, keys: Iterable[str], kind: str) -> None:
        for key in item.entries:
            if key not in keys:
                fix = suggest(key, keys, f"known keys: {', '.join(keys)}")
                self.report(item.key_at(key), f"unknown key `{printable(key)}` in a {kind}", fix)

    def text(self, item: Mapping, key: str) -> str:
        """Return the text of a key; empty without one, and where it is reported."""
        node = item.get(key)
        if node is None or node.at in self.ambiguous:
            return ""
        if not isinstance(node, Scalar) or not isinstance(node.data, str) or not node.data:
            has_value = isinstance(node, Scalar) and node.data not in (None, "")
            self.report(
                item.key_at(key), f"`{key}` must be text", "quote it" if has_value else f"for example {_TEXTS[key]}"
            )
            return ""
        return node.data

    def words(self, item: Mapping, key: str) -> list[str]:
        node = item.get(key)
        nodes = [node] if isinstance(node, Scalar) else list(node.items) if isinstance(node, Items) else []
        good = (isinstance(one, Scalar) and (isinstance(one.data, str) or one.at in self.ambiguous) for one in nodes)
        if node is not None and not (nodes and all(good)):
            self.report(item.key_at(key), f"`{key}` must be a name or a list of names", f"for example `{key}: [ps]`")
            return []
        return [one.text for one in nodes if isinstance(one, Scalar) and one.at not in self.ambiguous]

    def roles(self, item: Mapping) -> tuple[str, ...]:
        names = self.words(item, "when")
        for name in names:
            if name not in ROLES:
                fix = suggest(name, ROLES, f"roles are {', '.join(ROLES)}")
                self.report(item.key_at("when"), f"`when: {printable(name)}` is not a role", fix)
        return tuple(names)


def _is_truth(node: Node) -> bool:
    return isinstance(node, Scalar) and isinstance(node.data, bool)


def _example(module: str) -> str:
    example = MODULE_KEYS[module].example
    return f"`{module}` takes no arguments" if example is None else f"for example `{module}: {to_flow_yaml(example)}`"


def _long_form(module: str, node: Node) -> Node:
    """Write out Ansible's short forms: nothing for no arguments, and a command on one line."""
    if isinstance(node, Scalar) and node.data is None:
        return Mapping(at=node.at)
    if module == "command" and isinstance(node, Scalar) and isinstance(node.data, str):
        words = tuple(Scalar(word, node.at, word, quoted=True) for word in shlex.split(node.data))
        return Mapping({"argv": Items(words, node.at)}, node.at)
    return node
