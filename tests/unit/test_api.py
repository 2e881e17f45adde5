"""The public API: what its verbs return and report, on hosts in memory, and that importing it loads nothing heavy."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

import tfprov
from tests.support.user_directory import enter
from tfprov.engine.checkpoints.verify import Verification
from tfprov.engine.events import ActionDone, Event, Note, TaskChanged
from tfprov.errors import Unreachable
from tfprov.hosts.memory import MemoryHosts

INVENTORY = """\
all:
  vars:
    tfprov:
      {cluster: linear, restart: never, code: code, command: [python, linear.py], flags: {train_steps: "{{ steps }}"},
       checkpoints: {to: out}}
    steps: 2000
  children:
    ps: {hosts: {h1: {ansible_connection: local}}}
    worker: {hosts: {"h[2:3]": {ansible_connection: local}}}
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    enter(tmp_path, monkeypatch, INVENTORY)
    return tmp_path


@pytest.fixture
def hosts() -> MemoryHosts:
    return MemoryHosts()


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def cluster(hosts: MemoryHosts, events: list[Event]) -> Iterator[tfprov.Cluster]:
    with tfprov.Cluster.load("inventory.yml", factory=hosts, verify=three_tensors, on_event=events.append) as loaded:
        yield loaded


def three_tensors(prefixes: Sequence[Path]) -> dict[str, Verification]:
    """Verify checkpoints without TensorFlow."""
    return {prefix.name: Verification(3) for prefix in prefixes}


def save_checkpoint(hosts: MemoryHosts, step: int) -> None:
    """Have the chief save a checkpoint."""
    prefix = f"model.ckpt-{step}"
    for extension in ("data-00000-of-00001", "index", "meta"):
        hosts["h2"].saves("worker/0", f"{prefix}.{extension}", b"bytes")
    hosts["h2"].saves("worker/0", "checkpoint", f'model_checkpoint_path: "{prefix}"\n'.encode())


def test_a_plan_is_a_condition_a_text_and_plain_data(cluster: tfprov.Cluster) -> None:
    plan = cluster.plan()
    assert plan
    assert str(plan).splitlines()[0] == "linear: 1 ps, 2 workers on 3 hosts"
    data = json.loads(json.dumps(plan.to_dict()))
    starts = [action for action in data["actions"] if action["action"] == "start"]
    assert {(action["action"], action["subject"], action["host"]) for action in starts} == {
        ("start", "ps/0", "h1"),
        ("start", "worker/0", "h2"),
        ("start", "worker/1", "h3"),
    }


def test_up_starts_everything_once(cluster: tfprov.Cluster, hosts: MemoryHosts, events: list[Event]) -> None:
    assert cluster.up().changed
    assert hosts["h2"].calls[-1] == "start worker/0"
    assert {event.action.subject for event in events if isinstance(event, ActionDone)} >= set(cluster.tasks)
    again = cluster.up()
    assert (again.changed, again.to_dict()) == (False, {"changed": False, "cluster": "linear", "actions": []})
    assert events[-1] == Note("linear: 1 ps, 2 workers on 3 hosts: nothing to do")
    assert not cluster.plan()


def test_the_verbs_of_a_training(cluster: tfprov.Cluster, hosts: MemoryHosts, directory: Path) -> None:
    cluster.up()
    assert cluster.wait("serving") == cluster.chief == "worker/0"
    states = {row["task"]: row["state"] for row in cluster.status().to_dict()["tasks"]}
    assert states == {"ps/0": "running", "worker/0": "running", "worker/1": "running"}
    hosts["h3"].prints("worker/1", "one", "two")
    logs = cluster.logs("worker/1", "worker/1", tail=1)
    assert (logs.tasks, [record.to_dict() for record in logs]) == (
        ("worker/1",),
        [{"task": "worker/1", "line": "two", "printed": 0.0}],
    )
    hosts["h2"].answer = lambda argv: (7, " ".join(argv))
    save_checkpoint(hosts, 500)
    gathered = cluster.gather()
    assert gathered.newest is not None
    assert (gathered.newest.path.name, gathered.newest.step, gathered.newest.tensors) == ("model.ckpt-500", 500, 3)
    assert cluster.gather().to_dict()["new"] == []
    hosts["h2"].exits("worker/0", 0)
    assert cluster.wait() == "worker/0"
    assert set(cluster.down().removed) == {"ps/0", "worker/0", "worker/1"}
    assert (cluster.down().to_dict(), cluster.status().to_dict()["unreachable"]) == (
        {"cluster": "linear", "removed": []},
        {},
    )
    assert (directory / "out" / "linear" / "model.ckpt-500.index").read_bytes() == b"bytes"


def test_verbs_that_start_nothing_do_without_the_code(
    cluster: tfprov.Cluster, hosts: MemoryHosts, directory: Path
) -> None:
    cluster.up()
    save_checkpoint(hosts, 500)
    (directory / "code").rename(directory / "moved")
    extra = {"tfprov": {"data": {"path": "gone"}, "python": "/nowhere/python", "env_file": "gone.env"}}
    with tfprov.Cluster.load("inventory.yml", extra=extra, factory=hosts, verify=three_tensors) as later:
        assert {row["state"] for row in later.status().to_dict()["tasks"]} == {"running"}
        assert later.gather().newest is not None
        for verb in (later.up, lambda: later.render("slurm")):
            with pytest.raises(tfprov.InvalidInput, match=r"gone\.env` does not exist"):
                verb()
        assert len(later.down().removed) == 3
    with tfprov.Cluster.load("inventory.yml", factory=hosts, verify=three_tensors) as later:
        later.status()
        (directory / "moved").rename(directory / "code")
        assert later.up().changed


def test_an_edit_of_the_code_between_two_verbs_counts(cluster: tfprov.Cluster, directory: Path) -> None:
    cluster.up()
    before = cluster.prepare()
    assert not cluster.plan()
    assert cluster.prepare() is before, "its connections stay open where nothing was edited"
    (directory / "code" / "linear.py").write_text("print('edited')\n")
    assert "code: " in str(cluster.plan())
    cluster.status()
    assert cluster.up().changed
    (directory / "code" / "linear.py").write_text("print('edited again')\n")
    assert cluster.up().changed


@pytest.mark.parametrize("gathers", [True, False])
def test_a_directory_of_inventories_may_hold_what_was_gathered(
    hosts: MemoryHosts, directory: Path, *, gathers: bool
) -> None:
    (directory / "lab").mkdir()
    (directory / "lab" / "hosts.yml").write_text(INVENTORY.replace("code: code", "code: ../code"))
    with tfprov.Cluster.load("lab", factory=hosts, verify=three_tensors) as cluster:
        cluster.up()
        if gathers:
            save_checkpoint(hosts, 500)
            cluster.gather()
            (directory / "lab" / "out" / "linear" / "notes.yml").write_text("a: 1\n")
        cluster.down()
    kept = {path.name for path in (directory / "lab" / "out" / "linear").iterdir()}
    assert kept >= ({"manifest.json", "logs"} if gathers else {"logs"})
    warnings: list[object] = []
    with tfprov.Cluster.load("lab", factory=hosts, on_warning=warnings.append) as cluster:
        assert set(cluster.tasks) == {"ps/0", "worker/0", "worker/1"}
    assert warnings == []


def test_a_failed_chief_is_an_error_with_its_exit_code(cluster: tfprov.Cluster, hosts: MemoryHosts) -> None:
    cluster.up()
    hosts["h2"].exits("worker/0", 5)
    with pytest.raises(tfprov.TaskFailed) as raised:
        cluster.wait()
    assert raised.value.code == 5


def test_a_host_that_is_back_is_asked_by_the_next_verb(cluster: tfprov.Cluster, hosts: MemoryHosts) -> None:
    cluster.up()
    hosts["h3"].failure = Unreachable("h3", "no answer")
    with pytest.raises(Unreachable, match="no answer"):
        cluster.down(discard=True)
    hosts["h3"].failure = None
    cluster.down(discard=True)
    assert not hosts["h3"].places


def test_a_fetch_goes_on_in_the_verb_after_the_one_that_was_interrupted(
    directory: Path, hosts: MemoryHosts, events: list[Event]
) -> None:
    data = "data: {fetch: [{url: 'https://data.test/a', sha256: '" + "0" * 64 + "'}]}, code: code"
    (directory / "inventory.yml").write_text(INVENTORY.replace("code: code", data))
    with tfprov.Cluster.load("inventory.yml", factory=hosts, on_event=events.append) as cluster:
        (fetched,) = cluster.prepare().data.values()
        fetched.cut()
        cluster.up()
    assert fetched.data.artifact in hosts["h2"].data


def test_a_callback_may_call_a_verb(hosts: MemoryHosts) -> None:
    states: list[str] = []

    def look(event: Event) -> None:
        if isinstance(event, TaskChanged) and event.observed.task == "worker/0":
            states.append(lab.status().to_dict()["tasks"][1]["state"])

    with tfprov.Cluster.load("inventory.yml", factory=hosts, on_event=look) as lab:
        lab.up()
    assert states == ["running"]


def test_extra_variables_limits_and_targets(hosts: MemoryHosts) -> None:
    cluster = tfprov.Cluster.load("inventory.yml", extra={"steps": 10}, limit="h2", factory=hosts)
    assert cluster.plan().to_dict()["actions"][-1]["subject"] == "worker/0"
    assert cluster.name == "linear"
    rendering = cluster.render("slurm")
    assert "--train_steps=10" in "".join(rendering.files.values())
    assert set(rendering.to_dict()) == {"target", "files"}
    texts = tfprov.Cluster.load("inventory.yml", extra=["steps=10"], factory=hosts)
    assert texts.render("slurm").files == rendering.files


def test_wrong_inventories_limits_tasks_and_targets_are_errors(cluster: tfprov.Cluster, directory: Path) -> None:
    (directory / "bad.yml").write_text("all: {vars: {tfprov: {clutser: x}}}\nworker: {hosts: {h1: }}\n")
    warnings: list[object] = []
    with pytest.raises(tfprov.InvalidInput, match="did you mean `cluster`"):
        tfprov.Cluster.load("bad.yml", on_warning=warnings.append)
    with pytest.raises(tfprov.Usage, match="leaves no host"):
        tfprov.Cluster.load("inventory.yml", limit="!all").plan()
    with pytest.raises(tfprov.TfprovError, match="nowhere"):
        tfprov.Cluster.load("nowhere.yml")
    with pytest.raises(tfprov.Usage, match="its tasks are processes"):
        _ = cluster.images
    with pytest.raises(tfprov.Usage, match="no task `worker/9`"):
        cluster.logs("worker/9")
    with pytest.raises(tfprov.Usage, match="kubernets"):
        cluster.render("kubernets")
    with pytest.raises(tfprov.Usage, match="no playbook `upp`"):
        cluster.play("upp")


def test_wrong_arguments_are_errors_and_nothing_waits(cluster: tfprov.Cluster, directory: Path) -> None:
    cluster.up()
    with pytest.raises(tfprov.Usage, match="no condition `ready`; wait for `done` or `serving`"):
        cluster.wait(cast(Any, "ready"))
    commands: list[Sequence[str]] = [[], "ls", ["", "-l"]]
    for command in commands:
        with pytest.raises(tfprov.Usage, match="a command is a list"):
            cluster.execute("worker/0", command)
    with pytest.raises(
        tfprov.Usage, match=r"`extra`: Object of type .*Path is not JSON serializable; its values are text"
    ):
        tfprov.Cluster.load("inventory.yml", extra={"tfprov": {"code": directory}})
    with pytest.raises(tfprov.Usage, match="`forks` is -1; it is 1 at least"):
        tfprov.Cluster.load("inventory.yml", forks=-1)
    assert "=10" in str(tfprov.Cluster.load("inventory.yml", extra="steps=10").render("slurm").files)


def test_without_a_source_it_is_the_usual_inventory(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    assert tfprov.Cluster.load().name == "linear"
    (directory / "other.yml").write_text(INVENTORY.replace("cluster: linear", "cluster: other"))
    monkeypatch.setenv("TFPROV_INVENTORY", "other.yml")
    assert tfprov.Cluster.load().name == "other"


def test_importing_it_loads_nothing_else() -> None:
    program = """
import sys
before = set(sys.modules)
import tfprov
print(sorted(name for name in set(sys.modules) - before if not name.startswith("_")))
print(tfprov.__version__, tfprov.TaskFailed.__name__, hasattr(tfprov, "Custer"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['tfprov']", f"{tfprov.__version__} TaskFailed False"]
