"""The settings as JSON Schema, draft 7: pydantic's schema, with templates allowed where they are rendered."""

from typing import Any

from pydantic import BaseModel

from tfprov.model.settings import Settings
from tfprov.templating.magic_vars import TASK_SETTINGS

Schema = dict[str, Any]

COMPUTED = r"\{\{|\{%|\{#|^\$ANSIBLE_VAULT;"
"""Matches a text that is a template or encrypted."""

_PLAIN = r"^(?![\s\S]*(?:\{\{|\{%|\{#))"
_BOUNDS = {"minimum": "minimum", "ge": "minimum", "maximum": "maximum", "le": "maximum", "gt": "exclusiveMinimum"}
"""Bounds of a number in JSON Schema; behind a custom validator, pydantic uses its own names."""
_KEPT = (*_BOUNDS, "exclusiveMinimum", "pattern", "patternErrorMessage", "minItems")
_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}


def settings_schema() -> Schema:
    """Return the schema of `tfprov:`. No key is required, because groups and hosts add to each other."""
    schema = _Adapter(Settings.model_json_schema(), computed=True).convert()
    for name in TASK_SETTINGS:  # single values are rendered, so the setting itself cannot be a template
        schema["properties"][name] = _without_text(schema["properties"][name])
    return schema


def arguments_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a module's arguments in a playbook, which has no templates."""
    return _Adapter(model.model_json_schema(), computed=False).convert()


def computed(schema: Schema) -> Schema:
    """Return `schema` with templates and encrypted values allowed as well."""
    kinds = [_KINDS[name] for name in _types(schema) if name in _KINDS]
    message = {"patternErrorMessage": f"must be {' or '.join([*kinds, 'a template'])}"} if kinds else {}
    return _join([schema, {"type": "string", "pattern": COMPUTED, **message}])


def plain(schema: Schema) -> Schema:
    """Return `schema` of a text that must not be a template."""
    return {**schema, "pattern": _PLAIN + schema.get("pattern", "").removeprefix("^")}


def described(sentence: str, schema: Schema, *, examples: list[Any] | None = None, default: str = "") -> Schema:
    """Return `schema` with its hover text; `default` is the default in Markdown."""
    hover = f"{sentence}\n\nDefault: {default}" if default else sentence
    return {
        "description": sentence,
        "markdownDescription": hover,
        **schema,
        **({"examples": examples} if examples else {}),
    }


class _Adapter:
    """Converts the JSON Schema of a pydantic model; with `computed`, values may be templates."""

    def __init__(self, raw: Schema, *, computed: bool) -> None:
        self.raw, self.computed = raw, computed

    def convert(self) -> Schema:
        return self.mapping(self.raw, required=not self.computed)

    def mapping(self, raw: Schema, *, required: bool) -> Schema:
        """Return the schema of a mapping with fixed keys."""
        converted: Schema = {"type": "object", "additionalProperties": False, "properties": {}}
        needed = raw.get("required", []) if required else []
        for name, below in raw.get("properties", {}).items():
            converted["properties"][name] = self.setting(below, is_needed=name in needed)
        return {**converted, **({"required": needed} if needed else {})}

    def setting(self, raw: Schema, *, is_needed: bool) -> Schema:
        """Return the schema of one setting; a default in its description wins over the model's."""
        raw = self.resolve(raw)
        default = None if is_needed or "Default:" in raw["description"] else raw.get("default")
        words = "" if default is None else f"`{_default_text(default)}`"
        if not is_needed and (_is_empty(raw) or self.begins_empty(raw)):
            words = "none"
        about = {"default": default} if default is not None else {}
        return described(raw["description"], {**self.value(raw), **about}, examples=raw["examples"], default=words)

    def begins_empty(self, raw: Schema) -> bool:
        """Whether the default of a setting with several forms, of which one is a list, is an empty list."""
        has_default = "default" in raw or "Default:" in raw["description"]
        return not has_default and any(map(_is_empty, map(self.resolve, _alternatives(raw))))

    def value(self, raw: Schema, *, in_list: bool = False) -> Schema:
        """Return the schema of a value."""
        raw = self.resolve(raw)
        kinds = [self.kind(self.resolve(alternative), in_list=in_list) for alternative in _alternatives(raw)]
        schema = _join(kinds)
        return computed(schema) if self.computed else schema

    def kind(self, raw: Schema, *, in_list: bool) -> Schema:
        if "properties" in raw:  # those in a list are written out in one place
            return self.mapping(raw, required=in_list or not self.computed)
        if raw.get("type") == "object":
            return self.names(raw)
        if "const" in raw or "enum" in raw:
            return {"enum": raw.get("enum") or [raw["const"]]}
        converted: Schema = {_BOUNDS.get(key, key): raw[key] for key in ("type", *_KEPT) if key in raw}
        if raw.get("type") == "array":
            converted["items"] = self.value(raw["items"], in_list=True)
        return converted if self.computed or raw.get("type") != "string" else plain(converted)

    def names(self, raw: Schema) -> Schema:
        """Return the schema of a mapping with the user's own keys."""
        ((pattern, below),) = raw["patternProperties"].items()
        named = {"pattern": pattern, **raw.get("propertyNames", {})}
        value = described(raw["description"], self.value(below))
        return {"type": "object", "propertyNames": named, "additionalProperties": value}

    def resolve(self, raw: Schema) -> Schema:
        """Return `raw` with its `$ref` resolved."""
        if "$ref" not in raw:
            return raw
        own = {key: value for key, value in raw.items() if key != "$ref"}
        return {**self.raw["$defs"][raw["$ref"].rpartition("/")[2]], **own}


def _join(kinds: list[Schema]) -> Schema:
    """Return one schema for all of `kinds`: with several types where possible, else with `anyOf`."""
    choices = [kind for kind in kinds if "enum" in kind]
    flat = [part for kind in kinds for part in kind.get("anyOf", [kind]) if "enum" not in part]
    choices += [part for kind in kinds for part in kind.get("anyOf", []) if "enum" in part]
    types = [name for kind in flat for name in _types(kind)]
    if "number" in types:
        types = [name for name in types if name != "integer"]
    texts = [kind for kind in flat if "string" in _types(kind)]
    joined = {key: value for kind in reversed(flat) for key, value in kind.items()}
    if texts:
        joined.pop("pattern", None)
        if all("pattern" in kind for kind in texts):
            joined["pattern"] = "|".join(dict.fromkeys(kind["pattern"] for kind in texts))
    if flat:
        names = list(dict.fromkeys(types))
        joined = {"type": names if len(names) > 1 else names[0], **{k: v for k, v in joined.items() if k != "type"}}
    alternatives = [*choices, *([joined] if flat else [])]
    return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}


def _alternatives(raw: Schema) -> list[Schema]:
    """Return the alternatives of a value; a discriminated union is `oneOf`."""
    alternatives: list[Schema] = raw.get("anyOf") or raw.get("oneOf") or [raw]
    return alternatives


def _types(kind: Schema) -> list[str]:
    types = kind.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def _without_text(schema: Schema) -> Schema:
    types = [name for name in _types(schema) if name != "string"]
    kept = {key: value for key, value in schema.items() if key not in ("pattern", "patternErrorMessage")}
    return {**kept, "type": types if len(types) > 1 else types[0]}


def _is_empty(raw: Schema) -> bool:
    """Whether the default of a setting is an empty list or mapping."""
    return raw.get("type") in ("object", "array") and "properties" not in raw


def _default_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
