"""Compiles one template, renders it in the sandbox, and turns the result into nodes or a one-line error."""

import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as AbstractMapping
from datetime import date
from functools import lru_cache
from itertools import islice
from typing import Any

from jinja2 import Environment, Template, TemplateError, Undefined, UndefinedError
from jinja2.exceptions import SecurityError

from tfprov.errors import InvalidInput, Position, Problem, one_line, printable, suggest
from tfprov.model.yaml_node import Items, Mapping, Node, Scalar
from tfprov.templating.errors import DEFINE, OmittedValue, UndefinedVariable, describe_exception
from tfprov.templating.lazy_values import LazyList
from tfprov.templating.limits import TOO_LARGE, LimitExceeded, Limits
from tfprov.templating.lookups import OMIT
from tfprov.templating.sandbox import Sandbox
from tfprov.yamltext.load import MAX_DEPTH

_TASK_NAMES = ("task", "checkpoint_dir", "cluster", "ps_hosts", "worker_hosts", "chief_address", "rank", "world_size")
_ANSIBLE_NAMES = (
    "ansible_check_mode", "ansible_config_file", "ansible_facts", "ansible_forks", "ansible_inventory_sources",
    "ansible_limit", "ansible_play_batch", "ansible_play_hosts", "ansible_play_hosts_all", "ansible_play_name",
    "ansible_playbook_python", "ansible_version", "item", "now", "play_hosts", "playbook_dir", "role_name", "role_path",
    "undef", "vars",
)  # fmt: skip
_FILTER = re.compile(r"^(?:do_(\w+)|bounded_(\w+)\.<locals>\.bounded)(?=\(\) )")
"""How Python names a filter that gets other arguments than it takes."""
_FACT = re.compile(r"ansible_(?:default_ipv[46]|distribution|processor|mem|hostname|fqdn|nodename|os_family|kernel)\w*")
_TYPE_NAMES = {
    "dict object": "the mapping",
    "tfprov.templating.lazy_values.LazyMapping object": "the mapping",
    "tfprov.templating.magic_vars.Groups object": "the groups",
    "tfprov.templating.magic_vars.HostVars object": "the hosts of the inventory",
    "tfprov.templating.host_values.Variables object": "the variables of that host",
    "list object": "the list",
    "tfprov.templating.lazy_values.LazyList object": "the list",
    "str object": "the text",
    "int object": "the number",
    "float object": "the number",
    "bool object": "the truth value",
    "datetime.date object": "the date",
    "None": "the empty value",
}


def describe_undefined(error: UndefinedError, variables: AbstractMapping[str, Any]) -> tuple[str, str]:
    """Return the message and the fix for an undefined name."""
    message = str(error)
    if name := re.fullmatch(r"'(.*)' is undefined", message, re.DOTALL):
        return _describe_name(name[1], variables)
    if match := re.fullmatch(r"'?(.*?)'? has no (?:attribute|element) '?(.*?)'?", message, re.DOTALL):
        return (
            f"no `{printable(match[2])}` in {_TYPE_NAMES.get(match[1], printable(match[1]))}",
            "correct the name or the number",
        )
    return f"undefined: {one_line(message)}", "give a value for this case with `| default(…)`"


def _describe_name(name: str, variables: AbstractMapping[str, Any]) -> tuple[str, str]:
    if name == "rank" and "task" in variables:
        fix = "set it in the groups that train, or write `{{ rank | default('') }}`"
        return f"only a chief and workers have a `rank`, and {variables['task']['name']} is neither", fix
    if name in _TASK_NAMES:
        return f"`{name}` is not known here", "use it in `command`, `flags` or `env`"
    if name in _ANSIBLE_NAMES or _FACT.fullmatch(name):
        return f"`{name}` is Ansible's own, and not known here", "write the value out, or give it with `-e`"
    return f"undefined variable `{printable(name)}`", suggest(name, variables, DEFINE)


def describe_template_error(error: TemplateError, environment: Environment) -> tuple[str, str]:
    """Return the message and the fix for an error of Jinja2."""
    message = describe_exception(str(error.message))
    if isinstance(error, SecurityError):
        if message == TOO_LARGE:
            return f"the template renders to {message}", "make it smaller"
        return f"the template sandbox forbids this: {message}", "use plain variables and filters"
    if unknown := re.fullmatch(r"No (filter|test) named `(.*?)`(?: found)?", message):
        return _describe_unknown(
            unknown[1], unknown[2], environment.filters if unknown[1] == "filter" else environment.tests
        )
    if "nexpected char" in message and ('"`"' in message or '`"`' in message):
        return "a quote in a template that is never closed", "close it"
    if "unexpected end of template" in message or "nexpected end of" in message or "Missing end of" in message:
        return "a template that is never closed", "close `{{` with `}}`, and `{%` with `%}`"
    if type(error).__name__ == "TemplateRuntimeError":
        what, _, fix = message.partition("; ")
        return f"the template failed: {what}", fix or "correct the expression"
    return f"not a valid template: {message[:1].lower()}{message[1:]}", "check the braces and quotes"


def _describe_unknown(kind: str, name: str, names: Iterable[str]) -> tuple[str, str]:
    from tfprov.templating.filters.text import UNSUPPORTED  # noqa: PLC0415  loaded with the first filter of Ansible

    short = name.rpartition(".")[2]
    if kind == "filter" and short in UNSUPPORTED:
        return (
            f"no filter `{printable(name)}` here",
            "compute the value elsewhere, and give it with `-e` or as a variable",
        )
    fix = suggest(short, names, f"use one of Jinja2's or Ansible's own {kind}s", cutoff=0.7)
    return f"no {kind} named `{printable(name)}`", fix


environment = Sandbox()
_LIMITS = Limits()
_MAX_ELEMENTS = 100_001
"""Elements of all lists and mappings in a value: as many as the longest range has."""
_SINGLE = (str, int, float, date)
_SEQUENCES = (list, tuple, set, frozenset, LazyList)


def render_node(text: str, variables: AbstractMapping[str, Any], at: Position, limits: Limits = _LIMITS) -> Node:
    """Return the rendered `text` as nodes at position `at`; InvalidInput for any error in it."""
    try:
        return limits.within(_render_node, text, variables, at, limits)
    except LimitExceeded as error:
        raise _limit_error(at, str(error)) from None


def _render_node(text: str, variables: AbstractMapping[str, Any], at: Position, limits: Limits) -> Node:
    value = render_text(text, variables, at, limits)
    if value is OMIT:
        raise OmittedValue([Problem(at, "the template renders to `omit`, which is not a value", "write `default('')`")])
    return _NodeBuilder(at, variables).node(value)


def render_text(text: str, variables: AbstractMapping[str, Any], at: Position, limits: Limits = _LIMITS) -> Any:
    """Return the rendered `text`; InvalidInput at `at` for any error in it."""
    outer, environment.current.variables = environment.variables, variables
    try:
        return limits.within(_render, text, variables, at)
    except LimitExceeded as error:
        raise _limit_error(at, str(error)) from None
    except MemoryError:
        raise _limit_error(at, limits.too_much_memory()) from None
    finally:
        environment.current.variables = outer


def _limit_error(at: Position, what: str) -> InvalidInput:
    return InvalidInput([Problem(at, f"the template {what}", "make it simpler, or give its value with `-e`")])


def _render(text: str, variables: AbstractMapping[str, Any], at: Position) -> Any:
    try:
        template = _compile(text)
        environment.current.steps = 0
        context = template.new_context(_Scope(variables), shared=True)  # type: ignore[arg-type]
        return _restore_newlines(text, _require_defined(environment.concat(template.root_render_func(context))))
    except InvalidInput:
        raise
    except UndefinedError as error:
        raise UndefinedVariable([Problem(at, *describe_undefined(error, variables))]) from None
    except TemplateError as error:
        raise InvalidInput([Problem(at, *describe_template_error(error, environment))]) from None
    except MemoryError:
        raise
    except Exception as error:  # a template can raise anything its expressions can
        reason = "templates cannot include files" if "no loader" in str(error) else describe_exception(error)
        reason = _FILTER.sub(r"\1\2", reason)
        what = f"the template failed: {reason or type(error).__name__}"
        raise InvalidInput([Problem(at, what, "correct the expression")]) from None


class _Scope(AbstractMapping[str, Any]):
    """The names a template can use: variables, then Jinja2's globals."""

    def __init__(self, variables: AbstractMapping[str, Any]) -> None:
        self.variables = variables

    def __getitem__(self, name: str) -> Any:
        return self.variables[name] if name in self.variables else environment.globals[name]

    def __contains__(self, name: object) -> bool:
        return name in self.variables or name in environment.globals

    def __iter__(self) -> Iterator[str]:
        return iter({**environment.globals, **dict.fromkeys(self.variables)})

    def __len__(self) -> int:
        return len(list(iter(self)))


@lru_cache(maxsize=4096)
def _compile(text: str) -> Template:
    return environment.from_string(text)  # takes half a millisecond; a thousand hosts share most of their templates


def _restore_newlines(template: str, result: Any) -> Any:
    """Return a text with the trailing line breaks of its template, which Jinja2 removes."""
    if not isinstance(result, str):
        return result
    lost = len(template) - len(template.rstrip("\n")) - (len(result) - len(result.rstrip("\n")))
    return result + "\n" * lost


def _require_defined(piece: Any) -> Any:
    if isinstance(piece, Undefined):
        str(piece)  # StrictUndefined raises here, with the variable's name
    return piece


class _NodeBuilder:
    """Turns the value of a template into nodes at one position, within the limits of an inventory's YAML."""

    def __init__(self, at: Position, variables: AbstractMapping[str, Any]) -> None:
        self.at, self.left, self.variables = at, _MAX_ELEMENTS, variables

    def node(self, data: Any, depth: int = 0) -> Node:
        """Return `data` as a node, without entries that are `omit`."""
        self.left -= 1
        if depth > MAX_DEPTH or self.left < 0:
            raise self.refuse("a list or mapping that is too large or too deep", "make it smaller")
        if data is None or isinstance(data, _SINGLE):
            return Scalar(data, self.at, self.text(data), quoted=True)
        if isinstance(data, AbstractMapping):
            keys = {self.text(key): Scalar(key, self.at, str(key), quoted=isinstance(key, str)) for key in data}
            entries = {str(key): self.node(value, depth + 1) for key, value in data.items() if value is not OMIT}
            return Mapping(entries, self.at, keys)
        if isinstance(data, Iterator):
            data = list(islice(data, self.left + 1))
        if isinstance(data, _SEQUENCES):
            return Items(tuple(self.node(item, depth + 1) for item in data if item is not OMIT), self.at)
        if isinstance(data, Undefined):
            raise self.undefined_error(data)
        kind = "function" if callable(data) else type(data).__name__
        raise self.refuse(f"a {kind}, which is not a value", "call it with `()`" if callable(data) else "correct it")

    def text(self, data: object) -> str:
        try:
            return str(data)
        except ValueError:  # Python shows no number of more than 4300 digits
            raise self.refuse("a number that is too large", "make it smaller") from None

    def undefined_error(self, data: Undefined) -> InvalidInput:
        try:
            str(data)
        except UndefinedError as error:
            return UndefinedVariable([Problem(self.at, *describe_undefined(error, self.variables))])
        except InvalidInput as error:  # of a variable whose own template fails
            return error
        raise AssertionError("a StrictUndefined raises whenever it is used")

    def refuse(self, what: str, fix: str) -> InvalidInput:
        return InvalidInput([Problem(self.at, f"the template renders to {what}", fix)])
