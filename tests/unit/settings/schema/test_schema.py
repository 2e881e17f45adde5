"""The JSON Schemas: documented, up to date, and valid for exactly the valid inventories as far as a schema can tell."""

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as AbstractMapping
from pathlib import Path
from typing import Annotated, Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from jsonschema.exceptions import ValidationError
from pydantic import BaseModel, TypeAdapter

from tests.support.bad_files import INVENTORIES, PLAYBOOKS, expected
from tests.support.command_output import run_command
from tests.support.fast_yaml import read_yaml
from tests.support.generated_files import generated_files
from tests.support.paths import CASES, ROOT
from tfprov.errors import InvalidInput, Position
from tfprov.model import field_types
from tfprov.model.field_types import TextFormat
from tfprov.model.playbook import MODULE_KEYS, MODULES, Command, Stop, WaitFor
from tfprov.model.sections import (
    ArgName,
    ClusterName,
    EnvName,
    FlagName,
    FlagNames,
    Image,
    MountSetting,
    RenamedFlags,
    StrictModel,
)
from tfprov.model.settings import Settings
from tfprov.model.storage import Checkpoints, Data, DataSource
from tfprov.model.validators import InvalidValue
from tfprov.model.yaml_node import Items, Mapping, Node, Scalar, find, plain
from tfprov.paths import shipped_directory
from tfprov.settings.connection_vars import PARSERS
from tfprov.settings.pydantic_errors import to_flow_yaml
from tfprov.settings.role_settings import INTERPRETER
from tfprov.settings.schema.ansible_variables import VARIABLES
from tfprov.settings.schema.inventory_schema import inventory_schema, playbook_schema, variables_schema
from tfprov.settings.schema.reference_page import reference_page
from tfprov.settings.schema.settings_schema import arguments_schema, settings_schema
from tfprov.templating.host_values import is_template
from tfprov.wiring import FLAGS
from tfprov.yamltext.load import load_file, parse

MODELS: Sequence[type[BaseModel]] = (
    *(Settings, Image, Checkpoints, MountSetting, RenamedFlags, FlagNames, Data, DataSource),
    *(WaitFor, Stop, Command),
)
FIELDS = [(model, name) for model in MODELS for name in model.model_fields]
INSIDE: AbstractMapping[str, type[BaseModel]] = {
    "": Settings,
    ".image": Image,
    ".checkpoints": Checkpoints,
    ".mounts": MountSetting,
    ".wiring": RenamedFlags,
    ".wiring.flags": FlagNames,
    ".data": Data,
    ".data.fetch": DataSource,
}
UNITS = ("user that", "seconds", "port number", "tasks", "CPUs", "GPUs", "processes", "restarts", "units b, k, m and g")
"""What a number can count here; each numeric setting names one of them in its sentence."""

SCHEMAS: AbstractMapping[str, Any] = {
    "inventory": inventory_schema(),
    "variables": variables_schema(),
    "playbook": playbook_schema(),
}


def undocumented(model: type[BaseModel], name: str) -> Iterator[str]:
    """Yield what the documentation of a setting lacks."""
    field = model.model_fields[name]
    if not (field.description or "").endswith("."):
        yield "a sentence is missing"
    if not field.examples:
        yield "an example is missing"
    needed = {other: one.examples[0] for other, one in model.model_fields.items() if one.is_required() and one.examples}
    for one in field.examples or ():
        try:
            model.model_validate({**needed, field.alias or name: one})
        except ValueError as error:
            yield f"its example is wrong: {error}"
    is_optional = not field.is_required() and field.get_default(call_default_factory=True) is None
    if is_optional and "Default: " not in (field.description or ""):
        yield "nobody knows what holds without it"


def test_every_setting_is_documented() -> None:
    assert len(FIELDS) > 50
    lacks = [f"{model.__name__}.{name}: {what}" for model, name in FIELDS for what in undocumented(model, name)]
    assert lacks == []


def numeric(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, below in schema.get("properties", {}).items():
        types = [kind for one in below.get("anyOf", [below]) for kind in one.get("type", ())]
        if {"integer", "number"} & set(types):
            yield name, below
        yield from numeric(below)
        yield from numeric(below.get("items", {}))


ARGUMENTS = [entries for model in MODULES.values() for entries in numeric(arguments_schema(model))]
NUMBERS = dict([*numeric(settings_schema()), *ARGUMENTS])


def test_every_number_has_a_unit() -> None:
    schemas = NUMBERS | {"memory": settings_schema()["properties"]["memory"]}
    without = [name for name, one in schemas.items() if not any(unit in one["description"] for unit in UNITS)]
    assert without == []


def test_there_are_numbers() -> None:
    assert len(NUMBERS) >= 9


def test_every_connection_variable_is_documented() -> None:
    for name in (*PARSERS, "ansible_group_priority", INTERPRETER):
        one = VARIABLES[name]
        assert one.sentence.endswith("."), name
        assert one.default, name
        assert not list(Draft7Validator(one.schema).iter_errors(one.example)), name
        if name in PARSERS:
            PARSERS[name](name, one.example)
        if "maximum" in one.schema and "boolean" not in one.schema["type"]:
            assert any(unit in one.sentence for unit in UNITS), name


def test_every_documented_variable_is_read() -> None:
    assert VARIABLES.keys() == {*PARSERS, "ansible_group_priority", INTERPRETER}
    assert MODULE_KEYS.keys() == MODULES.keys()


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_schema_is_draft_7(name: str) -> None:
    Draft7Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$schema"] == "http://json-schema.org/draft-07/schema#"


def keys(schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every schema of a key in `schema`, at every level."""
    if isinstance(schema, list):
        for one in schema:
            yield from keys(one, path)
    if not isinstance(schema, dict):
        return
    for name, below in schema.items():
        if name == "properties":
            yield from ((f"{path}.{key}", one) for key, one in below.items())
            yield from (entries for key, one in below.items() for entries in keys(one, f"{path}.{key}"))
        elif name == "additionalProperties" and below is not False:
            yield f"{path}.*", below
            yield from keys(below, f"{path}.*")
        elif name not in ("examples", "default"):
            yield from keys(below, path)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_key_at_every_level_has_a_hover_text(name: str) -> None:
    entries = dict(keys(SCHEMAS[name]))
    assert len(entries) > (10 if name == "playbook" else 60)
    assert [key for key, schema in entries.items() if not schema.get("description", "").endswith(".")] == []
    assert [key for key, schema in entries.items() if not schema.get("markdownDescription")] == []


def test_every_setting_is_in_the_schema_with_its_default_and_an_example() -> None:
    entries = dict(keys(settings_schema()))
    for prefix, model in INSIDE.items():
        for name, field in model.model_fields.items():
            schema = entries[f"{prefix}.{name}"]
            assert schema["examples"] == field.examples
            if not field.is_required() and field.default_factory is None and "Default:" not in str(field.description):
                assert schema["default"] == field.default


def strict_models(model: type[BaseModel] = StrictModel) -> Iterator[type[BaseModel]]:
    for below in model.__subclasses__():
        yield below
        yield from strict_models(below)


def test_a_setting_that_may_be_null_is_null_by_default() -> None:
    fields = [(model, name, field) for model in strict_models() for name, field in model.model_fields.items()]
    optional = [one for one in fields if type(None) in get_args(one[2].annotation) and not one[2].is_required()]
    assert len(optional) > 30
    others = {f"{model.__name__}.{name}" for model, name, field in optional if field.default is not None}
    assert others == {f"FlagNames.{name}" for name in FLAGS}


def test_every_default_and_every_example_is_valid() -> None:
    annotated: Any = Annotated
    number = 0
    for field in (field for model in strict_models() for field in model.model_fields.values()):
        kind: Any = field.annotation
        for constraint in field.metadata:
            kind = annotated[kind, constraint]
        defaults = [] if field.is_required() or field.default_factory else [field.default]
        for value in (*defaults, *(field.examples or ())):
            TypeAdapter(kind).validate_python(value, strict=True)
            number += 1
    assert number > 100


def test_the_committed_schemas_are_those_of_the_models() -> None:
    """It is quick, so that the tests of a mutant begin with it; the next one compares the files byte by byte."""
    files = {"inventory": "inventory", "variables": "vars", "playbook": "playbook"}
    committed = {
        name: json.loads((ROOT / "schemas" / f"{file}.schema.json").read_bytes()) for name, file in files.items()
    }
    assert {name: committed[name] == schema for name, schema in SCHEMAS.items()} == dict.fromkeys(SCHEMAS, True)


def test_the_committed_copies_are_up_to_date() -> None:
    wrong = [path for path, text in generated_files() if not path.exists() or path.read_text() != text]
    assert wrong == [], "run `make schemas`"


def test_the_schemas_ship_with_tfprov() -> None:
    names = {path.name for path in shipped_directory("schemas").glob("*.json")}
    assert names == {"inventory.schema.json", "vars.schema.json", "playbook.schema.json", "events.schema.json"}
    included = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert included["force-include"]["schemas"] == "tfprov/schemas"


def test_the_page_calls_required_what_is_required() -> None:
    required = re.findall(r"^\| \[`(\w+)`\].*it is required \|$", reference_page(), re.MULTILINE)
    assert required == [name for name, field in Settings.model_fields.items() if field.is_required()]


def test_the_page_has_every_setting_with_a_yaml_example() -> None:
    page = (ROOT / "docs" / "inventory.md").read_text()
    assert page.count("```yaml\n") >= len(FIELDS) - 3
    for model in INSIDE.values():
        for name, field in model.model_fields.items():
            assert field.examples
            assert f"{name}: {to_flow_yaml(field.examples[0])}\n" in page
            assert read_yaml(f"{name}: {to_flow_yaml(field.examples[0])}") == {name: field.examples[0]}


@pytest.mark.parametrize(
    ("options", "name"), [((), "inventory"), (("--vars",), "variables"), (("--playbook",), "playbook")]
)
def test_the_command_prints_it(options: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = run_command(capsys, "inventory", "schema", *options)
    assert printed.code == 0
    assert read_yaml(printed.out) == SCHEMAS[name]


def test_two_schemas_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run_command(capsys, "inventory", "schema", "--vars", "--playbook")
    assert (printed.code, printed.out) == (2, "")
    assert list(printed.lines) == ["error: `--playbook` and `--vars` are two schemas; name one of them"]


# What is valid passes.

STRANGE = {"tfprov_in_one_place.yml": "ports"}
"""Inventories that have a `tfprov` of their own, and the key that tfprov does not know."""


def is_variables(path: Path) -> bool:
    return (
        bool({"group_vars", "host_vars", "extra_files"} & set(path.relative_to(CASES).parts))
        and path.name != "hosts.yml"
    )


def valid() -> Iterator[tuple[str, str, Any]]:
    """Yield the name, the kind and the content of everything that is valid."""
    for path in sorted([*(ROOT / "inventories").glob("*.yml"), *(ROOT / "playbooks").glob("*.yml")]):
        yield path.name, "playbook" if path.parent.name == "playbooks" else "inventory", plain(load_file(path))
    for path in sorted((CASES / "plan").glob("*.yml")):
        yield f"plan/{path.stem}", "inventory", read_yaml(path.read_text())["inventory"]
    for path in sorted((CASES / "inventory").rglob("*.yml")):
        try:
            content = plain(load_file(path))
        except InvalidInput:
            content = None  # nothing but comments: tested where these are read
        kind = "variables" if is_variables(path) else "inventory"
        if content is not None and path.name not in STRANGE:
            yield str(path.relative_to(CASES)), kind, content


VALIDATORS: AbstractMapping[str, Any] = {name: Draft7Validator(schema) for name, schema in SCHEMAS.items()}


def test_everything_valid_passes() -> None:
    cases = list(valid())
    assert len(cases) >= 200
    refused = {
        name: [error.message for error in VALIDATORS[kind].iter_errors(content)] for name, kind, content in cases
    }
    assert {name: messages for name, messages in refused.items() if messages} == {}


@pytest.mark.parametrize("name", STRANGE)
def test_a_tfprov_of_ones_own_does_not_pass(name: str) -> None:
    content = plain(load_file(CASES / "inventory" / name))
    assert STRANGE[name] in str([error.message for error in Draft7Validator(SCHEMAS["inventory"]).iter_errors(content)])


TEMPLATED = """
all:
  vars:
    ansible_port: "{{ port }}"
    ansible_become: "{{ root }}"
    tfprov:
      image: "{{ image }}"
      runtime: "{% if image %}docker{% else %}process{% endif %}"
      flags: {steps: "{{ steps }}"}
      port: "{{ base + 1 }}"
      gpus: "{{ gpus }}"
      allow_insecure_network: "{{ open }}"
      mounts: "{{ mounts }}"
      env: {TOKEN: "$ANSIBLE_VAULT;1.1;AES256\\n6231"}
      memory: "{{ memory }}g"
      checkpoints: {dir: "{{ where }}"}
"""


def test_templates_and_encrypted_values_pass() -> None:
    content = read_yaml(TEMPLATED)
    assert [error.message for error in Draft7Validator(SCHEMAS["inventory"]).iter_errors(content)] == []


# What is not valid does not pass, at the line at which tfprov itself tells it.

BEYOND: AbstractMapping[str, Sequence[str]] = {
    "an editor reads YAML 1.2, in which it is text": [r"is read by YAML as"],
    "what other settings say": [
        r"^`(image|wiring)` differs between ",
        r"^`(cluster|runtime|strategy|wiring)` is `\w+` for ",
        r"^`\w+` is for `runtime: (docker|process)`",
        r"^`restart_on` needs a file system that can be written to",
        r"^`serving.model_base_path`: the server of tfprov reads a directory",
        r"^`command` has the value of the secret `env.API_KEY`",
        r"^`deliver.\w+` is for images that this machine delivers",
        r"^`checkpoints.link` needs a working directory",
        r"^`image.\w+` is for an image that is built",
        r"^`image` (needs one|has both|has all) of|^`image` has both",
        r"^`data` (needs one of|has both) ",
        r"^`data.fetch` has two files called ",
        r"^`restart_on` and `no_restart_on` both have ",
        r"^`notify\[\d\]` (needs one of|has both) ",
        r"^`notify\[\d\].command` cannot be split into words",
        r"^`runtime: docker` needs an `image`",
        r"^`cluster` is missing under `tfprov:`",
        r"^`command` is missing for the role",
        r"^`\w+` stands beside `tfprov:`",
        r"^no settings: nothing is called `tfprov`",
        r"^`(bind: 0.0.0.0` is for|network: host` opens ports in) all networks",
        r" overlaps the (code|checkpoints|data) in ",
        r"^`mounts\[\d\].target` is `.*` a second time",
        r"has more worker tasks than ports above `port`",
        r"^`--(task_index|job_name|job|index)` is set by tfprov",
        r"^`flags.\w+` is set by tfprov",
        r"^`wiring.flags.\w+` repeats the name `--hosts`",
        r"^`wiring: flags` cannot name the chief",
        r"^(the default )?`strategy: \w+` (needs|has no|trains in|with)",
    ],
    "what other groups and hosts say": [
        r"^(more than one \w+ task|no worker and no chief|`ps` without a worker)",
        r"^no hosts?( has a role)?;",
        r"^the group `\w+` (is not a role|has no hosts)",
        r"^`(dispatcher|data_worker)` without a ",
        r"^`data_service` is a service outside of the cluster, and the group ",
        r"^a ps does not use a GPU",
        r"^the evaluator is on other, and cannot read the chief's checkpoints",
        r"^group `\w+` (cannot be|is) a child of",
        r"^a group cannot be its own child",
        r"^`image.build_on`: no host ",
        r"^node2 has the address and the SSH port of node1",
    ],
    "where a host is": [
        r"^tasks in containers cannot reach ",
        r"^`data.path` must be an absolute path: it is one of",
        r"is reached over SSH, and `runtime: process`",
        r"^the address of (node1|höst) must be",
    ],
    "what files there are": [
        r"does not exist|is not a file;|is not a directory;|is a public key|cannot be read|is a directory, not a file",
        r"nowhere is not a directory on this machine",
        r"No such file or directory",
        r"^`image.build`: \S+ has no \S*Dockerfile",
        r" imports itself;",
    ],
    "names are free for hosts and groups that are not tfprov's": [
        r"^(host|group) name `.*` is (not valid|read by YAML)",
        r"^(unbalanced brackets|both ends of|the step of) ",
        r"^`\[.*\]` (is not a range|counts backwards|must count from|stands for)",
        r"^`.*\].*` stands for .* hosts",
        r"^`ansible_port` must be a port from 1 to 65535, not `70000`",
    ],
    "variables of Ansible's that hosts of other kinds may have": [
        r"^unknown variable `ansible_\w+`",
        r"^`ansible_(connection|become_method|become_user): \w+` is not supported",
    ],
    "what a text says": [
        r"^`ansible_ssh_\w*args` (has|holds|names) ",
        r"^`command` must begin with a program",
        r"^`command`: no closing quotation",
        r"^`data.fetch` has an address that ends ",
        r"^`data.fetch\[\d\].url` must name a host, and a port that can be",
        r"^`(memory|shm_size)` must be at (least 6m|most 1048576g)",
        r"^`image.name` must be at most 255 characters",
        r"must be a whole number, not `\d+\.0`",
    ],
    "which keys and steps of a play exclude each other": [
        r"^`(gather|wait: \{for: done\})` in a play with `serial`",
        r"^`max_fail_percentage` in a play with `always`",
    ],
    "what an imported playbook says": [
        r"^no module `strat`",
        r"^`wait` must be a mapping, not `1`",
        r"^a playbook must be a list",
    ],
}
"""What a schema cannot know, by the beginning of its message; nothing else may pass."""


def positions(error: ValidationError, document: Node) -> Iterator[Position]:
    """Yield where `error` is: at a value, its key, or a key that should not be there."""
    path = list(error.absolute_path)
    node, at = find(document, path)
    yield from (at, node.at)
    allowed = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
    if "propertyNames" in error.absolute_schema_path:
        yield find(document, [*path, str(error.instance)])[1]
    elif error.validator in ("additionalProperties", "oneOf"):
        odd = error.validator == "oneOf"  # two modules in a step: each is one too many
        yield from (
            find(document, [*path, key])[1] for key in getattr(node, "entries", ()) if odd or key not in allowed
        )
    for inner in error.context or ():
        yield from positions(inner, document)


def templates(node: Node) -> Iterator[Position]:
    """Yield the places of all templates, and of the keys before them."""
    if isinstance(node, Mapping):
        for key, below in node.entries.items():
            yield from ((node.key_at(key), below.at) if isinstance(below, Scalar) and is_template(below.data) else ())
            yield from ([node.key_at(key)] if is_template(key) else ())
            yield from templates(below)
    elif isinstance(node, Items):
        for below in node.items:
            yield from ([below.at] if isinstance(below, Scalar) and is_template(below.data) else templates(below))


def unrejected(case: Path, kind: str, document: Node) -> list[str]:
    """Return the lines of a case that the schema has nothing against, but for what comes of templates."""
    errors = VALIDATORS[kind].iter_errors(plain(document))
    places = {str(at) for error in errors for at in positions(error, document)} | set(map(str, templates(document)))
    lines = (line.partition(": error: ") for line in expected(case))
    return [what for at, _, what in lines if at not in places]


def reasons(what: str) -> list[str]:
    return [one for entries in BEYOND.values() for one in entries if re.search(one, what)]


def documents(cases: Sequence[Path]) -> Iterator[tuple[Path, Node]]:
    """Yield the cases that are YAML, with what is in them."""
    for case in cases:
        try:
            document = parse(case.read_bytes(), case.name)
        except InvalidInput:
            continue
        if document:
            yield case, document


@pytest.fixture(scope="module")
def wrong() -> AbstractMapping[str, AbstractMapping[Path, list[str]]]:
    """What the schemas let pass of each wrong file, by its kind."""
    return {
        kind: {case: unrejected(case, kind, document) for case, document in documents(cases)}
        for kind, cases in (("inventory", INVENTORIES), ("playbook", PLAYBOOKS))
    }


@pytest.mark.parametrize(("kind", "least"), [("inventory", 200), ("playbook", 50)])
def test_a_value_that_is_invalid_by_itself_does_not_pass(
    wrong: AbstractMapping[str, AbstractMapping[Path, list[str]]], kind: str, least: int
) -> None:
    assert len(wrong[kind]) >= least
    unexcused = {case.name: [what for what in lines if not reasons(what)] for case, lines in wrong[kind].items()}
    assert {case: lines for case, lines in unexcused.items() if lines} == {}


def test_every_exception_is_needed(wrong: AbstractMapping[str, AbstractMapping[Path, list[str]]]) -> None:
    used = {one for cases in wrong.values() for lines in cases.values() for what in lines for one in reasons(what)}
    assert [one for entries in BEYOND.values() for one in entries if one not in used] == []


def test_most_invalid_inventories_do_not_pass(wrong: AbstractMapping[str, AbstractMapping[Path, list[str]]]) -> None:
    inventories = wrong["inventory"]
    lines = sum(len(expected(case)) for case in inventories)
    assert lines - sum(map(len, inventories.values())) >= 350


# The patterns of the schema and the checks behind them.

FORMS = {name: one for name, one in vars(field_types).items() if isinstance(one, TextFormat)}
NAMES = {"cluster": ClusterName, "flag": FlagName, "env": EnvName, "argument": ArgName}
FORMS |= {name: get_args(one)[1] for name, one in NAMES.items()}
PARTS = [
    *"/.:@~-_ \nA0", "..", "/etc", "/home", "/code", "host", "10.0.0.1", "0.0.0.0", "255", "224.0.0.1", "train", ":1.0",
    "localhost:5000/", "@sha256:" + 64 * "a", "6m", "4g", ".5", "TF_CONFIG", "TFPROV_A", "task_index", "file", "ü", "[::1]",
]  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
@given(text=st.lists(st.sampled_from(PARTS), max_size=5).map("".join) | st.text(max_size=8))
@example(text="/...")
@example(text="/./home/.x")
def test_a_text_that_passes_a_check_matches_its_pattern(name: str, text: str) -> None:
    form = FORMS[name]
    try:
        form.check(field_types.LINE.check(text))
    except InvalidValue:
        return
    assert re.search(form.pattern, text)


def test_a_pattern_is_valid_in_javascript() -> None:
    other = r"\(\?(?![:!=])|\\[AZzdDwWbB]|\(\?<|[*+?}]\+"
    assert len(FORMS) > 10
    assert {name: form.pattern for name, form in FORMS.items() if re.search(other, form.pattern)} == {}
