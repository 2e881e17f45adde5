"""The strategies of TF2 on real processes, each in a directory of its own as on separate hosts."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import PROGRAMS
from tests.support.programs import ProgramHosts, ProgramProcess, addresses, verify, whole
from tests.support.waiting import until
from tfprov.hosts.crash import last_words
from tfprov.runtime.peer_watch import greets
from tfprov.wiring import Wiring, to_tf_config

pytestmark = pytest.mark.tensorflow

JOBS = {"parameter_server": {"ps": 1, "chief": 1, "worker": 2}, "all_reduce": {"worker": 2}}
DONE = re.compile(r"^macro-F1 (\d\.\d{4})$", re.MULTILINE)

COUNTER = """
import argparse, time
import tensorflow as tf
from tfprov import runtime
from tfprov.runtime.lazy_tensorflow import eager_context
parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--train_steps", type=int, default=None)
parser.add_argument("--parameter_server", action="store_true")
parser.add_argument("--wrong", action="store_true")
parser.add_argument("--finite", action="store_true")
parser.add_argument("--max_wait_secs", type=float, default=300)
flags = parser.parse_known_args()[0]
if flags.parameter_server:
    task = runtime.parameter_server(min_shard_bytes=512, max_wait_secs=flags.max_wait_secs)
else:
    task = runtime.multi_worker_mirrored()
if service := eager_context().coordination_service:
    print("heartbeat", service.heartbeat_timeout_in_ms)
with task.strategy.scope():
    weights, ready = tf.Variable(tf.random.uniform([64, 8]), name="weights"), tf.Variable(False, name="ready")
batches = task.batches(lambda shard, shards: tf.data.Dataset.range(10).repeat(1 if flags.finite else None).batch(2))
def step(batch):
    if flags.wrong:
        tf.debugging.assert_equal(tf.size(batch), 3, "three were promised")
    return tf.reduce_sum(tf.cast(batch, tf.float32))
with task.training({"weights": weights, "ready": ready}, train_steps=flags.train_steps, save_every_steps=20) as training:
    parts = getattr(weights, "variables", [weights])
    print("weights", sum(float(tf.reduce_sum(part.read_value())) for part in parts))
    while not training.should_stop():
        training.run(step, batches)
        print("step", training.step)
        time.sleep(0.01)
"""
"""Variables that no step changes: what is in them at the end is what was there at the beginning."""


@dataclass
class Training:
    """A program on every task of a cluster."""

    hosts: ProgramHosts
    program: Path
    arguments: tuple[str, ...]
    cluster: dict[str, tuple[str, ...]]
    running: dict[str, ProgramProcess] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)

    def start(self, *others: str) -> None:
        for name in [*(f"{job}{index}" for job in self.cluster for index in range(len(self.cluster[job]))), *others]:
            wiring = Wiring(name[:-1], int(name[-1]), self.cluster)
            environ = {"TF_CONFIG": to_tf_config(wiring), "TF_CPP_MIN_LOG_LEVEL": "1", **self.environ}
            if name in others:
                environ["TFPROV_CHECKPOINT_DIR"] = str(self.saved())
            self.running[name] = self.hosts.start(self.program, *self.arguments, name=name, environ=environ)

    @property
    def chief(self) -> ProgramProcess:
        return self.running["chief0" if "chief" in self.cluster else "worker0"]

    def saved(self, name: str = "") -> Path:
        return (self.running[name] if name else self.chief).folder / "saved"

    def kill(self, name: str) -> None:
        self.running[name].popen.kill()
        self.running[name].wait()

    def macro_f1(self) -> float:
        evaluator = self.running["evaluator0"]
        evaluator.ends()
        match = DONE.search(evaluator.out)
        assert match, evaluator.out
        return float(match[1])


Trained = Callable[..., Training]


@pytest.fixture
def training_of(hosts: ProgramHosts, digits: Path) -> Trained:
    def start(strategy: str, *arguments: str) -> Training:
        arguments = (f"--data_dir={digits}", *arguments)
        training = Training(hosts, PROGRAMS / f"digits_{strategy}.py", arguments, addresses(**JOBS[strategy]))
        training.start("evaluator0")
        return training

    return start


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize("strategy", JOBS)
def test_checkpoints_summaries_and_placement_are_on_the_chief(training_of: Trained, strategy: str) -> None:
    training = training_of(strategy, "--train_steps=300")
    training.chief.ends()
    last = training.macro_f1()
    assert last >= 0.7, "it has learned: who guesses has 0.1"
    saved = training.saved()
    assert read(saved / "best" / "best.json")["value"] >= last - 1e-4
    assert max(whole(saved)) == 300
    code, results = verify(*(saved / prefix for prefix in whole(saved).values()))
    assert (code, {result["error"] for result in results}) == (0, {None})
    for name in set(training.running) - {training.chief.folder.name, "evaluator0"}:
        assert {path.name for path in training.saved(name).glob("*")} <= {"progress.json"}
    progress = read(saved / "progress.json")
    assert (progress["step"], progress["resumed"], progress["lost"]) == (300, None, None)
    assert progress["examples_rate"] > progress["rate"] > 0
    placement = {each["name"]: each for each in read(saved / "placement.json")["variables"]}
    assert placement["step"]["shape"] == []
    where = "/job:ps/task:0" if strategy == "parameter_server" else "/job:worker/task:0"
    assert {each["device"] for each in placement.values()} == {where}
    # The directory may be moved.
    moved = saved.rename(saved.parent / "moved")
    assert "model.ckpt-300" in (moved / "checkpoint").read_text()
    assert str(saved.parent) not in (moved / "checkpoint").read_text()


@pytest.mark.parametrize("strategy", JOBS)
def test_machines_of_one_core_are_enough(hosts: ProgramHosts, digits: Path, strategy: str) -> None:
    arguments = (f"--data_dir={digits}", "--train_steps=40")
    training = Training(hosts, PROGRAMS / f"digits_{strategy}.py", arguments, addresses(**JOBS[strategy]))
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # what is started meanwhile has one core, and so TensorFlow as many threads
    try:
        training.start()
    finally:
        os.sched_setaffinity(0, cores)
    training.chief.ends()
    assert max(whole(training.saved())) == 40


@pytest.fixture
def counter(hosts: ProgramHosts, tmp_path: Path) -> Callable[..., Training]:
    program = tmp_path / "counter.py"
    program.write_text(COUNTER)

    def start(cluster: dict[str, tuple[str, ...]], *arguments: str) -> Training:
        training = Training(hosts, program, arguments, cluster)
        training.start()
        return training

    return start


def has_stepped(process: ProgramProcess) -> bool:
    return len(process.times("step")) > 5


def test_sigterm_to_one_replica_saves_and_ends_all_and_each_resumes_with_the_same_model(
    counter: Callable[..., Training],
) -> None:
    training = counter(addresses(worker=3))
    training.chief.until(has_stepped)
    training.running["worker2"].popen.terminate()
    assert [process.wait() for process in training.running.values()] == [143, 143, 143]
    output = re.search(
        r"worker/0 stopped by a signal to another task; saved saved/model.ckpt-(\d+)$", training.chief.err, re.MULTILINE
    )
    assert output, training.chief.err
    assert "worker/2 stopped by SIGTERM at step " + output[1] in training.running["worker2"].err
    assert not whole(training.saved("worker1"))
    assert training.chief.times("heartbeat") == [60_000], "a busy core is no lost task"
    weights = training.chief.times("weights")

    # What they begin with is random: the same numbers again are those of the chief's checkpoint.
    again = counter(training.cluster, f"--train_steps={int(output[1]) + 5}")
    assert [process.wait() for process in again.running.values()] == [0, 0, 0]
    assert [process.times("weights") for process in again.running.values()] == [weights] * 3
    assert f"tfprov: worker/0 goes on from saved/model.ckpt-{output[1]}" in again.chief.err


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["worker0", "worker1"])
def test_a_replica_that_stands_still_for_15_seconds_is_not_lost(counter: Callable[..., Training], name: str) -> None:
    training = counter(addresses(worker=2))
    training.chief.until(has_stepped)
    process = training.running[name].popen
    process.send_signal(signal.SIGSTOP)
    time.sleep(15)  # TensorFlow waits for 10 by default, the watch for 20
    process.send_signal(signal.SIGCONT)
    steps = len(training.chief.times("step"))
    training.chief.until(lambda chief: len(chief.times("step")) > steps + 100)
    process.terminate()
    assert [running.wait() for running in training.running.values()] == [143, 143]


def test_a_variable_is_split_among_ps_saved_whole_and_read_by_another_number_of_them(
    counter: Callable[..., Training],
) -> None:
    training = counter(addresses(ps=2, chief=1, worker=1), "--parameter_server")
    training.chief.until(has_stepped)
    training.chief.popen.terminate()
    training.chief.ends(143)
    output = re.search(
        r"^tfprov: chief/0 stopped by SIGTERM; saved saved/model.ckpt-(\d+)$", training.chief.err, re.MULTILINE
    )
    assert output, training.chief.err
    saved = training.saved()
    code, _ = verify(saved / f"model.ckpt-{output[1]}")
    assert code == 0
    assert not list(training.saved("ps0").glob("*")) + list(training.saved("ps1").glob("*"))
    parts = [each for each in read(saved / "placement.json")["variables"] if each["name"].startswith("weights")]
    assert sorted(part["device"] for part in parts) == ["/job:ps/task:0", "/job:ps/task:1"]
    assert sum(part["bytes"] for part in parts) == 64 * 8 * 4
    weights = training.chief.times("weights")
    for name in ("ps0", "ps1", "worker0"):
        training.running[name].popen.terminate()
        assert training.running[name].wait() == 143

    again = counter(addresses(ps=1, chief=1, worker=1), "--parameter_server", f"--train_steps={int(output[1]) + 5}")
    again.chief.ends()
    assert again.chief.times("weights") == pytest.approx(weights)


def test_fit_of_keras_saves_resumes_and_ends_as_a_loop_does(hosts: ProgramHosts, digits: Path) -> None:
    common = (f"--data_dir={digits}", "--save_every_steps=50")
    endless = (*common, "--train_steps=1000000")  # it must not be at its end before the worker is lost
    training = Training(hosts, PROGRAMS / "digits_fit.py", endless, addresses(worker=2))
    training.environ = {"TF_USE_LEGACY_KERAS": "1"}
    training.start()
    until(
        lambda: training.saved().is_dir() and whole(training.saved()), "the first checkpoint", of=training.chief.popen
    )
    training.kill("worker1")
    training.chief.ends(1)
    assert "worker/0: lost worker/1" in training.chief.err
    before = max(whole(training.saved()))
    assert before >= 50
    steps = before + 150
    training.arguments = (*common, f"--train_steps={steps}")
    training.start("evaluator0")
    training.chief.ends()
    assert training.running["worker1"].wait() == 0
    assert f"tfprov: worker/0 goes on from saved/model.ckpt-{before}" in training.chief.err
    assert max(whole(training.saved())) == steps
    progress = read(training.saved() / "progress.json")
    assert (progress["step"], progress["resumed"]) == (steps, before)
    assert training.macro_f1() >= 0.7, "it has learned: who guesses has 0.1"


def test_fit_of_keras_3_on_several_workers_ends_at_the_start_with_one_line(hosts: ProgramHosts, digits: Path) -> None:
    training = Training(hosts, PROGRAMS / "digits_fit.py", (f"--data_dir={digits}",), addresses(worker=2))
    training.start()
    assert [process.wait() for process in training.running.values()] == [2, 2]
    assert re.search(
        r"^tfprov: error: worker/0: Model.fit of Keras 3\S+ cannot train on several workers: install .tf-keras==2",
        training.chief.err.splitlines()[-1],
    ), training.chief.err


def test_a_lost_ps_ends_the_chief_with_one_line(counter: Callable[..., Training]) -> None:
    training = counter(addresses(ps=1, chief=1, worker=1), "--parameter_server")
    training.chief.until(has_stepped)
    assert greets(training.cluster["chief"][0]), "what waits for every task to serve waits for the chief too"
    training.kill("ps0")
    training.chief.ends(1)
    reason = last_words(training.chief.err.splitlines())
    assert reason.startswith(f"tfprov: error: chief/0: lost ps/0 at {training.cluster['ps'][0]}"), training.chief.err


def test_a_chief_without_any_worker_saves_and_ends(counter: Callable[..., Training]) -> None:
    training = counter(addresses(ps=1, chief=1, worker=1), "--parameter_server", "--max_wait_secs=30")
    training.chief.until(has_stepped)
    training.kill("worker0")
    training.chief.ends(1)
    last = training.chief.err.splitlines()[-1]
    what = rf"the loss of worker/0 at {training.cluster['worker'][0]}: no answer for 30 s; saved saved/model.ckpt-(\d+)"
    saved = re.fullmatch(f"tfprov: chief/0 stopped by {what}", last)
    assert saved, training.chief.err
    assert int(saved[1]) in whole(training.chief.folder / "saved")


def test_a_task_that_is_alone_ends_with_its_data_and_others_say_that_these_ended(
    counter: Callable[..., Training], hosts: ProgramHosts
) -> None:
    training = counter(addresses(ps=1, chief=1, worker=1), "--parameter_server", "--finite")
    alone = hosts.start(training.program, "--finite")
    alone.ends()
    assert "step 5\n" in alone.out
    assert whole(alone.folder / "saved")
    training.chief.ends(2)
    assert "tfprov: error: chief/0: the data of a task ended; add `.repeat()` to the dataset\n" in training.chief.err


def test_tensorflow_prepares_the_copies_from_all_tasks_in_one_thread_before_the_first_step(
    hosts: ProgramHosts, tmp_path: Path
) -> None:
    # A copy is prepared by the first thread that needs it; another one that copies at that moment crashes the chief.
    program = tmp_path / "counter.py"
    program.write_text(COUNTER)
    arguments = ["--parameter_server", "--train_steps=12"]
    cluster = addresses(ps=1, worker=2, chief=1)
    for job, index in [("ps", 0), ("worker", 0), ("worker", 1), ("chief", 0)]:
        environ = {"TF_CONFIG": to_tf_config(Wiring(job, index, cluster)), "TF_CPP_MIN_LOG_LEVEL": "0"}
        environ["TF_CPP_VMODULE"] = "cluster_function_library_runtime=1"  # read at the import: hence `fresh`
        task = hosts.start(program, *arguments, name=f"{job}{index}", environ=environ, fresh=job == "chief")
    task.ends()
    copies = re.compile(
        r"^I\S* \S+ +(\d+) .* CFLR::Instantiate: \S*Identity\S* on /job:(\S+?)/replica:0/task:(\d)", re.MULTILINE
    )
    prepared = copies.findall(task.err)
    assert {(job, index) for _, job, index in prepared} == {("ps", "0"), ("worker", "0"), ("worker", "1")}
    assert {int(thread) for thread, _, _ in prepared} == {task.popen.pid}


CONNECTED = """
from pathlib import Path
from tfprov.runtime.eager.parameter_server import prepare_copies
Path("connected").touch()
while not Path("killed").exists():
    time.sleep(0.02)
prepare_copies(task.wiring)
"""
"""As if a worker was lost after the chief has connected to it and before the copies are prepared."""


def test_a_worker_that_is_lost_before_its_copies_are_prepared_is_skipped(hosts: ProgramHosts, tmp_path: Path) -> None:
    program = tmp_path / "counter.py"
    program.write_text(COUNTER.replace("if service :=", f"{CONNECTED}if service :="))
    training = Training(hosts, program, ("--parameter_server", "--train_steps=20"), addresses(ps=1, chief=1, worker=2))
    training.start()
    folder = training.chief.folder
    training.chief.until(lambda _: (folder / "connected").exists())
    training.kill("worker0")
    (folder / "killed").touch()
    training.chief.ends()
    assert 20 in whole(folder / "saved")


def test_an_error_in_a_step_ends_the_chief(counter: Callable[..., Training]) -> None:
    training = counter(addresses(ps=1, chief=1, worker=1), "--parameter_server", "--wrong")
    training.chief.ends(1)
    assert "three were promised" in training.chief.err


@pytest.mark.parametrize("strategy", ["parameter_server", "multi_worker_mirrored"])
def test_the_same_program_trains_alone(hosts: ProgramHosts, tmp_path: Path, strategy: str) -> None:
    program = tmp_path / "counter.py"
    program.write_text(COUNTER)
    arguments = ["--parameter_server"] if strategy == "parameter_server" else []
    alone = hosts.start(program, "--train_steps=30", *arguments)
    alone.ends()
    assert sorted(whole(alone.folder / "saved")) == [20, 30]
