"""The inventories that `tfprov init` writes: one machine with processes, or machines over SSH with containers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfprov.config.edit.value import text_inline
from tfprov.config.sources.names import without_port, wrong_name
from tfprov.errors import Position, Usage, shown
from tfprov.model.node import Scalar

EXAMPLE = ("python", "linear.py")
"""The command of the program that ships with tfprov."""

_LOCAL = """\
# A TensorFlow cluster for `tfprov run`: one ps and two workers on this machine.
# Groups, hosts, ranges and variables mean what they mean in Ansible; all that is tfprov's own stands under `tfprov:`.
all:
  vars:
    tfprov:
{settings}
  children:
    ps:                                     # holds the variables
      hosts: {{localhost: }}
    worker:                                 # worker 0 is the chief: it initialises the variables and saves them
      hosts: {{localhost: }}
      vars: {{tfprov: {{tasks_per_host: 2}}}}
"""

_REMOTE = """\
# A TensorFlow cluster over SSH, each task in a Docker container of its own host: {count}.
# Groups, hosts, ranges and variables mean what they mean in Ansible; all that is tfprov's own stands under `tfprov:`.
#
#   tfprov check                              # can every host do its part?
#   tfprov run                                # build, deliver, train, bring the checkpoint back, take it down
#
# A host needs sshd and Docker, nothing else; its user may use Docker there: a member of the group `docker`.
all:
  vars:
{user}    # ansible_ssh_private_key_file: ~/.ssh/id_ed25519   # default: what ~/.ssh/config and the agent say
    tfprov:
{settings}
      # memory: 2g                          # of each container; default: no limit
  children:
    ps:                                     # holds the variables
      hosts:
{ps}
    worker:                                 # worker 0 is the chief: it initialises the variables and saves them
      hosts:
{workers}
"""


@dataclass(frozen=True)
class Machine:
    """A machine as SSH names it: `[user@]name[:port]`."""

    name: str
    user: str | None = None
    port: int | None = None


@dataclass(frozen=True)
class Wanted:
    """What the inventory is to say; without `machines` it is for this one. `code` is where the program lies."""

    cluster: str
    machines: tuple[Machine, ...]
    command: tuple[str, ...]
    code: str


def read_machines(text: str) -> tuple[Machine, ...]:
    """Return the machines in a list such as `trainer@node1, node2:2200`; Usage where one cannot be called so."""
    found: list[Machine] = []
    for word in re.split(r"[\s,]+", text.strip()):
        if word:
            user, at, rest = word.rpartition("@")
            name, port = without_port(rest)
            wrong = wrong_name("host", Scalar(name, Position(""), name, quoted=True))
            if wrong or (at and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", user)) or (port or 1) > 65535:
                raise Usage(f"`{shown(word)}` is no machine", "write `name`, `user@name` or `user@name:port`")
            found.append(Machine(name, user or None, port))
    names = [machine.name for machine in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Usage(f"{shown(twice)} is given twice", "give every machine once")
    return tuple(found)


def inventory_text(wanted: Wanted) -> str:
    """Return the commented inventory."""
    settings = "\n".join(f"      {line}" for line in _settings(wanted))
    if not wanted.machines:
        return _LOCAL.format(settings=settings)
    users = {machine.user for machine in wanted.machines}
    common = users.pop() if len(users) == 1 else None
    lines = [_host(machine, common) for machine in wanted.machines]
    workers = lines[1:] or lines
    tasks = "1 worker" if len(workers) == 1 else f"{len(workers)} workers"
    user = f"    ansible_user: {text_inline(common, flow=False)}\n" if common else ""
    count = f"1 ps and {tasks} on {len(lines)} machine{'s' * (len(lines) > 1)}"
    return _REMOTE.format(count=count, user=user, settings=settings, ps=lines[0], workers="\n".join(workers))


def _host(machine: Machine, common: str | None) -> str:
    values = []
    if machine.user and machine.user != common:
        values.append(f"ansible_user: {text_inline(machine.user, flow=True)}")
    if machine.port:
        values.append(f"ansible_port: {machine.port}")
    body = f" {{{', '.join(values)}}}" if values else ""
    return f"        {text_inline(machine.name, flow=False)}:{body}"


def _settings(wanted: Wanted) -> Sequence[str]:
    name = text_inline(wanted.cluster, flow=False)
    command = ", ".join(text_inline(word, flow=True) for word in wanted.command)
    example = wanted.command == EXAMPLE
    lines = [
        (f"cluster: {name}", ""),
        ("image: {build: ./image}", "built here once; hosts are sent the layers they lack")
        if wanted.machines
        else None,
        (
            f"code: {text_inline(wanted.code, flow=False)}",
            "delivered to every host as it is; an edit restarts what runs it",
        ),
        (f"command: [{command}]", "tfprov appends --job_name, --task_index, --ps_hosts, --worker_hosts"),
        ("flags: {train_steps: 2000}", "and these, as --train_steps=2000")
        if example
        else ("# flags: {train_steps: 2000}", "and what stands here, as --train_steps=2000"),
        ('env: {TF_CPP_MIN_LOG_LEVEL: "2", TF_ENABLE_ONEDNN_OPTS: "0"}', "a quiet log"),
        ("checkpoints: {to: ./checkpoints}", f"TFPROV_CHECKPOINT_DIR goes to ./checkpoints/{wanted.cluster}"),
    ]
    return [_commented(*line) for line in lines if line]


def _commented(text: str, comment: str) -> str:
    return f"{text.ljust(38)}{'' if len(text) < 38 else '   '}# {comment}" if comment else text
