"""Whatever the file says: an inventory is good, or every problem in it has its place and one line."""

import contextlib
import string
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tfprov.config.ansible_values import READERS
from tfprov.config.load import extra_vars, load
from tfprov.config.patterns import match
from tfprov.config.playbooks import read_playbook
from tfprov.config.ranges import RangeError, expand
from tfprov.config.syntax import BREAK
from tfprov.errors import InvalidInput, Usage
from tfprov.model.inventory import ROLES
from tfprov.model.playbook import MODULES
from tfprov.model.settings import Checkpoints, Image, MountSetting, Settings
from tfprov.planning.desired import desired
from tfprov.planning.place import place

INVENTORY = """\
all:
  vars: &v
    root: /data
    ansible_user: trainer
    ansible_become: yes
    ansible_ssh_common_args: -J gate@bastion:2200 -o StrictHostKeyChecking=accept-new
    tfprov:
      cluster: linear
      image: {build: ../images/train, dockerfile: Dockerfile, build_args: {A: 1}, build_on: node1}
      memory: 4g
      gpus: all
      mounts: [{source: /data, target: /data, read_only: true}]
      code: ../programs
      command: [python, linear.py, "--data={{ root }}/{{ task.name }}"]
      flags: {train_steps: 2000, rate: 0.10, verbose: }
      env: {A: "{{ checkpoint_dir }}"}
      checkpoints: {dir: /checkpoints, to: ./checkpoints}
      port: "{{ 22220 + 2 }}"
  children:
    ps: {hosts: {"node[1:2]": {ansible_host: 10.0.0.1, ansible_port: 22}}}
    worker:
      hosts: {node3: {ansible_connection: local}}
      vars: {tfprov: {tasks_per_host: 2}}
"""
PLAYBOOK = """\
- name: up
  hosts: all
  tags: [a]
  tasks:
    - build:
    - start:
      when: ps
    - wait: {for: serving, timeout: 30}
    - command: echo 'two words'
    - stop: {tasks: worker/0, remove: true}
- import_playbook: nosuch.yml
"""
MARKS = [
    *"\t\r\n\0\x1b\x85\u2028\ufeff \"'`{}[]:,-#&*!|>%@?~<=",
    "{{",
    "}}",
    "{%",
    "%}",
    "<<: ",
    "- ",
    ": ",
    "!!",
    "é",
    "😀",
]
WORDS = [
    *ROLES, *MODULES, *Settings.model_fields, *Checkpoints.model_fields, *Image.model_fields,
    *MountSetting.model_fields, *READERS, "/code", "0.0.0.0", "127.0.0.1", "docker", "4g",
    "all", "hosts", "children", "vars", "tfprov",
    "localhost", "node[1:3]", "node[", "ansible_group_priority",
    "local", "ssh", "NO", "22:22", "012", "2026-01-01", "{{ x }}", "{{ tfprov.port }}", "{{ [1] * 9 }}", "{% if %}",
    "{{ ''.__class__ }}", "{{ task.index }}", "name", "when", "tags", "tasks", "import_playbook", "argv", "for", "-", "",
]  # fmt: skip

EXAMPLES = settings(max_examples=150)


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def check(error: InvalidInput, path: Path) -> None:
    """Every problem has a place in a file there is, says what is wrong and what to do, and takes one line."""
    lines = BREAK.split(path.read_bytes().decode("utf-8", errors="replace"))
    assert error.problems
    for problem in error.problems:
        said = str(problem)
        assert said.isprintable(), said
        assert len(said) < 1000, said
        assert problem.what, said
        assert problem.fix, said
        assert problem.at.file == str(path), said
        assert 0 <= problem.at.line <= len(lines), said
        assert problem.at.column <= max(map(len, lines), default=0) + 1, said


def try_inventory(content: bytes, directory: Path) -> None:
    path = directory / "inventory.yml"
    path.write_bytes(content)
    try:
        _, roles = load(path)
        cluster = place(roles)
        containers = desired(cluster, roles, {}, lambda task: f"/checkpoints/{task.name}")
    except InvalidInput as error:
        check(error, path)
    else:
        assert len(containers) == len(cluster.tasks)


def try_playbook(content: bytes, directory: Path) -> None:
    path = directory / "playbook.yml"
    path.write_bytes(content)
    try:
        read_playbook(path)
    except InvalidInput as error:
        check(error, path)


@st.composite
def mutated(draw: st.DrawFn, text: str) -> bytes:
    """Return `text` after a few accidents at the keyboard."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(st.sampled_from([*MARKS, *WORDS, text[start:end] * 2])) + text[end:]
    return text.encode()


SCALARS = st.one_of(
    st.sampled_from(WORDS), st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.dates()
)
NAMES = st.one_of(st.sampled_from(WORDS), st.text(string.printable, max_size=5))
TREES = st.recursive(
    SCALARS,
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(NAMES, below, max_size=4)),
    max_leaves=15,
)


def grown(fields: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: st.one_of(TREES, st.just(good)) for name, good in fields.items()})


GROUPS = st.fixed_dictionaries(
    {"hosts": st.one_of(st.dictionaries(NAMES, TREES, max_size=2), st.just({"localhost": None}))}
)
ALMOST = st.builds(
    lambda tfprov, groups, variables: {"all": {"vars": {**variables, "tfprov": tfprov}, "children": groups}},
    grown(
        {
            "cluster": "linear", "command": ["python"], "flags": {"a": 1}, "env": {"A": "1"}, "port": 2222, "code": ".",
            "checkpoints": {"to": "."}, "tasks_per_host": 2, "address": "10.0.0.1", "wiring": "tf_config",
            "image": {"name": "train"}, "runtime": "docker", "mounts": [{"source": "/a", "target": "/b"}], "gpus": "all",
            "memory": "4g", "cpus": 2.5, "bind": "0.0.0.0", "allow_insecure_network": True, "pids": 100,
        }
    ),
    st.dictionaries(st.sampled_from(ROLES), GROUPS, min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(["x", "tfprov", *READERS]), TREES, max_size=2),
)  # fmt: skip


def as_yaml(data: Any) -> bytes:
    return yaml.safe_dump(data, allow_unicode=True, sort_keys=False).encode("utf-8", errors="replace")


SCRIBBLES = st.lists(st.sampled_from([*MARKS, "a", "b", "1"]), max_size=30).map("".join)


@EXAMPLES
@given(content=st.one_of(st.binary(max_size=40), st.text(max_size=40).map(str.encode), SCRIBBLES.map(str.encode)))
def test_any_bytes(directory: Path, content: bytes) -> None:
    try_inventory(content, directory)
    try_playbook(content, directory)


@EXAMPLES
@given(content=mutated(INVENTORY))
def test_an_inventory_after_an_accident(directory: Path, content: bytes) -> None:
    try_inventory(content, directory)


@EXAMPLES
@given(content=mutated(PLAYBOOK))
def test_a_playbook_after_an_accident(directory: Path, content: bytes) -> None:
    try_playbook(content, directory)


@EXAMPLES
@given(tree=TREES)
def test_any_tree(directory: Path, tree: Any) -> None:
    try_inventory(as_yaml(tree), directory)
    try_playbook(as_yaml([tree]), directory)


@EXAMPLES
@given(tree=ALMOST)
def test_what_is_almost_an_inventory(directory: Path, tree: Any) -> None:
    try_inventory(as_yaml(tree), directory)


@EXAMPLES
@given(options=st.lists(st.one_of(NAMES, st.text(max_size=8), st.builds("{}={}".format, NAMES, NAMES)), max_size=3))
def test_any_variables(options: list[str]) -> None:
    said = ""
    try:
        extra_vars([option for option in options if not option.startswith("@")])
    except InvalidInput as error:
        said = str(error)
    assert all(line.startswith("-e") and line.isprintable() for line in said.split("\n") if said)


@EXAMPLES
@given(pattern=st.text([*"abnodeps12~[]:,!&*?(){}|^$.-\\ \n", "²"], max_size=8))
def test_any_pattern_and_any_range(directory: Path, pattern: str) -> None:
    path = directory / "good.yml"
    path.write_text(INVENTORY.replace("10.0.0.1, ansible_port", "'10.0.0.{{ inventory_hostname[-1] }}', ansible_port"))
    with contextlib.suppress(Usage):
        assert set(match(load(path)[0], pattern)) <= {"node1", "node2", "node3"}
    with contextlib.suppress(RangeError):
        assert expand(pattern)
