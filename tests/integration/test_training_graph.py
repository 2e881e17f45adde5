"""Training with the graph API on real digits, and recovery when a task is killed.

That each reaches its quality is shown by `test_strategies.py`, and here where that has no case.

The test stands in for tfprov: it starts every task as a process with flags or TF_CONFIG, and starts a killed one again.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import PROGRAMS
from tests.support.programs import ProgramHosts, ProgramProcess, addresses, python, verify, whole
from tests.support.waiting import LONG
from tfprov.formats.checkpoint import parse_state
from tfprov.wiring import Wiring, to_flags, to_names, to_tf_config

pytestmark = pytest.mark.tensorflow

QUALITY = 0.93
LEARNED = 0.7
"""After a part of the steps; who guesses has 0.1."""


@dataclass
class Training:
    """The tasks of one training; `again` is what a supervisor does."""

    hosts: ProgramHosts
    program: str
    arguments: tuple[str, ...]
    cluster: dict[str, tuple[str, ...]]
    environ: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    tasks: dict[str, ProgramProcess] = field(default_factory=dict)

    @property
    def chief(self) -> str:
        return "chief/0" if "chief" in self.cluster else "worker/0"

    @property
    def saved(self) -> Path:
        return self.hosts.base / self.chief.replace("/", "") / "saved"

    def start(self, first: str | None = None) -> "Training":
        """Start all; the others once `first` waits for them, so that none of them can be done before it has joined."""
        if first:
            self.again(first).until(lambda process: "Scanning workers for devices" in process.err)
        for job, addresses_of_job in self.cluster.items():
            for index in range(len(addresses_of_job)):
                if (name := f"{job}/{index}") != first:
                    self.again(name)
        self.again("evaluator/0")
        return self

    def again(self, name: str) -> ProgramProcess:
        job, _, index = name.partition("/")
        wiring = Wiring(job, int(index), self.cluster)
        environ = dict(self.environ)
        if job == "evaluator":
            environ["TFPROV_CHECKPOINT_DIR"] = str(self.saved)
        if "chief" in self.cluster:
            environ["TF_CONFIG"], flags = to_tf_config(wiring), []
        else:
            flags = to_flags(wiring, self.names)
        place, program = name.replace("/", ""), PROGRAMS / self.program
        self.tasks[name] = self.hosts.start(program, *flags, *self.arguments, name=place, environ=environ)
        return self.tasks[name]

    def kill(self, name: str) -> ProgramProcess:
        """End it as nothing else does, wait as a supervisor would, and start it again."""
        killed = self.tasks[name]
        killed.popen.kill()
        killed.popen.wait()
        time.sleep(1)
        return self.again(name)

    def reach(self, step: int) -> None:
        """Wait until the chief has saved this step, or a later one."""
        self.tasks[self.chief].until(lambda _: self.saved.is_dir() and max(whole(self.saved), default=-1) >= step, LONG)

    def end(self) -> str:
        """Wait for everybody who comes to an end; return the last line of the evaluator."""
        ending = [name for name in self.tasks if not name.startswith("ps/") and not self.serves(name)]
        assert {name: self.tasks[name].wait(LONG) for name in ending} == dict.fromkeys(ending, 0)
        return self.tasks["evaluator/0"].out.splitlines()[-1]

    def serves(self, name: str) -> bool:
        return self.program == "digits_in_graph.py" and name.startswith("worker/")

    def output(self, name: str) -> dict[str, Any]:
        result = json.loads((self.hosts.base / name.replace("/", "") / "saved" / "progress.json").read_text())
        assert isinstance(result, dict)
        return result


Trained = Callable[..., Training]


@pytest.fixture
def training(hosts: ProgramHosts, digits: Path) -> Trained:
    def start(
        program: str, *arguments: str, steps: int = 1500, workers: int = 2, ps: int = 1, first: str | None = None
    ) -> Training:
        jobs = {"ps": ps, "worker": workers} | ({"chief": 1} if program == "digits_in_graph.py" else {})
        common = (f"--data_dir={digits}", f"--train_steps={steps}", *arguments)
        return Training(hosts, program, common, addresses(**jobs)).start(first)

    return start


def quality(line: str) -> float:
    match = re.fullmatch(r"macro-F1 (\d\.\d{4})", line)
    assert match, line
    return float(match[1])


SUMMARIES = """
import sys, tensorflow as tf
for path in sys.argv[1:]:
    for event in tf.compat.v1.train.summary_iterator(path):
        if event.graph_def:
            print("graph")
        for value in event.summary.value:
            print(value.metadata.plugin_data.plugin_name or value.WhichOneof("value"), value.tag)
"""


def summaries(folder: Path) -> set[str]:
    return set(python(SUMMARIES, *map(str, folder.glob("events.out.*"))).splitlines())


def test_asynchronous_training_reports_progress_placement_and_summaries(training: Trained, hosts: ProgramHosts) -> None:
    result = training("digits.py", "--placement=greedy", "--save_every_steps=150", steps=600, ps=2, first="worker/1")
    assert quality(result.end()) >= LEARNED
    saved = result.saved

    assert 600 <= max(whole(saved)) <= 601
    assert verify(saved / whole(saved)[max(whole(saved))])[0] == 0
    assert {"graph", "simple_value loss", "histo logits"} <= summaries(saved)
    assert {"simple_value macro-F1", "simple_value accuracy/9"} <= summaries(saved / "eval")
    results = re.findall(r"^step (\d+) macro-F1 (\d\.\d{4}) accuracy/0 ", result.tasks["evaluator/0"].out, re.MULTILINE)
    assert len(results) >= 3
    best = json.loads((saved / "best" / "best.json").read_text())
    assert best["value"] == pytest.approx(max(float(value) for _, value in results), abs=1e-4)
    assert parse_state((saved / "best" / "checkpoint").read_text()) == [best["checkpoint"]]
    assert verify(saved / "best" / best["checkpoint"])[0] == 0

    chief, worker = result.output("worker/0"), result.output("worker/1")
    assert chief["task"] == "worker/0"
    assert chief["steps"] + worker["steps"] >= 600
    assert min(chief["steps"], worker["steps"]) > 50, "both trained"
    assert worker["examples_rate"] == pytest.approx(64 * worker["rate"], rel=0.01)
    assert (chief["resumed"], chief["lost"]) == (None, None)
    variables = json.loads((saved / "placement.json").read_text())["variables"]
    where = {variable["name"]: variable["device"] for variable in variables}
    assert where["model/hidden"] != where["model/labels"], "by bytes, the second largest does not lie with the largest"
    assert where["model/hidden/Adam"] == where["model/hidden"]
    assert set(where.values()) == {"/job:ps/task:0", "/job:ps/task:1"}
    assert next(each for each in variables if each["name"] == "model/hidden")["bytes"] == 4 * 64 * 128
    assert "worker/1 reads 2 files of the 4" in result.tasks["worker/1"].err
    assert not list((hosts.base / "worker1" / "saved").glob("model.ckpt*"))


def test_every_worker_does_every_synchronous_step(training: Trained) -> None:
    result = training("digits.py", "--sync", steps=300)
    assert quality(result.end()) >= LEARNED
    assert result.output("worker/0")["steps"] + result.output("worker/1")["steps"] >= 2 * 300 - 2 * 5


def test_the_same_program_alone_trains_and_evaluates(hosts: ProgramHosts, digits: Path) -> None:
    alone = hosts.start(PROGRAMS / "digits.py", f"--data_dir={digits}", "--train_steps=1000", "--sync")
    alone.ends()
    assert quality(alone.out.splitlines()[-1]) >= QUALITY


def test_one_client_trains_on_all_workers_and_survives_the_loss_of_one(training: Trained, hosts: ProgramHosts) -> None:
    result = training("digits_in_graph.py", "--save_every_steps=100", steps=500, ps=2)
    result.reach(200)
    result.kill("worker/1")
    assert quality(result.end()) >= LEARNED
    assert max(whole(result.saved)) == 500
    err = result.tasks["chief/0"].err
    assert "chief/0, tower 1, reads 2 files of the 4" in err
    assert re.search(r"^tfprov: chief/0 goes on at step \d+, which the ps have kept$", err, re.MULTILINE)
    assert result.output("chief/0")["lost"] is None
    for name in ("worker0", "worker1", "ps0"):
        assert not (hosts.base / name / "saved").exists()
    worker = result.tasks["worker/0"]
    worker.popen.terminate()
    worker.ends(143)


def test_mnist_with_flags_of_its_own_and_the_reference_ones(hosts: ProgramHosts, digits: Path) -> None:
    names = {"ps_hosts": "ps", "worker_hosts": "workers", "job_name": "job", "task_index": "number"}
    arguments = (
        f"--data_dir={digits}",
        "--train_steps=1200",
        "--hidden1=64",
        "--hidden2=32",
        "--batch_size=50",
        "--async",
    )
    result = Training(hosts, "mnist.py", arguments, addresses(ps=1, worker=2), {"TFPROV_FLAGS": to_names(names)}, names)
    match = re.fullmatch(r"accuracy (\d\.\d{4})", result.start().end())
    assert match
    assert float(match[1]) >= 0.93
    assert 1200 <= max(whole(result.saved)) <= 1201
    assert "worker/1 reads records 1, 3, … of 1 file" in result.tasks["worker/1"].err


STALE = """
import sys, time
import tensorflow.compat.v1 as tf
from tfprov import runtime
steps, backups = int(sys.argv[-2]), int(sys.argv[-1])
task = runtime.join()
with task.device():
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", [], tf.float64, tf.zeros_initializer())
    seen = tf.cast(step.read_value(), tf.float64)
    def slowly(value):
        time.sleep(0.005 + 0.03 * task.replica)
        return value
    late = tf.numpy_function(slowly, [seen], tf.float64, stateful=True)
    late.set_shape([])
    optimizer, hooks = task.synchronous(tf.train.GradientDescentOptimizer(1.0), backups)
    train = optimizer.minimize(w * tf.stop_gradient(late), step)
with task.session(train_steps=steps, hooks=hooks) as session:
    while not session.should_stop():
        session.run(train)
    reads = [session.run([w, step])]
    while reads[-5:] != 5 * reads[-1:]:  # a worker that has not left yet may be in the middle of one more step
        time.sleep(0.2)
        reads.append(session.run([w, step]))
    if task.is_chief:
        print("sum", *reads[-1])
"""
"""The gradient of w is the step it was computed in: after N steps w is -(0 + 1 + … + N-1), unless a stale one counted."""


def stale(hosts: ProgramHosts, tmp_path: Path, steps: int, backups: int) -> tuple[ProgramProcess, ProgramProcess]:
    program = tmp_path / "stale.py"
    program.write_text(STALE)
    cluster = addresses(ps=1, worker=2)
    hosts.task(program, Wiring("ps", 0, cluster), str(steps), str(backups))
    chief, worker = (hosts.task(program, Wiring("worker", i, cluster), str(steps), str(backups)) for i in range(2))
    return chief, worker


@pytest.mark.parametrize("backups", [0, 1])
def test_no_stale_gradient_counts(hosts: ProgramHosts, tmp_path: Path, backups: int) -> None:
    chief, worker = stale(hosts, tmp_path, 100, backups)
    chief.ends()
    worker.ends()
    total, steps = (float(value) for value in chief.out.split()[1:3])
    assert steps >= 100
    assert total == -sum(range(int(steps)))


def test_a_backup_worker_may_die_for_good(hosts: ProgramHosts, tmp_path: Path) -> None:
    chief, worker = stale(hosts, tmp_path, 1000, 1)
    progress = worker.folder / "saved" / "progress.json"
    worker.until(lambda _: progress.is_file() and json.loads(progress.read_text())["steps"] > 1)
    worker.popen.kill()
    chief.ends()
    total, steps = (float(value) for value in chief.out.split()[1:3])
    assert total == -sum(range(int(steps)))
