"""What the verbs return and report, on hosts in memory."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.clock import ManualClock
from tests.support.memory_plays import MemoryPlays
from tfprov.engine.checkpoints import manifest
from tfprov.engine.checkpoints.verify import Verification
from tfprov.engine.events import Callback, Event
from tfprov.engine.lock.cluster_lock import ClusterLock
from tfprov.errors import CombinedError, GatherError, HostError, Locked, TaskFailed, Unreachable, Usage
from tfprov.playbook import verbs
from tfprov.playbook.parse import read_playbook
from tfprov.playbook.player import PlayOptions
from tfprov.vault.redaction import KeyedHash

INVENTORY = """
all: {vars: {tfprov: {cluster: lab, command: [python], restart: never, env: {API_TOKEN: one}}}}
ps: {hosts: {h1: }}
worker: {hosts: {h2: }}
"""
CHIEF = "worker/0"


class Lab(MemoryPlays):
    """A ps and a chief, whose checkpoints count as verified with 7 tensors."""

    def __init__(self, directory: Path, text: str = INVENTORY) -> None:
        super().__init__(directory, text)
        self.context = replace(self.context, verify=lambda paths: {p.name: Verification(7) for p in paths})
        self.chief = self.hosts["h2"]

    def up(self) -> None:
        verbs.up(self.context, partial=False)

    def saves(self, step: int) -> None:
        self.chief.now += 1
        for extension in ("data-00000-of-00001", "index"):
            self.chief.saves(CHIEF, f"model.ckpt-{step}.{extension}", b"bytes")
        self.chief.saves(CHIEF, "checkpoint", f'model_checkpoint_path: "model.ckpt-{step}"\n'.encode())


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


# --- plan and up -----------------------------------------------------------------------------------------------------


def test_a_plan_has_its_obstacles_and_one_without_actions_has_none(lab: Lab) -> None:
    lab.chief.taken[CHIEF] = "port 2222 is in use"
    planned = verbs.plan_changes(lab.context)
    assert planned.obstacles == ("h2: port 2222 is in use; stop it",)
    assert planned.title == "lab: 1 ps, 1 worker on 2 hosts"
    assert str(planned).splitlines()[-1] == "in the way: h2: port 2222 is in use; stop it"
    lab.chief.taken.clear()
    lab.up()
    lab.chief.taken[CHIEF] = "port 2222 is in use"
    again = verbs.plan_changes(lab.context)
    assert (bool(again), again.obstacles, str(again)) == (False, (), "lab: 1 ps, 1 worker on 2 hosts: nothing to do")


@pytest.mark.parametrize("verb", [verbs.up, partial(verbs.run, discard=False)], ids=["up", "run"])
def test_a_start_that_is_refused_for_its_port_delivers_nothing(tmp_path: Path, verb: Callable[..., object]) -> None:
    lab = Lab(tmp_path, INVENTORY.replace("command: [python]", "command: [python], code: program"))
    lab.chief.taken[CHIEF] = "port 2222 is in use"
    with pytest.raises(HostError, match=r"h2: port 2222 is in use; stop it$"):
        verb(lab.context, partial=False)
    assert [call for host in lab.hosts.values() for call in host.calls] == []
    assert not any(artifact.ready for artifact in lab.context.artifacts.values()), "nothing is packed"


def test_an_up_that_changes_nothing_says_so_and_changes_nothing(lab: Lab) -> None:
    lab.up()
    lab.report.events.clear()
    for host in lab.hosts.values():
        host.calls.clear()
    result = verbs.up(lab.context, partial=False, canary=1)
    assert (result.changed, lab.report.notes) == (False, ["lab: 1 ps, 1 worker on 2 hosts: nothing to do"])
    assert not any(host.calls for host in lab.hosts.values())
    assert result.to_dict() == {"changed": False, "cluster": "lab", "actions": []}
    verbs.up(replace(lab.context, resume=True), partial=False)
    assert lab.report.notes[1:] == ["lab: 1 ps, 1 worker on 2 hosts: nothing to do", f"nothing to resume: {CHIEF} runs"]


def test_a_play_that_is_only_checked_says_what_it_would_do_and_does_nothing(lab: Lab) -> None:
    lab.book.write_text("- {hosts: all, tasks: [start]}")
    verbs.play(lab.context, read_playbook(lab.book), PlayOptions(check=True))
    assert [note.split()[:4] for note in lab.report.notes] == [
        ["start:", "would", "start", "ps/0"],
        ["start:", "would", "start", CHIEF],
    ]
    assert lab.running() == []


def test_a_task_that_somebody_has_paused_is_named_and_does_not_count_as_serving(lab: Lab) -> None:
    lab.up()
    place = lab.hosts["h1"].places["ps/0"]
    place.observed = replace(place.observed, unpause="docker unpause")
    line = "ps/0 on h1 is paused: `docker unpause` there lets it go on"
    for verb in (lambda: verbs.plan_changes(lab.context), lambda: verbs.up(lab.context, partial=False)):
        lab.report.events.clear()
        lab.context.noted.clear()
        verb()
        assert lab.report.notes[0] == line
    lab.context.noted.clear()
    with pytest.raises(TaskFailed, match="ps/0: is paused; `docker unpause` on h1 lets it go on"):
        verbs.wait(lab.context, "serving", 5)
    assert lab.report.notes.count(line) == 2
    assert [row.state for row in verbs.status(lab.context).rows] == ["paused", "running"]


def test_an_up_announces_what_it_does(lab: Lab) -> None:
    result = verbs.up(lab.context, partial=False)
    assert (result.changed, len(result.plan.actions)) == (True, 2)
    assert lab.report.notes[:3] == [
        "lab: 1 ps, 1 worker on 2 hosts",
        "  start  ps/0      on h1 h1:2222  (not there)",
        "  start  worker/0  on h2 h2:2222  (not there)",
    ]


def test_secrets_of_another_controller_cannot_be_compared(lab: Lab) -> None:
    lab.up()
    before = verbs.plan_changes(lab.context)
    other = KeyedHash(lambda: b"another key").of("lab", "API_TOKEN", "two")
    for host, task in (("h1", "ps/0"), ("h2", CHIEF)):
        place = lab.hosts[host].places[task]
        env = {**place.observed.spec["env"], "API_TOKEN": other}
        place.observed = replace(place.observed, spec={**place.observed.spec, "env": env})
    planned = verbs.plan_changes(lab.context)
    assert before.uncomparable is None
    assert planned.uncomparable == (
        "env.API_TOKEN of ps/0 and 1 more cannot be compared: another controller started these tasks, or this one lost its "
        "key; after a secret has changed, `down` and `up` bring it to them"
    )
    assert not planned
    assert str(planned).splitlines()[0] == planned.uncomparable


# --- down ------------------------------------------------------------------------------------------------------------


def test_a_down_names_its_tasks_and_the_next_one_cleans_the_hosts(lab: Lab) -> None:
    lab.up()
    down = verbs.down(lab.context, discard=True)
    assert (down.cluster, down.removed) == ("lab", ("ps/0", CHIEF))
    lab.chief.data.add("data:old")
    lab.chief.codes["sha256:1"] = b"old"
    lab.report.events.clear()
    assert verbs.down(lab.context, discard=False).removed == ()
    assert (lab.chief.data, lab.chief.codes) == (set(), {})
    assert lab.report.notes == ["nothing to do: lab is not there"]


def test_a_down_without_tasks_is_no_success_while_a_host_is_lost(lab: Lab) -> None:
    lab.chief.failure = Unreachable("h2", "no answer")
    with pytest.raises(Unreachable, match="h2: no answer"):
        verbs.down(lab.context, discard=False)
    lab.hosts["h1"].failure = Unreachable("h1", "no route")
    with pytest.raises(CombinedError) as caught:
        verbs.down(lab.context, discard=False)
    assert str(caught.value) == "h1: no route\nh2: no answer"


@pytest.mark.parametrize("verb", [verbs.up, partial(verbs.run, discard=False)], ids=["up", "run"])
def test_a_gather_directory_with_other_files_is_refused_before_a_start(lab: Lab, verb: Callable[..., object]) -> None:
    lab.context.target.mkdir(parents=True)
    (lab.context.target / "notes.txt").write_text("mine")
    with pytest.raises(GatherError) as caught:
        verb(lab.context, partial=False)
    what = f"{lab.context.target} holds files that no gather put there"
    assert str(caught.value) == f"{what}; move it away, or set `checkpoints.to`"
    assert all(host.calls == [] for host in lab.hosts.values())


# --- gather and run --------------------------------------------------------------------------------------------------


def test_a_gather_returns_what_is_new_and_the_newest(lab: Lab) -> None:
    lab.up()
    lab.saves(5)
    first = verbs.gather(lab.context, None)
    assert (first.directory, first.files, first.size) == (lab.context.target, 2, 10)
    assert first.newest is not None
    assert (first.newest.step, first.newest.tensors, first.newest.path) == (5, 7, lab.context.target / "model.ckpt-5")
    assert [one.step for one in first.new] == [5]
    again = verbs.gather(lab.context, None)
    assert (again.new, again.newest) == ((), first.newest)


def test_a_gather_needs_the_chiefs_host_alone(lab: Lab) -> None:
    lab.up()
    lab.saves(5)
    lab.hosts["h1"].failure = Unreachable("h1", "no answer")
    brought = verbs.gather(lab.context, None)
    assert [one.step for one in brought.new] == [5]


def test_a_gather_before_the_first_checkpoint_names_a_model_elsewhere(lab: Lab) -> None:
    lab.up()
    nothing = verbs.gather(lab.context, None)
    assert (nothing.newest, nothing.new, nothing.files) == (None, (), 0)
    assert lab.report.notes[-1] == "worker/0 has not saved a checkpoint yet"
    lab.chief.writes(CHIEF, "out/best.keras", b"model")
    verbs.gather(lab.context, None)
    assert lab.report.notes[-2:] == [
        "worker/0 has not saved a checkpoint yet",
        "worker/0 has written out/best.keras: `tfprov gather --path out/best.keras` brings it",
    ]


def test_a_verb_that_holds_the_lock_is_named_to_others(lab: Lab) -> None:
    """At each of its events, another verb tries to take the lock."""
    holders: set[str] = set()

    def try_to_lock(_event: Event) -> None:
        try:
            with ClusterLock(lab.context, "play"):
                pass
        except Locked as error:
            holders.add(error.verb)

    context = replace(lab.context, report=Callback(try_to_lock))
    acts: Mapping[str, Callable[[], object]] = {
        "up": lambda: verbs.up(context, partial=False),
        "gather": lambda: verbs.gather(context, None),
        "gather --path": lambda: verbs.gather(context, "best.keras"),
        "down": lambda: verbs.down(context, discard=True),
    }
    seen = {}
    for name, act in acts.items():
        holders.clear()
        act()
        seen[name] = {*holders}
        if name == "up":
            lab.saves(5)
            lab.chief.writes(CHIEF, "best.keras", b"model")
    assert seen == {name: {name.partition(" ")[0]} for name in acts}


def test_one_file_is_brought_as_it_is(lab: Lab) -> None:
    lab.up()
    lab.chief.writes(CHIEF, "out/best.keras", b"model")
    brought = verbs.gather(lab.context, "out/best.keras")
    assert (brought.directory, brought.files, brought.size, brought.newest) == (
        lab.context.target / "best.keras",
        1,
        5,
        None,
    )
    assert lab.report.notes[-1] == f"brought to {brought.directory}: 1 file, 5 B, as it is: nothing was verified"
    with pytest.raises(
        Usage,
        match=r"^`--path \.\./x` has `\.\.` in it; name what lies in the chief's working directory, or an "
        r"absolute path$",
    ):
        verbs.gather(lab.context, "../x")


def test_a_gather_without_a_chief_is_an_error(lab: Lab) -> None:
    for path in (None, "best.keras"):
        with pytest.raises(Usage, match=r"^worker/0 is not there; start it with `tfprov up`$"):
            verbs.gather(lab.context, path)


def test_a_run_without_a_checkpoint_does_not_return_that_of_an_earlier_run(lab: Lab) -> None:
    lab.up()
    lab.saves(5)
    lab.chief.exits(CHIEF, 0)
    verbs.down(lab.context, discard=False)
    before = manifest.read(lab.context.target)
    assert before is not None
    assert verbs.run_result(lab.context, before.run, 0.0).newest is not None
    assert verbs.run_result(lab.context, "another", 0.0).newest is None


def test_a_run_returns_its_newest_checkpoint_and_how_long_it_took(lab: Lab) -> None:
    clock = ManualClock()
    clock.time = 100.0

    def end() -> None:
        lab.saves(9)
        lab.chief.exits(CHIEF, 0)

    clock.at(130.0, end)
    result = verbs.run(replace(lab.context, clock=clock), partial=False, discard=False)
    assert result.newest is not None
    assert (result.cluster, result.directory, result.newest.step, result.run) == ("lab", lab.context.target, 9, "")
    assert result.seconds == clock.time - 100.0 >= 30.0
    assert lab.running() == []


# --- wait ------------------------------------------------------------------------------------------------------------


def test_a_wait_returns_the_chief_once_it_serves_or_is_done(lab: Lab) -> None:
    with pytest.raises(Usage, match=r"^worker/0 is not there; start it with `tfprov up`$"):
        verbs.wait(lab.context, "serving", 5)
    lab.up()
    assert verbs.wait(lab.context, "serving", 5) == CHIEF
    lab.hosts["h1"].silent.add("ps/0")
    with pytest.raises(
        TaskFailed,
        match=r"^ps/0: does not serve on h1:2222 after 5 s; a program that serves on no port needs `ready: "
        r"start`, and one that takes longer to serve a larger `start_timeout`$",
    ):
        verbs.wait(lab.context, "serving", 5)
    clock = ManualClock()
    clock.at(20.0, lambda: lab.chief.exits(CHIEF, 0))
    lab.chief.prints(CHIEF, "step 1")
    assert verbs.wait(replace(lab.context, clock=clock), "done", None) == CHIEF
    assert clock.time >= 20.0
    assert lab.report.lines == [], "what the tasks print is left to `tfprov logs`"
