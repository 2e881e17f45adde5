"""The reference page of settings and variables, in Markdown, generated from the models that check them."""

from collections.abc import Iterator, Sequence
from typing import Any

from tfprov.settings.pydantic_errors import to_flow_yaml
from tfprov.settings.schema.ansible_variables import VARIABLES
from tfprov.settings.schema.inventory_schema import ROLE_SENTENCES, SECTION_SENTENCES
from tfprov.settings.schema.settings_schema import COMPUTED, Schema, settings_schema

_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "mapping",
    "array": "list",
    "null": "nothing",
}
_ANY_TEXT = "must be one line"


def reference_page() -> str:
    """Return the page without its heading."""
    return "\n".join([*_groups(), *_overview(), *_settings(), *_connections()])


def _groups() -> Iterator[str]:
    yield "## Groups of the roles\n"
    yield from _table(("group", "hosts"), [(f"`{name}`", text) for name, text in ROLE_SENTENCES.items()])
    yield "A group has three keys:\n"
    yield from _table(("key", "content"), [(f"`{name}`", text) for name, text in SECTION_SENTENCES.items()])


def _overview() -> Iterator[str]:
    yield "## Settings under `tfprov:`\n"
    rows = [
        (f"[`{name}`](#{_anchor(name)})", _type(schema), _default(schema)) for name, schema in _all(settings_schema())
    ]
    yield from _table(("setting", "type", "default"), rows)


def _settings() -> Iterator[str]:
    for name, schema in _all(settings_schema()):
        yield f"### `{name}`\n"
        yield f"{_sentence(schema)}\n"
        kind = _type(schema)
        yield f"{kind[0].upper()}{kind[1:]}. Default: {_default(schema)}.\n"
        yield f"```yaml\n{name.rpartition('.')[2]}: {to_flow_yaml(schema['examples'][0])}\n```\n"


def _connections() -> Iterator[str]:
    yield "## Ansible's connection variables\n"
    rows = [
        (f"`{name}`", variable.sentence, variable.default, f"`{to_flow_yaml(variable.example)}`")
        for name, variable in VARIABLES.items()
    ]
    yield from _table(("variable", "meaning", "default", "example"), rows)


def _all(schema: Schema, prefix: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield every setting with its dotted name, each before those within it."""
    for alternative in (schema, *schema.get("anyOf", ())):
        for name, below in alternative.get("properties", {}).items():
            yield prefix + name, below
            yield from _all(below, f"{prefix}{name}.")
            yield from _all(below.get("items", {}), f"{prefix}{name}[].")


def _anchor(name: str) -> str:
    return "".join(c for c in name if c.isalnum() or c in "_-")


def _sentence(schema: Schema) -> str:
    text: str = schema["description"]
    return text.partition(" Default: ")[0]


def _default(schema: Schema) -> str:
    _, _, default = schema["description"].partition(" Default: ")
    return default.rstrip(".") or schema["markdownDescription"].partition("\n\nDefault: ")[2] or _no_default(schema)


def _no_default(schema: Schema) -> str:
    return "the defaults of its keys" if "properties" in schema else "none; it is required"


def _type(schema: Schema) -> str:
    """Return the type of a setting in words, without templates."""
    words = []
    for kind in schema.get("anyOf", [schema]):
        words += [f"`{value}`" for value in kind.get("enum", [])]
        names = [kind["type"]] if isinstance(kind.get("type"), str) else kind.get("type", [])
        words += [_kind(name, kind) for name in names if name != "null" and not _is_template_only(name, kind)]
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _is_template_only(name: str, schema: Schema) -> bool:
    return name == "string" and schema.get("pattern") == COMPUTED


def _kind(name: str, schema: Schema) -> str:
    if name in ("integer", "number") and "minimum" in schema:
        return f"{_TYPES[name]} from {_number(schema['minimum'])} to {_number(schema['maximum'])}"
    if name == "string" and schema.get("patternErrorMessage", _ANY_TEXT) != _ANY_TEXT:
        return str(schema["patternErrorMessage"].removeprefix("must be "))
    if name == "array" and "items" in schema:
        return f"list of {'mappings' if 'properties' in schema['items'] else _type(schema['items'])}"
    if name == "object" and "additionalProperties" in schema and schema["additionalProperties"] is not False:
        return f"mapping of names to {_type(schema['additionalProperties'])}"
    return _TYPES[name]


def _number(value: Any) -> str:
    return f"{value:,}".replace(",", " ") if value >= 10_000 else str(value)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(row)} |"
    yield ""
