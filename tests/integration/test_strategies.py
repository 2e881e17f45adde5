"""Every strategy with the inventory that ships, as processes and on separate hosts: trained, killed, finished, gathered.

One training a case: each kind of task is killed while it trains, and the model has its quality at the end all the same.
How much it trains before and between is its own pace, so that a slow machine takes longer and fails no earlier.
"""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.strategies import ALWAYS, CASES, KINDS, PAGE, QUALITY, Case, replaced
from tests.support import seaweedfs
from tests.support.images import Images
from tests.support.lab_cluster import LabCluster, open_lab_cluster, training
from tests.support.local_cluster import LocalCluster
from tests.support.paths import PROGRAMS, ROOT
from tests.support.seaweedfs import S3Server
from tests.support.tensorboard import assert_only_reads, board_address, close_web, page_text, read_losses
from tests.support.testhosts import Lab
from tests.support.waiting import until
from tfprov.filesystems.generations import read_newest
from tfprov.filesystems.remote_dir import open_remote

ENDLESS = 10_000_000
"""Steps, until all have been killed."""
PAUSE = 0.02
"""Seconds after each of these steps: what matters until then is that it trains, not how fast it heats two cores."""
MORE = 300
"""Steps after that, with which every model has its quality again."""
LONG = 600
"""Seconds until a test gives up on something: on two idle cores it takes a tenth."""
SHOWN = "digits-async"
"""The case that has a TensorBoard on its hosts, and is trained on from what was gathered."""
LOST = "all-reduce"
"""The case whose hosts are lost for good, and that is trained on elsewhere from S3."""
IN_S3 = 200
"""The step that is in S3 at least when they are lost."""
LOOK = 0.5
"""Seconds between two looks."""


@dataclass
class Trained:
    """A cluster of a case, however it runs."""

    case: Case
    run: LocalCluster | LabCluster
    settings: dict[str, Any]
    kill: Callable[[str], None]
    progress: Callable[[], str]
    """The text of the chief's `progress.json`; empty before it has written one."""
    saved: Callable[[], set[str]]
    """The tasks whose directory holds checkpoints."""

    def write(self, steps: int, pause: float = 0.0) -> None:
        """Write the inventory with so many `train_steps`, and seconds after each."""
        flags = {"train_steps": steps, "save_every_steps": 100, "pause": pause}
        self.settings["all"]["vars"]["tfprov"]["flags"] |= flags
        self.run.inventory.write_text(yaml.safe_dump(self.settings))

    def step(self) -> int:
        """Return the step that the chief is at; -1 before it reports one."""
        return int(json.loads(self.progress() or '{"step": -1}')["step"])

    def resumed(self) -> tuple[int | None, int | None]:
        """Return the step that the chief went on from last, and the one that was lost with it, if any was."""
        progress = json.loads(self.progress() or "{}")
        return progress.get("resumed"), progress.get("lost")

    def trains_past(self, step: int) -> int:
        """Wait until the training is beyond `step`, and return where it is."""
        reached = _await(lambda: (now := self.step()) > step and now, f"a step beyond {step}")
        assert isinstance(reached, int)
        return reached

    def loses(self, kind: str) -> None:
        """Kill the task of a kind, and see that it comes back and the training gets beyond where it was."""
        victim, before, resumed = self.case.victims[kind], self.step(), self.resumed()
        restarts = self.run.tasks()[victim]["restarts"]
        self.kill(victim)
        _await(lambda: _is_back(self.run.tasks()[victim], restarts), f"{victim} is started again")
        # Its variables went with it. A chief that is a new process afterwards knows what the former one wrote every two
        # seconds, which may be less than what it saved.
        if kind == "ps" and self.case.name != "parameter-server":
            _await(lambda: self.resumed() not in (resumed, (None, None)), "the chief goes on from what it saved")
            back = json.loads(self.run("status", "--json"))["went_back"]
            if not back:  # it was killed between a save and the next step
                self.trains_past(self.step())
                self.loses(kind)
                return
            assert back["lost"] > back["resumed"] > 0
        self.trains_past(max(before, self.step()) + 50)

    def survives(self, while_it_trains: Callable[[], None] = lambda: None) -> None:
        """Start it without an end, and kill a task of each kind."""
        self.write(ENDLESS, PAUSE)
        self.run("up", timeout=LONG)
        self.trains_past(120)
        while_it_trains()
        for kind in KINDS:
            if kind in self.case.victims:
                self.loses(kind)

    def ends(self) -> float:
        """Let it train a little more, to its end; return the macro-F1 that was measured last."""
        measures = "evaluator/0" if "evaluator" in self.settings["all"]["children"] else self.case.chief
        self.write(self.step() + MORE)
        self.run("up", timeout=LONG)
        self.run("wait", timeout=LONG)
        log: list[str] = []

        def quality() -> str | None:
            log[:] = self.run("logs", measures, "--tail", "20").splitlines()
            return _f1(log)

        try:
            return float(_await(quality, "the last checkpoint's quality"))
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *log])) from None


def _await(check: Callable[[], Any], what: str) -> Any:
    return until(check, what, LONG, LOOK)


def _is_back(task: Mapping[str, Any], restarts: int) -> bool:
    return bool(task["state"] == "running" and task["restarts"] > restarts)


def _f1(log: Sequence[str]) -> str | None:
    """Return the last line of what measures; what it says on stderr may come after it, on its way through an engine."""
    result = [line for line in log if re.search(r"\| macro-F1 \d\.\d{4}$", line)]
    return result[-1].split()[-1] if result else None


def shipped(case: Case) -> dict[str, Any]:
    """Return the inventory of a case with its paths made absolute."""
    path = ROOT / "inventories" / case.inventory
    result: dict[str, Any] = yaml.safe_load(path.read_text())
    result["all"]["vars"]["tfprov"]["code"] = str(PROGRAMS)
    return result


def check(trained: Trained) -> None:
    """Train as the case says, and see all that is promised."""
    case, run = trained.case, trained.run
    trained.survives()
    assert trained.ends() >= QUALITY
    assert trained.saved() == {case.chief}
    run("gather")
    assert newest(run.directory / "checkpoints" / case.name)["tensors"] > 0, "every tensor was read"
    assert run("status", "--placement")
    run("down")


@pytest.mark.tensorflow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_as_processes(local_cluster: LocalCluster, digits: Path, case: Case) -> None:
    settings = shipped(case)
    own = settings["all"]["vars"]["tfprov"]
    own |= {"port": local_cluster.port, "data": {"path": str(digits)}, "start_timeout": LONG}
    own["checkpoints"] = {"to": str(local_cluster.directory / "checkpoints")}
    tasks = local_cluster.directory / "state/tfprov/clusters" / case.name / "hosts/localhost/tasks"

    def kill(task: str) -> None:
        os.kill(int(local_cluster.pids()[task]), signal.SIGKILL)

    def progress() -> str:
        path = tasks / case.chief.replace("/", "-") / "checkpoints" / "progress.json"
        return path.read_text() if path.exists() else ""

    def saved() -> set[str]:
        return {path.parts[-3].replace("-", "/") for path in tasks.glob("*/checkpoints/model.ckpt*")}

    check(Trained(case, local_cluster, settings, kill, progress, saved))
    assert local_cluster.processes() == []


@pytest.fixture
def remote_cluster(
    training_lab: Lab, images: Images, tmp_path: Path, train_cache: Path, digits: Path
) -> Iterator[LabCluster]:
    for host in training_lab.hosts:
        host.put("/srv/digits", {path.name: path.read_bytes() for path in digits.iterdir()})
    for made in open_lab_cluster(training_lab, tmp_path):
        made.env["XDG_CACHE_HOME"] = str(train_cache)
        yield made


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=() if case.name in ALWAYS else pytest.mark.matrix) for case in CASES],
)
def test_on_separate_hosts(remote_cluster: LabCluster, images: Images, s3_for_containers: S3Server, case: Case) -> None:
    trained = on_hosts(remote_cluster, images, case)
    if case.name == SHOWN:
        show_and_continue(trained, remote_cluster)
    elif case.name == LOST:
        lose_and_continue(trained, remote_cluster, s3_for_containers)
    else:
        check(trained)
    left = remote_cluster.lab.hosts if case.name != LOST else remote_cluster.lab.hosts[2:]
    assert not any(remote_cluster.containers(left).values())


def show_and_continue(trained: Trained, run: LabCluster) -> None:
    """A TensorBoard beside the chief shows the loss, and new containers train to the end from what was gathered."""
    chief = run.lab.hosts[0]
    trained.settings["all"]["children"]["tensorboard"] = {"hosts": {chief.name: chief.variables()}}

    def loss_is_shown() -> None:
        assert_only_reads(chief, trained.case.name)
        process = run.start("tensorboard")
        url = board_address(process)
        assert "<title>TensorBoard</title>" in (page_text(url) or "")
        until(lambda: read_losses(url), "the TensorBoard has read the events")
        close_web(process)

    trained.survives(loss_is_shown)
    assert trained.saved() == {trained.case.chief}
    assert run("status", "--placement")
    run("down")
    assert not any(run.containers().values())
    gathered = run.directory / "checkpoints" / trained.case.name
    entry = newest(gathered)
    assert entry["tensors"] > 0, "every tensor was read"
    trained.settings["all"]["vars"]["tfprov"]["end"] = {"wait": LONG}  # for the last checkpoint's quality
    del trained.settings["all"]["children"]["tensorboard"]  # it has been shown, and starts as slowly as a task
    trained.write(entry["step"] + MORE)
    output = run("run", "--resume", timeout=LONG)
    assert f"the training goes on from step {entry['step']} (gathered)" in output
    assert newest(gathered)["step"] >= entry["step"] + MORE
    assert float(_f1(output.splitlines()) or 0) >= QUALITY, output


def lose_and_continue(trained: Trained, run: LabCluster, s3: S3Server) -> None:
    """All hosts are switched off, none comes back, and another one trains to the end from what is in S3."""
    one, two, three, _ = run.lab.hosts
    own, children = trained.settings["all"]["vars"]["tfprov"], trained.settings["all"]["children"]
    url = f"s3://{seaweedfs.BUCKET}/{trained.case.name}/run-1"
    own["checkpoints"]["dir"], own["env"] = url, {**own["env"], **s3.env}
    remote = open_remote(url, s3.env)

    def in_s3() -> int:
        checkpoint = (manifest := read_newest(remote)) and manifest.newest()
        return checkpoint.step if checkpoint else -1

    trained.survives()
    assert trained.saved() == {trained.case.chief}
    assert run("status", "--placement")
    _await(lambda: in_s3() >= IN_S3, f"step {IN_S3} is in S3")
    one.stop()
    two.stop()
    for child in children.values():
        child["hosts"] = {three.name: three.variables()}
    children["worker"]["vars"]["tfprov"]["tasks_per_host"] = 2
    own["end"] = {"wait": LONG}  # for the last checkpoint's quality
    step = in_s3()
    trained.write(step + MORE)
    output = run("run", "--resume", timeout=LONG)
    assert f"the training goes on from step {step} ({url})" in output
    entry = newest(run.directory / "checkpoints" / trained.case.name)
    assert entry["step"] >= step + MORE
    assert entry["tensors"] > 0, "every tensor was read"
    assert float(_f1(output.splitlines()) or 0) >= QUALITY, output
    assert seaweedfs.SECRET not in output


def newest(directory: Path) -> dict[str, Any]:
    """Return the manifest's entry of the newest checkpoint in `directory`."""
    entry: dict[str, Any] = json.loads((directory / "manifest.json").read_text())["checkpoints"][-1]
    return entry


def on_hosts(remote_cluster: LabCluster, images: Images, case: Case) -> Trained:
    """Return the cluster of a case on two hosts, the chief's and its ps's, or on three where the chief is no worker."""
    one, two, _, four = remote_cluster.lab.hosts
    settings = shipped(case)
    own, children = settings["all"]["vars"]["tfprov"], settings["all"]["children"]
    chief = four if "chief" in children else one
    workers = [one, two] if "worker/1" in case.victims.values() else [one]
    places = {"ps": [two], "chief": [chief], "evaluator": [chief], "worker": workers}
    for role, child in children.items():
        child["hosts"] = {host.name: host.variables() for host in places[role]}
        child.get("vars", {}).get("tfprov", {}).pop("tasks_per_host", None)
    own["image"] = training(remote_cluster.directory, images.train_arguments())["image"]
    own |= {"port": 2222, "data": {"path": "/srv/digits"}, "start_timeout": LONG}
    own["checkpoints"] = {"to": str(remote_cluster.directory / "checkpoints")}
    hosts = {host.name: host for host in remote_cluster.lab.hosts}

    def kill(task: str) -> None:
        result = remote_cluster.tasks()[task]
        facts = hosts[result["host"]].client.api.inspect_container(result["id"])
        # Not by the engine, which starts nothing again that it has killed itself.
        hosts[result["host"]].run("kill", "-9", str(facts["State"]["Pid"]))

    def progress() -> str:
        volume = f"tfprov-{case.name}-{case.chief.replace('/', '-')}-checkpoints"
        path = chief.data_root / "volumes" / volume / "_data" / "progress.json"
        try:
            return path.read_text()
        except FileNotFoundError:
            return ""

    def saved() -> set[str]:
        volumes = (host.data_root / "volumes" for host in hosts.values())
        names = {path.parts[-3] for root in volumes for path in root.glob(f"tfprov-{case.name}-*/_data/model.ckpt*")}
        return {re.sub(r"^.*-(\w+)-(\d+)-checkpoints$", r"\1/\2", name) for name in names}

    return Trained(case, remote_cluster, settings, kill, progress, saved)


def test_the_readme_has_the_table_of_these_cases() -> None:
    text = PAGE.read_text()
    assert replaced(text) == text, "PAGE.md: run `python -m tests.strategies`"
