"""How long a large inventory takes: 10,000 hosts of one range, with variables in group_vars/ and a few groups in groups.

Three figures of tfprov's own, taken in a process each: reading the inventory with every host's variables, the same for
twice and four times as many hosts, and the checked settings of every host. And one beside a peer: whole commands,
`tfprov inventory list` and `ansible-inventory --list`, which print the same.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from .measure import Figure, alone, compared, environment, in_turn, itself, median, run, say, seconds

HOSTS = 10_000
_SELF = "bench.inventory"
SECONDS, BYTES = 1.5, 200_000_000
"""The goals for reading HOSTS hosts."""
_FASTER = 0.1
"""Goal: a tenth of the time of `ansible-inventory`."""
_LINEAR = 1.25
"""Goal: four times as many hosts take at most so much more than four times as long."""

_INVENTORY = """\
all:
  vars:
    data_root: /data
  children:
    ps:
      hosts:
        ps[1:9]:
    worker:
      children:
        rack_a:
          hosts:
            node[00001:{half:05}].example.com:
        rack_b:
          hosts:
            node[{next:05}:{count:05}].example.com:
"""
_ALL = """\
ntp_servers: [10.0.0.1, 10.0.0.2]
region: eu
proxy: "http://proxy.{{ region }}.example.com:3128"
ansible_user: train
ansible_ssh_common_args: -o ServerAliveInterval=15
tfprov:
  cluster: bench
  image: {name: "registry.example.com/train:1.0"}
  command: [python, train.py, "--data={{ data_root }}/train"]
  flags: {train_steps: 2000, learning_rate: 0.01, batch_size: 128}
  env: {REGION: "{{ region }}", TF_CPP_MIN_LOG_LEVEL: "2"}
"""
_WORKER = "tfprov: {memory: 4g, env: {PROXY: '{{ proxy }}'}}\n" + "".join(f"worker_{n}: value {n}\n" for n in range(15))
_RACK_A = "rack: a\ngateway: 10.1.0.1\n"


def write(directory: Path, hosts: int) -> Path:
    """Write an inventory of `hosts` hosts below `directory` and return its path."""
    files = {"all": _ALL, "worker": _WORKER, "rack_a": _RACK_A}
    for name, text in files.items():
        path = directory / "group_vars" / f"{name}.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    inventory = directory / "inventory.yml"
    inventory.write_text(_INVENTORY.format(half=hosts // 2, next=hosts // 2 + 1, count=hosts))
    return inventory


def figures(rounds: int) -> list[Figure]:
    """Measure; the peer is left out where it is not installed."""
    with tempfile.TemporaryDirectory() as directory:
        env = environment({}, Path(directory) / "byte-code")
        files = {count: write(Path(directory) / str(count), count) for count in (HOSTS, 2 * HOSTS, 4 * HOSTS)}
        say(f"an inventory of {HOSTS} hosts, {rounds} rounds")
        result = _reading(files, env, rounds)
        result.append(_settings(files[HOSTS], env, rounds))
        if peer := _ansible():
            result.append(_beside(peer, files[HOSTS], env, rounds))
        return result


def _ansible() -> str | None:
    beside = Path(sys.executable).with_name("ansible-inventory")
    return str(beside) if beside.exists() else shutil.which("ansible-inventory")


def _reading(files: Mapping[int, Path], env: Mapping[str, str], rounds: int) -> list[Figure]:
    contenders = {str(count): partial(alone, _SELF, ["read", str(path)], env) for count, path in files.items()}
    runs = in_turn(contenders, rounds)
    least, most = runs[str(HOSTS)], runs[str(4 * HOSTS)]
    peak = max(ran.peak for ran in least)
    growth = median(most) / median(least) / 4
    includes = "the files, the range, and the merged variables of every host; not the interpreter's start and imports"
    return [
        Figure(
            f"read {HOSTS} hosts", seconds(least), goal=f"<= {SECONDS:.2f} s", met=median(least) <= SECONDS,
            includes=includes,
        ),
        Figure(
            f"memory for {HOSTS} hosts", f"{peak / 1e6:.0f} MB", goal=f"<= {BYTES / 1e6:.0f} MB", met=peak <= BYTES,
            includes="the highest resident memory of that process, with the interpreter",
        ),
        Figure(f"read {2 * HOSTS} hosts", seconds(runs[str(2 * HOSTS)]), includes=includes),
        Figure(
            f"read {4 * HOSTS} hosts", seconds(most), f"{4 * median(least):.2f} s four times {HOSTS}", growth,
            f"<= {_LINEAR:.2f}", growth <= _LINEAR, includes=includes,
        ),
    ]  # fmt: skip


def _settings(inventory: Path, env: Mapping[str, str], rounds: int) -> Figure:
    runs = in_turn({"ours": partial(alone, _SELF, ["settings", str(inventory)], env)}, rounds)["ours"]
    return Figure(
        f"read and check {HOSTS} hosts", f"{seconds(runs)}, {max(ran.peak for ran in runs) / 1e6:.0f} MB",
        includes="the same, and the checked settings of every role on every host, templates rendered",
    )  # fmt: skip


def _beside(peer: str, inventory: Path, env: Mapping[str, str], rounds: int) -> Figure:
    runs = in_turn(
        {
            "ours": partial(run, [sys.executable, "-m", "tfprov", "inventory", "list", "-i", str(inventory)], env),
            "peer": partial(run, [peer, "--list", "-i", str(inventory)], env),
        },
        rounds,
    )
    ours, theirs = (json.loads(runs[name][-1].output[runs[name][-1].output.index("{") :]) for name in ("ours", "peer"))
    if _comparable(ours) != _comparable(theirs):
        raise RuntimeError("the two commands print different inventories")
    what = f"inventory list of {HOSTS} hosts; ansible-inventory"
    return compared(what, runs["ours"], runs["peer"], _FASTER, "whole commands, each printing all variables as JSON")


def _comparable(printed: Mapping[str, Mapping[str, Mapping[str, Mapping[str, object]]]]) -> object:
    """Leave out what tfprov merges and Ansible replaces."""
    return {
        host: {name: value for name, value in values.items() if name != "tfprov"}
        for host, values in printed["_meta"]["hostvars"].items()
    }


def _measure(what: str, path: Path) -> None:
    """Do `what` here and print what it took."""
    from tfprov.settings import load  # noqa: PLC0415  imports are not part of the time

    with itself():
        if what == "read":
            inventory = load.load_inventory(path)
            for host in inventory.hosts:
                inventory.variables(host)
        else:
            load.load(path)


def main(arguments: Sequence[str]) -> None:
    """Be the process that measures itself."""
    what, path = arguments
    _measure(what, Path(path))


if __name__ == "__main__":
    main(sys.argv[1:])
