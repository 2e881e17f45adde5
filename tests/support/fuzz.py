"""Fuzz every input format: each input is accepted, or refused with one line per error.

A test tries each attempt for a second or two; `python -m bench.fuzz` tries them for as long as one likes.
"""

import contextlib
import json
import shutil
import string
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from tfprov.errors import InvalidInput, Usage
from tfprov.inventory.host_names import RangeError, expand
from tfprov.inventory.host_patterns import match_hosts
from tfprov.model.inventory import ROLES
from tfprov.model.playbook import MODULES
from tfprov.model.sections import (
    FlagNames,
    Image,
    MountSetting,
    RenamedFlags,
)
from tfprov.model.settings import Settings
from tfprov.model.storage import Checkpoints, Data
from tfprov.planning.desired import desired_containers
from tfprov.planning.tasks import assign_tasks
from tfprov.playbook.parse import read_playbook
from tfprov.settings.connection_vars import PARSERS
from tfprov.settings.load import load, parse_extra_vars
from tfprov.vault.decrypt import Vault
from tfprov.vault.redaction import KeyedHash
from tfprov.yamltext.syntax_errors import BREAK

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
INI = """\
[ps]
node1 ansible_host=10.0.0.1 ansible_port=22 motd="it's fine"
[worker]
node[2:3] ansible_connection=local   # two
[train:children]
ps
worker
[train:vars]
ansible_user=trainer
sizes=[1, 2]
tfprov={'cluster': 'linear', 'command': ['python', 'linear.py'], 'image': {'name': 'train'}, 'port': 2222}
"""
VARIABLES = """\
root: /data
steps: "{{ 10 * 2 }}"
ansible_user: trainer
tfprov:
  flags: {train_steps: "{{ steps }}", rate: 0.10}
  env: {TOKEN: !unsafe "{{", HOME: "{{ root }}"}
  checkpoints: {to: ./checkpoints}
  port: 2222
"""
MARKS = [
    *"\t\r\n\0\x1b\x85\u2028\ufeff \"'`{}[]:,-#&*!|>%@?~<=",
    "$ANSIBLE_VAULT;1.1;AES256\n",
    "!vault ",
    "!unsafe ",
    "[worker:vars]\n",
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
    *MountSetting.model_fields, *Data.model_fields, *RenamedFlags.model_fields, *FlagNames.model_fields, *PARSERS,
    "/code", "0.0.0.0", "127.0.0.1", "docker", "4g",
    "all", "hosts", "children", "vars", "tfprov",
    "localhost", "node[1:3]", "node[", "ansible_group_priority",
    "local", "ssh", "NO", "22:22", "012", "2026-01-01", "{{ x }}", "{{ tfprov.port }}", "{{ [1] * 9 }}", "{% if %}",
    "{{ ''.__class__ }}", "{{ task.index }}", "name", "when", "tags", "tasks", "import_playbook", "argv", "for", "-", "",
]  # fmt: skip


def size_of(text: str) -> tuple[int, int]:
    """Return how many lines a text has and how long they are; an INI file ends them at a form feed as well, as Ansible."""
    lines = BREAK.split(text)
    return max(len(lines), len(text.splitlines())), max(map(len, lines))


def check(error: InvalidInput, paths: Iterable[Path]) -> None:
    """Every problem has a place in a file or an option there is, says what is wrong and what to do, and takes one line."""
    sizes = {str(path): size_of(path.read_bytes().decode("utf-8", errors="replace")) for path in paths}
    assert error.problems
    for problem in error.problems:
        message = str(problem)
        assert message.isprintable(), message
        assert len(message) < 1000, message
        assert problem.what, message
        assert problem.fix, message
        if problem.at.file.startswith(("-e", "-i")):
            continue
        assert problem.at.file in sizes, message
        count, width = sizes[problem.at.file]
        assert 0 <= problem.at.line <= count, message
        assert problem.at.column <= width + 1, message


def try_sources(
    files: dict[str, bytes], directory: Path, sources: Sequence[str] = ("inventory.yml",), extra: Sequence[str] = ()
) -> None:
    """Read `sources` among `files` in an otherwise empty directory."""
    shutil.rmtree(directory, ignore_errors=True)
    paths = [directory / name for name in files]
    for path, content in zip(paths, files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    try:
        _, roles = load([str(directory / source) for source in sources], extra, Vault())
        cluster = assign_tasks(roles)
        containers = desired_containers(
            cluster, roles, {}, lambda task: f"/checkpoints/{task.name}", hashed=KeyedHash(lambda: b"")
        )
    except InvalidInput as error:
        check(error, paths)
    else:
        assert len(containers) == len(cluster.tasks)


def try_inventory(content: bytes, directory: Path) -> None:
    try_sources({"inventory.yml": content}, directory)


def try_playbook(content: bytes, directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    path = directory / "playbook.yml"
    path.write_bytes(content)
    try:
        read_playbook(path)
    except InvalidInput as error:
        check(error, [path])


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
    st.dictionaries(st.sampled_from(["x", "tfprov", *PARSERS]), TREES, max_size=2),
)  # fmt: skip


def as_yaml(data: Any) -> bytes:
    return yaml.safe_dump(data, allow_unicode=True, sort_keys=False).encode("utf-8", errors="replace")


SCRIBBLES = st.lists(st.sampled_from([*MARKS, "a", "b", "1"]), max_size=30).map("".join)


ANYTHING = st.one_of(st.binary(max_size=40), st.text(max_size=40).map(str.encode), SCRIBBLES.map(str.encode))
KINDS = st.sampled_from(
    ["inventory.yml", "hosts", "hosts.ini", "hosts.json", "group_vars/worker", "host_vars/node3.yml"]
)
GOOD = INVENTORY.encode()
SHORT = {"all": {"vars": {"tfprov": {"cluster": "linear", "command": ["python"], "image": {"name": "train"}}}}}
JSON = json.dumps(
    {**SHORT, "worker": {"hosts": {"node1": None, "node[2:3]": {"ansible_port": 22, "a": [1, 2.5, True]}}}}
)
SETTINGS = [
    "tfprov",
    "port",
    "flags",
    "env",
    "image",
    "build",
    "name",
    "mounts",
    "checkpoints",
    "dir",
    "A",
    "ansible_host",
]
PATHS = st.lists(st.one_of(st.sampled_from(SETTINGS), NAMES), min_size=1, max_size=4).map(".".join)
OPTIONS = st.builds("{}={}".format, PATHS, st.one_of(NAMES, st.text(max_size=8), TREES.map(str)))


def any_bytes(content: bytes, directory: Path) -> None:
    try_inventory(content, directory)
    try_playbook(content, directory)


def any_tree(tree: Any, directory: Path) -> None:
    try_inventory(as_yaml(tree), directory)
    try_playbook(as_yaml([tree]), directory)


def any_source(drawn: tuple[str, bytes], directory: Path) -> None:
    """Bytes in a source of any kind, with a good inventory around them where they are variables."""
    name, content = drawn
    source = "inventory.yml" if "_vars" in name else name
    try_sources({"inventory.yml": GOOD, name: content}, directory, [source])


def ini(content: bytes, directory: Path) -> None:
    try_sources({"hosts": content}, directory, ["hosts"])


def in_json(content: bytes, directory: Path) -> None:
    try_sources({"hosts.json": content}, directory, ["hosts.json"])


def beside(drawn: tuple[bytes, bytes], directory: Path) -> None:
    """Variables of a group and of a host, each in a file of its own."""
    files = {"inventory.yml": GOOD, "group_vars/worker.yml": drawn[0], "host_vars/node3/a.yml": drawn[1]}
    try_sources(files, directory)


def several(drawn: tuple[bytes, bytes, bytes], directory: Path) -> None:
    """A directory of an INI file and a YAML file, and variables beside them."""
    names = ("hosts/a.ini", "hosts/b.yml", "hosts/group_vars/worker.yml")
    try_sources(dict(zip(names, drawn, strict=True)), directory, ["hosts"])


def options(words: list[str], directory: Path) -> None:
    try_sources({"inventory.yml": GOOD}, directory, extra=[one for one in words if not one.startswith("@")])


def variables(words: list[str], directory: Path) -> None:
    message = ""
    try:
        parse_extra_vars([option for option in words if not option.startswith("@")])
    except InvalidInput as error:
        message = str(error)
    assert all(line.startswith("-e") and line.isprintable() for line in message.split("\n") if message)


def pattern_and_range(pattern: str, directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    path = directory / "good.yml"
    path.write_text(INVENTORY.replace("10.0.0.1, ansible_port", "'10.0.0.{{ inventory_hostname[-1] }}', ansible_port"))
    with contextlib.suppress(Usage):
        assert set(match_hosts(load(path)[0], pattern)) <= {"node1", "node2", "node3"}
    with contextlib.suppress(RangeError):
        assert expand(pattern)


@dataclass(frozen=True)
class Attempt:
    """What is drawn, and what is done with it in a directory that it may fill."""

    strategy: st.SearchStrategy[Any]
    act: Callable[[Any, Path], None]

    def __call__(self, drawn: Any, directory: Path) -> float:
        """Return the seconds of CPU time that it took; more than one is an error, however it ends."""
        start = time.process_time()
        self.act(drawn, directory)
        spent = time.process_time() - start
        assert spent < SLOWEST, f"{spent:.1f} s"
        return spent


SLOWEST = 1.0
"""Seconds of CPU time."""

ATTEMPTS = {
    "any bytes": Attempt(ANYTHING, any_bytes),
    "an inventory after an accident": Attempt(mutated(INVENTORY), try_inventory),
    "a playbook after an accident": Attempt(mutated(PLAYBOOK), try_playbook),
    "any tree": Attempt(TREES, any_tree),
    "what is almost an inventory": Attempt(ALMOST.map(as_yaml), try_inventory),
    "any bytes in any source": Attempt(st.tuples(KINDS, ANYTHING), any_source),
    "an INI file after an accident": Attempt(mutated(INI), ini),
    "a JSON file after an accident": Attempt(mutated(JSON), in_json),
    "variables beside, after an accident": Attempt(st.tuples(mutated(VARIABLES), mutated(VARIABLES)), beside),
    "several sources after accidents": Attempt(
        st.tuples(mutated(INI), mutated(INVENTORY), mutated(VARIABLES)), several
    ),
    "settings by options": Attempt(st.lists(OPTIONS, min_size=1, max_size=3), options),
    "any variables": Attempt(
        st.lists(st.one_of(NAMES, st.text(max_size=8), st.builds("{}={}".format, NAMES, NAMES)), max_size=3), variables
    ),
    "any pattern and any range": Attempt(
        st.text([*"abnodeps12~[]:,!&*?(){}|^$.-\\ \n", "²"], max_size=8), pattern_and_range
    ),
}
