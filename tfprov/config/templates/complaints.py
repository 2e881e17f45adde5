"""What Jinja2 says about a template that fails, in a user's words: what, and what to do about it."""

import difflib
import re
from collections.abc import Iterable
from collections.abc import Mapping as AbstractMapping
from typing import Any

from jinja2 import Environment, TemplateError, UndefinedError
from jinja2.exceptions import SecurityError

from tfprov.config.templates.sizes import TOO_LARGE
from tfprov.config.templates.values import DEFINE
from tfprov.errors import one_line, shown

_LATE_NAMES = ("task", "checkpoint_dir", "cluster", "ps_hosts", "worker_hosts", "chief_address", "rank", "world_size")
_ANSIBLE_NAMES = (
    "ansible_check_mode", "ansible_config_file", "ansible_facts", "ansible_forks", "ansible_inventory_sources",
    "ansible_limit", "ansible_play_batch", "ansible_play_hosts", "ansible_play_hosts_all", "ansible_play_name",
    "ansible_playbook_python", "ansible_version", "item", "now", "play_hosts", "playbook_dir", "role_name", "role_path",
    "undef", "vars",
)  # fmt: skip
_FACT = re.compile(r"ansible_(?:default_ipv[46]|distribution|processor|mem|hostname|fqdn|nodename|os_family|kernel)\w*")
_KINDS = {
    "dict object": "the mapping",
    "tfprov.config.templates.seen.SeenMapping object": "the mapping",
    "tfprov.config.templates.known._Groups object": "the groups",
    "tfprov.config.templates.known._Hosts object": "the hosts of the inventory",
    "tfprov.config.templates.values.Variables object": "the variables of that host",
    "list object": "the list",
    "tfprov.config.templates.seen.SeenItems object": "the list",
    "str object": "the text",
    "int object": "the number",
}


def about_undefined(error: UndefinedError, variables: AbstractMapping[str, Any]) -> tuple[str, str]:
    """Return what is undefined, and what to do about it."""
    message = error.message or ""
    if name := re.fullmatch(r"'(.*)' is undefined", message, re.DOTALL):
        return _undefined(name[1], variables)
    if found := re.fullmatch(r"'?(.*?)'? has no (?:attribute|element) '?(.*?)'?", message, re.DOTALL):
        return f"no `{shown(found[2])}` in {_KINDS.get(found[1], shown(found[1]))}", "correct the name or the number"
    return f"undefined: {one_line(message)}", DEFINE


def _undefined(name: str, variables: AbstractMapping[str, Any]) -> tuple[str, str]:
    if name == "rank" and "task" in variables:
        fix = "set it in the groups that train, or write `{{ rank | default('') }}`"
        return f"only a chief and workers have a `rank`, and {variables['task']['name']} is neither", fix
    if name in _LATE_NAMES:
        return f"`{name}` is not known here", "use it in `command`, `flags` or `env`"
    if name in _ANSIBLE_NAMES or _FACT.fullmatch(name):
        return f"`{name}` is Ansible's own, and not known here", "write the value out, or give it with `-e`"
    close = difflib.get_close_matches(name, list(variables), n=1)
    return f"undefined variable `{shown(name)}`", f"did you mean `{shown(close[0])}`?" if close else DEFINE


def about_template(error: TemplateError, environment: Environment) -> tuple[str, str]:
    """Return why a template cannot be read or rendered, and what to do about it."""
    message = one_line(error.message or "")
    if isinstance(error, SecurityError):
        if message == TOO_LARGE:
            return f"the template renders to {message}", "make it smaller"
        return f"the template sandbox forbids this: {message}", "use plain variables and filters"
    if unknown := re.fullmatch(r"No (filter|test) named `(.*?)`(?: found)?", message):
        return _unknown(unknown[1], unknown[2], environment.filters if unknown[1] == "filter" else environment.tests)
    if "nexpected char" in message and ('"`"' in message or '`"`' in message):
        return "a quote in a template that is never closed", "close it"
    if "unexpected end of template" in message or "nexpected end of" in message or "Missing end of" in message:
        return "a template that is never closed", "close `{{` with `}}`, and `{%` with `%}`"
    if type(error).__name__ == "TemplateRuntimeError":
        what, _, fix = message.partition("; ")
        return f"the template failed: {what}", fix or "correct the expression"
    return f"not a valid template: {message[:1].lower()}{message[1:]}", "check the braces and quotes"


def _unknown(kind: str, name: str, known: Iterable[str]) -> tuple[str, str]:
    from tfprov.config.templates.filters import UNSUPPORTED  # noqa: PLC0415  only Jinja2's own filters are there at the start

    short = name.rpartition(".")[2]
    if kind == "filter" and short in UNSUPPORTED:
        return f"no filter `{shown(name)}` here", "compute the value elsewhere, and give it with `-e` or as a variable"
    close = difflib.get_close_matches(short, list(known), n=1, cutoff=0.7)
    fix = f"did you mean `{close[0]}`?" if close else f"use one of Jinja2's or Ansible's own {kind}s"
    return f"no {kind} named `{shown(name)}`", fix
