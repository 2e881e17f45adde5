"""JSON Schema, draft 7, of YAML inventories, vars files and playbooks: editors complete, explain and check with it.

It checks single keys and values. Only tfprov itself checks what depends on other values, files or templates.
"""

from typing import Any

from tfprov.model.inventory import NAMESPACE, ROLES
from tfprov.model.playbook import IMPORT, IMPORT_KEYS, MODULE_KEYS, MODULES, PLAY_KEYS, STEP_KEYS, KeyDoc
from tfprov.settings.schema.ansible_variables import VARIABLES
from tfprov.settings.schema.settings_schema import Schema, arguments_schema, computed, described, plain, settings_schema

DRAFT = "http://json-schema.org/draft-07/schema#"

ROLE_SENTENCES = {
    "ps": "The hosts of parameter servers, which hold the variables.",
    "chief": "The host of the chief, which initialises the variables and saves checkpoints. Default: the first worker.",
    "worker": "The hosts of workers, which compute. Without a group `chief`, worker 0 is the chief.",
    "evaluator": "The host of an evaluator, which reads the chief's checkpoints: the chief's host.",
    "tensorboard": "The host of a TensorBoard, which reads the chief's event files: the chief's host.",
    "serving": "The host of a model server, which loads the newest model that the chief exported: the chief's host.",
    "notebook": "The host of a Jupyter notebook, which reads the chief's files: the chief's host.",
    "dispatcher": "The host of the dispatcher of tf.data's service, which distributes the data among the data workers.",
    "data_worker": "The hosts of data workers, which read and prepare data for the training tasks.",
}
SECTION_SENTENCES = {
    "hosts": "The hosts of this group: names, or ranges such as `node[1:3]`, each followed by `:`.",
    "children": "The child groups: their hosts are also hosts of this group.",
    "vars": "Variables of all hosts in this group; variables of child groups and of hosts override them.",
}
_SETTINGS = "The settings of tfprov, merged key by key: child groups override their parents, hosts override groups."
_HOST = "A host and its variables."
_OWN = "A variable of your own: templates use it as `{{ name }}`."
_GROUP = "A group of hosts."
_ALL = "The group of all hosts."
_MISPLACED = {
    "hosts": "It belongs under the name of a group, such as `worker:`.",
    "children": "It belongs under `all:`.",
    "vars": "It belongs under `all:`.",
    NAMESPACE: "It belongs under `all:`, `vars:`.",
    "_meta": "It belongs into the output of an inventory script.",
}


def inventory_schema() -> Schema:
    """Return the schema of an inventory in YAML."""
    groups = {name: described(sentence, _ref("group")) for name, sentence in ROLE_SENTENCES.items()}
    children: Schema = {
        "type": ["object", "null", "string"],
        "properties": groups,
        "additionalProperties": described(_GROUP, _ref("group")),
    }
    hosts = {
        "type": ["object", "null", "string"],
        "additionalProperties": described(_HOST, _ref("variables")),
    }
    below = {"hosts": hosts, "children": children, "vars": _ref("variables")}
    sections = {name: described(SECTION_SENTENCES[name], schema) for name, schema in below.items()}
    return _document(
        "Hosts, groups and variables as in Ansible; the settings of tfprov are under `tfprov:`.",
        {
            "type": "object",
            "minProperties": 1,
            "properties": {
                "all": described(_ALL, _ref("group")),
                **groups,
                **{
                    name: described(sentence, {"not": {}, "doNotSuggest": True})
                    for name, sentence in _MISPLACED.items()
                },
            },
            "additionalProperties": described(_GROUP, _ref("group")),
            "definitions": {
                "group": {"type": ["object", "null"], "additionalProperties": False, "properties": sections},
                "variables": _variables(),
            },
        },
    )


def variables_schema() -> Schema:
    """Return the schema of a file in `group_vars/` or `host_vars/`, or behind `-e @`."""
    sentence = "Variables as in Ansible; the settings of tfprov are under `tfprov:`."
    return _document(sentence, _variables())


def _document(sentence: str, schema: Schema) -> Schema:
    """Return the schema of a file, without a title: editors would show it above every hover text."""
    return {"$schema": DRAFT, "description": sentence, **schema}


def _variables() -> Schema:
    """Return the schema of variables: the user's own, Ansible's, and `tfprov`."""
    ansible = {
        name: described(
            variable.sentence, computed(variable.schema), examples=[variable.example], default=variable.default
        )
        for name, variable in VARIABLES.items()
    }
    own: dict[str, Any] = {"description": _OWN, "markdownDescription": _OWN}
    return {
        "type": ["object", "null"],
        "properties": {NAMESPACE: described(_SETTINGS, settings_schema()), **ansible},
        "additionalProperties": own,
    }


def _ref(name: str) -> Schema:
    return {"allOf": [{"$ref": f"#/definitions/{name}"}]}  # beside a bare `$ref`, draft 7 ignores the hover text


_TEXT = plain({"type": "string", "minLength": 1})
_TAGS: Schema = {"anyOf": [_TEXT, {"type": "array", "minItems": 1, "items": _TEXT}]}
_ROLE: Schema = {"enum": list(ROLES)}
_WHEN: Schema = {"anyOf": [_ROLE, {"type": "array", "minItems": 1, "items": _ROLE}]}
_SIZE: Schema = {
    "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^0*([1-9][0-9]*|([1-9][0-9]?|100)%)$"}]
}
_SERIAL: Schema = {"anyOf": [*_SIZE["anyOf"], {"type": "array", "minItems": 1, "items": _SIZE}]}
_SHARE: Schema = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": 100},
        {"type": "string", "pattern": "^0*([0-9]{1,2}(\\.[0-9]+)?|100(\\.0+)?)%?$"},
    ]
}
_COMMON: Schema = {"name": _TEXT, "when": _WHEN, "tags": _TAGS}


def playbook_schema() -> Schema:
    """Return the schema of a playbook: a list of plays, and of imports of others."""
    tasks = {"type": "array", "minItems": 1, "items": _step()}
    play = {
        **_COMMON,
        "hosts": _TEXT,
        "tasks": tasks,
        "serial": _SERIAL,
        "max_fail_percentage": _SHARE,
        "always": {"type": "boolean"},
    }
    return {
        "$schema": DRAFT,
        "description": "Plays, in order; the keys are Ansible's, the modules tfprov's.",
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "additionalProperties": False,
            "properties": {**_with_docs({**play, IMPORT: _TEXT}, IMPORT_KEYS), **_with_docs(play, PLAY_KEYS)},
            "if": {"required": [IMPORT]},
            "then": {"propertyNames": {"enum": list(IMPORT_KEYS)}},
            "else": {"required": ["hosts", "tasks"]},
        },
    }


def _step() -> Schema:
    """Return the schema of a step: a mapping with one module, or the bare name of one that needs no arguments."""
    modules = {name: _arguments(name) for name in MODULES}
    alone = [name for name, schema in modules.items() if "null" in schema["type"]]
    written_out = {
        "type": "object",
        "additionalProperties": False,
        "oneOf": [{"required": [name]} for name in MODULES],
        "properties": {**_with_docs(_COMMON, STEP_KEYS), **_with_docs(modules, MODULE_KEYS)},
    }
    return {"anyOf": [written_out, {"enum": alone}]}


def _arguments(module: str) -> Schema:
    """Return the schema of a module's arguments; null is allowed where none are required."""
    schema = arguments_schema(MODULES[module])
    if "required" not in schema:
        return {**schema, "type": ["object", "null"]}
    return {**schema, "type": ["object", "string"], **{k: v for k, v in _TEXT.items() if k != "type"}}


def _with_docs(schemas: Schema, keys: dict[str, KeyDoc]) -> Schema:
    examples = {name: [] if key.example is None else [key.example] for name, key in keys.items()}
    return {name: described(keys[name].sentence, schemas[name], examples=examples[name]) for name in keys}
