"""JSON Schema, draft 7, of a playbook."""

from tfprov.config.schema.inventory import DRAFT
from tfprov.config.schema.settings import Schema, arguments_schema, described, plain
from tfprov.model.inventory import ROLES
from tfprov.model.playbook import IMPORT, IMPORT_KEYS, MODULE_KEYS, MODULES, PLAY_KEYS, STEP_KEYS, Key

_TEXT = plain({"type": "string", "minLength": 1})
_TAGS: Schema = {"anyOf": [_TEXT, {"type": "array", "minItems": 1, "items": _TEXT}]}
_ROLE: Schema = {"enum": list(ROLES)}
_WHEN: Schema = {"anyOf": [_ROLE, {"type": "array", "minItems": 1, "items": _ROLE}]}
_COMMON: Schema = {"name": _TEXT, "when": _WHEN, "tags": _TAGS}


def playbook_schema() -> Schema:
    """Return the schema of a playbook: a list of plays, and of imports of others."""
    tasks = {"type": "array", "minItems": 1, "items": _step()}
    play = {**_COMMON, "hosts": _TEXT, "tasks": tasks, "always": {"type": "boolean"}}
    return {
        "$schema": DRAFT,
        "description": "Plays, in order; the keys are Ansible's, and the modules a closed set.",
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "additionalProperties": False,
            "properties": {**_with_text({**play, IMPORT: _TEXT}, IMPORT_KEYS), **_with_text(play, PLAY_KEYS)},
            "if": {"required": [IMPORT]},
            "then": {"propertyNames": {"enum": list(IMPORT_KEYS)}},
            "else": {"required": ["hosts", "tasks"]},
        },
    }


def _step() -> Schema:
    """Return the schema of a step: a mapping with one module, or just the name of one that needs no arguments."""
    modules = {name: _arguments(name) for name in MODULES}
    alone = [name for name, schema in modules.items() if "null" in schema["type"]]
    written_out = {
        "type": "object",
        "additionalProperties": False,
        "oneOf": [{"required": [name]} for name in MODULES],
        "properties": {**_with_text(_COMMON, STEP_KEYS), **_with_text(modules, MODULE_KEYS)},
    }
    return {"anyOf": [written_out, {"enum": alone}]}


def _arguments(module: str) -> Schema:
    """Return what stands behind a module's name; one that needs no arguments can do without."""
    found = arguments_schema(MODULES[module])
    if "required" not in found:
        return {**found, "type": ["object", "null"]}
    return {**found, "type": ["object", "string"], **{k: v for k, v in _TEXT.items() if k != "type"}}


def _with_text(schemas: Schema, keys: dict[str, Key]) -> Schema:
    examples = {name: [] if key.example is None else [key.example] for name, key in keys.items()}
    return {name: described(keys[name].sentence, schemas[name], examples=examples[name]) for name in keys}
