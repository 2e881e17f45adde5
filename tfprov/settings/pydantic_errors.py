"""Turns pydantic's errors into problems at the line that causes them, each with an example as its fix."""

import json
import re
from collections.abc import Collection, Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tfprov.errors import Position, Problem, closest, one_line, printable
from tfprov.model.yaml_node import Items, Mapping, Node, Scalar, find

Path = tuple[str | int, ...]

_TYPES = ("str", "int", "float", "bool", "word", "mapping", "[key]")
_LIST = "list["
"""How pydantic's name of a list begins, in a union of one and a text."""
_LIMITS = {"ge": "at least", "gt": "more than", "le": "at most"}


@dataclass(frozen=True)
class ErrorExplainer:
    """Explains errors of `model`, whose keys stand under `name` in the file.

    With `inside`, messages repeat `name`, as for a playbook, which has no templates. `whole` is the fix for a key without
    an example. `others` maps other tools' names to keys.
    """

    model: type[BaseModel]
    name: str
    whole: str
    inside: bool = True
    others: AbstractMapping[str, str] = field(default_factory=dict)

    def problems(self, node: Mapping, error: ValidationError, reported: Collection[Position] = ()) -> Iterator[Problem]:
        """Yield one problem per value, except for values at `reported` positions.

        pydantic reports a value of a union once for each type.
        """
        by_path: dict[Path, list[ErrorDetails]] = {}
        for item in _of_their_type(error.errors(include_url=False)):
            by_path.setdefault(tuple(_steps(node, item["loc"])), []).append(item)
        for path, items in by_path.items():
            if find(node, path)[0].at in reported or (
                items[0]["type"] == "missing" and path[-1] in self.misspelt_keys(node, path[:-1])
            ):
                continue
            own = next((item for item in items if item["type"] == "value_error"), items[0])
            single = own["type"] == "value_error" or len(items) == 1
            value, at = find(node, path)
            text = value.text if isinstance(value, Scalar) else ""
            if isinstance(value, Scalar) and value.secret and own["type"] != "extra_forbidden":
                yield Problem(
                    at, f"`{self.dotted_name(path)}` is secret, and not one line of text", "encrypt one line of text"
                )
                continue
            what, fix = self.explain(own, path, text) if single else self.not_single(own, path)
            yield Problem(at, what, fix)

    def explain(self, error: ErrorDetails, path: Path, text: str = "") -> tuple[str, str]:
        """Return the message and the fix; `text` is the value's spelling in the file."""
        kind, value, limits, name = error["type"], error["input"], error.get("ctx", {}), self.dotted_name(path)
        if kind == "missing":
            return f"`{name}` is missing under `{self.name}:`", self.example(path)
        if kind == "extra_forbidden":
            return f"unknown key `{name}`", self.suggest_key(path)
        if kind == "value_error":
            return f"`{name}` {limits['error']}", getattr(limits["error"], "fix", "") or self.example(path)
        if kind == "literal_error":
            expected = limits["expected"].replace("'", "`")
            close = _close(value, re.findall("`([^`]+)`", expected), {}) if isinstance(value, str) else None
            fix = f"did you mean `{close}`?" if close else self.example(path)
            return f"`{name}` must be {expected}, not {describe_value(value)}", fix
        for limit in limits.keys() & _LIMITS.keys():
            return f"`{name}` must be {_LIMITS[limit]} {limits[limit]:.15g}, not {printable(value)}", self.example(path)
        if kind == "too_short":
            return f"`{name}` must not be empty", self.example(path)
        return self.mistyped(error, path, text)

    def mistyped(self, error: ErrorDetails, path: Path, text: str) -> tuple[str, str]:
        """Return the message and the fix for a value of the wrong type."""
        value, expected, name = error["input"], _type_name(error["type"]), self.dotted_name(path)
        if expected is None:
            return f"`{name}`: {one_line(error['msg'])}", self.example(path)
        if expected == "text" and isinstance(value, int | float):
            return f"`{name}` must be text, not `{printable(text or value)}`", f'quote it: "{printable(text or value)}"'
        if expected in ("a whole number", "a number") and isinstance(value, str) and value.isdigit():
            fix = f"write {printable(value)} without quotes{'' if self.inside else ', or end a template in `| int`'}"
            return f"`{name}` must be a number, not text", fix
        if expected in ("a whole number", "a number") and isinstance(value, str) and (number := _parse_number(value)):
            return f"`{name}` must be {expected}, not {describe_value(value)}", f"write {number}"
        return f"`{name}` must be {expected}, not {describe_value(value)}", self.example(path)

    def not_single(self, error: ErrorDetails, path: Path) -> tuple[str, str]:
        """Return the message and the fix for a value that fits none of several scalar types."""
        fix = 'write "" for an empty text' if error["input"] is None else self.example(path)
        return f"`{self.dotted_name(path)}` must be a single value, not {describe_value(error['input'])}", fix

    def dotted_name(self, path: Path) -> str:
        """Return the dotted name of the value at `path`."""
        steps = [self.name, *path] if self.inside or not path else list(path)
        words = [f"[{step}]" if isinstance(step, int) else "." + (step or "''") for step in steps]
        return printable("".join(words).removeprefix("."))

    def suggest_key(self, path: Path) -> str:
        """Return the fix for the unknown key at the end of `path`: a similar key, or all there are."""
        names = sorted(_names(self.at(path[:-1])))
        if close := _close(str(path[-1]), names, self.others):
            return f"did you mean `{close}`?"
        return f"known keys: {', '.join(names)}" if names else self.whole

    def misspelt_keys(self, node: Mapping, path: Path = ()) -> set[str]:
        """Return the keys that unknown ones in the mapping at `path` probably misspell."""
        names, here = _names(self.at(path)), find(node, path)[0]
        keys = here.entries if isinstance(here, Mapping) else {}
        return {name for key in keys if key not in names and (name := _close(key, names, self.others)) is not None}

    def at(self, path: Path) -> type[BaseModel] | None:
        """Return the model of the mapping at `path`; None where keys are the user's own."""
        model: type[BaseModel] | None = self.model
        for step in path:
            if isinstance(step, str):
                field = _names(model).get(step)
                model = model_of(field.annotation) if field else None
        return model

    def example(self, path: Path) -> str:
        """Return the example of the innermost key of `path` that has one."""
        for end in range(len(path), 0, -1):
            key = str(path[end - 1])
            field = _names(self.at(path[: end - 1])).get(key)
            if field is not None and field.examples:
                return f"for example `{key}: {to_flow_yaml(field.examples[0])}`"
        return self.whole


def _close(key: str, names: Collection[str], others: AbstractMapping[str, str]) -> str | None:
    """Return the name that `key` is in another notation, in another tool's terms, or misspelt; else None."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])|-", "_", key).lower()
    for name in (plain, others.get(plain)):
        if name in names:
            return name
    return closest(key, names, cutoff=0.7)  # at 0.6, `colour` matches `cluster`


def model_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model in `annotation`: itself, the items of a list, or an optional one; None without one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = (model_of(inner) for inner in get_args(annotation)) if get_origin(annotation) is not dict else ()
    return next((model for model in models if model is not None), None)


def _names(model: type[BaseModel] | None) -> dict[str, Any]:
    if model is None:
        return {}
    return {field.alias or name: field for name, field in model.model_fields.items()}


def to_flow_yaml(example: Any) -> str:
    """Return `example` in YAML's flow style."""
    if isinstance(example, list):
        return f"[{', '.join(map(to_flow_yaml, example))}]"
    if isinstance(example, dict):
        return f"{{{', '.join(f'{key}: {to_flow_yaml(value)}' for key, value in example.items())}}}"
    if isinstance(example, str) and not example.replace(".", "", 1).isdigit():
        return example
    return json.dumps(example)


def _of_their_type(errors: Collection[ErrorDetails]) -> Iterator[ErrorDetails]:
    """Yield the errors of a list or a text without those of the other one, which the value is not to be."""
    steps = [(item["loc"][:place], step) for item in errors for place, step in enumerate(item["loc"])]
    unions = {above for above, step in steps if str(step).startswith(_LIST)}
    for item in errors:
        other = "string_type" if isinstance(item["input"], list) else "list_type"
        if item["type"] != other or item["loc"][:-1] not in unions:
            yield item


def _steps(node: Node, location: Path) -> Iterator[str | int]:
    """Yield the steps of pydantic's location without the type names that it adds for unions."""
    for step in location:
        below = _child(node, step)
        if below is None and (str(step) in _TYPES or str(step).startswith(("function-", _LIST))):
            continue
        node = below or node
        yield step


def _child(node: Node, step: str | int) -> Node | None:
    """Return the child of `node` with the key or index `step`, or None."""
    if isinstance(node, Mapping):
        return node.entries.get(str(step))
    if isinstance(node, Items) and isinstance(step, int) and step < len(node.items):
        return node.items[step]
    return None


def _parse_number(text: str) -> str | None:
    """Return the number that `text` is in other languages but not in YAML 1.1, such as `1e3` and `0o17`; or None."""
    try:
        number = float(text) if re.fullmatch(r"[-+]?[0-9]{0,9}\.?[0-9]{1,9}[eE][-+]?[0-9]{1,2}", text) else int(text, 0)
    except ValueError:
        return None
    return f"{number:.10g}" if isinstance(number, float) else printable(number)


def _type_name(kind: str) -> str | None:
    names = {
        "string": "text",
        "list": "a list",
        "dict": "a mapping",
        "model": "a mapping",
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
        "finite": "a finite number",
    }
    return next((name for prefix, name in names.items() if kind.startswith(prefix)), None)


def describe_value(value: object) -> str:
    """Return an invalid value in words for an error message."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    if value == "":
        return "an empty text"
    if value in ("true", "false"):
        return f'the text "{value}"'
    return "nothing" if value is None else f"`{printable(value)}`"
