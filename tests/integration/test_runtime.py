"""Real TensorFlow processes, one per task, each in its own directory with relative paths, as on separate hosts."""

import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.paths import PROGRAMS
from tests.support.programs import ProgramHosts, ProgramProcess, addresses, python, verify, whole
from tfprov.formats.checkpoint import parse_state
from tfprov.runtime.peer_watch import greets
from tfprov.wiring import Wiring, to_tf_config

pytestmark = pytest.mark.tensorflow

LEARNS = "--train_steps=400"
"""Of linear.py: each step leaves 97 % of the error, so that after 400 of them nothing is left but the noise."""
DONE = re.compile(r"done: step=(\d+) loss=(\d\.\d{4}) W=(-?\d\.\d{4}) b=(-?\d\.\d{4})")
COUNTER = """
import argparse, os, sys, time
import tensorflow.compat.v1 as tf
from tfprov import runtime
parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--train_steps", type=int, default=None)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--slow_until", default=os.curdir)
parser.add_argument("--save_every_steps", type=int, default=None)
parser.add_argument("--max_wait_secs", type=float, default=float("inf"))
parser.add_argument("--hold")
flags = parser.parse_known_args()[0]
task = runtime.join()
with task.device():
    step = tf.train.get_or_create_global_step()
    weights = tf.get_variable("weights", [64, 64], partitioner=tf.fixed_size_partitioner(2))
    train = tf.assign_add(step, 1)
with task.session(
    train_steps=flags.train_steps, save_every_steps=flags.save_every_steps, max_wait_secs=flags.max_wait_secs
) as session:
    print("session", time.time())
    while not session.should_stop():
        session.run(train)
        print("step", time.time())
        while flags.hold and not os.path.exists(flags.hold):
            time.sleep(0.05)
        time.sleep(flags.pause if os.path.exists(flags.slow_until) else 0.2)
print("end")
"""
"""Counts, slowly where a test must meet it in the middle: until a file is there, where it says when. With `--hold`, waits
for a file after its first step."""

SYNCHRONOUS = """
import tensorflow.compat.v1 as tf
from tfprov import runtime
task = runtime.join()
with task.device():
    step = tf.train.get_or_create_global_step()
    loss = tf.square(tf.get_variable("w", []) - 2.0)
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), task.replicas)
    train = optimizer.minimize(loss, step)
with task.session(train_steps=100, hooks=[optimizer.make_session_run_hook(task.is_chief)]) as session:
    while not session.should_stop():
        session.run(train)
"""
"""Every step needs the gradients of all workers."""

CANCELLED = """
import sys
import tensorflow.compat.v1 as tf
from tfprov import runtime
at, where, why = int(sys.argv[1]), sys.argv[2], sys.argv[3]
due = []
def once(call):
    def called(*arguments, **options):
        values = call(*arguments, **options)
        if due:
            raise tf.errors.CancelledError(None, None, due.pop())
        return values
    return called
if where == "step":
    tf.Session.run = once(tf.Session.run)
else:
    make = tf.Session.make_callable
    tf.Session.make_callable = lambda *arguments, **options: once(make(*arguments, **options))
task = runtime.join()
with task.device():
    step = tf.train.get_or_create_global_step()
    queue = tf.FIFOQueue(1, [tf.int64])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(step)]))
    train = tf.group(tf.assign_add(step, 1), queue.dequeue())
taken = 0
with task.session(train_steps=20, save_every_steps=2) as session:
    while not session.should_stop():
        due += [why] if taken == at else []
        taken += 1
        session.run(train)
"""
"""One step, or one of a queue's thread, is cancelled. The queue holds one, so that the thread has no step to spare."""

LOST = """Graph execution error:

=====================
CANCELLED: From /job:worker/replica:0/task:1:
RecvFromRemoteAsync is cancelled.
\t [[{{node global_step/Read/ReadVariableOp_S19}}]]
ABORTED: From /job:ps/replica:0/task:0:
Session handle is not found: 5bbdfa5f28a2b995. Possibly this worker ("/job:ps/replica:0/task:0") just restarted.
====================="""
"""What TensorFlow 2.21 says, now and then, of a step whose ps has come back since the last one."""

POLL = "Scanning workers for devices"
"""What TensorFlow prints each time that it looks whether the chief has made the session."""


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    path = tmp_path / "counter.py"
    path.write_text(COUNTER)
    return path


def learned(process: ProgramProcess) -> tuple[int, float, float, float]:
    match = DONE.fullmatch(process.out.splitlines()[-1])
    assert match, process.out
    return int(match[1]), float(match[2]), float(match[3]), float(match[4])


def has_stepped(process: ProgramProcess) -> bool:
    return len(process.times("step")) > 2


SUMMARIES = """
import sys, tensorflow as tf
for path in sys.argv[1:]:
    for event in tf.compat.v1.train.summary_iterator(path):
        for value in event.summary.value:
            print(value.tag, event.step, value.WhichOneof("value"))
"""


def test_two_workers_learn_and_everything_lies_with_the_chief(hosts: ProgramHosts) -> None:
    cluster = addresses(ps=1, worker=2)
    ps, chief, worker = (
        hosts.task(PROGRAMS / "linear.py", Wiring(job, index, cluster), LEARNS)
        for job, index in (("ps", 0), ("worker", 0), ("worker", 1))
    )
    chief.ends()
    worker.ends()
    step, loss, w, b = learned(chief)
    # Asynchronous: the other worker may end one more step after the last one.
    assert 400 <= step <= 401
    assert loss < 0.05
    assert abs(w - 2) < 0.05
    assert abs(b) < 0.05
    assert "done:" not in worker.out

    ps.popen.terminate()
    assert ps.wait() == 143, "TensorFlow's own join would never have returned"
    assert "Traceback" not in ps.err

    assert not (ps.folder / "saved").exists()
    assert [path.name for path in (worker.folder / "saved").iterdir()] == ["progress.json"]
    saved = chief.folder / "saved"
    assert max(whole(saved)) >= 400
    code, results = verify(*(saved / prefix for prefix in whole(saved).values()))
    assert code == 0
    assert all(result["tensors"] == 3 and result["error"] is None for result in results)
    assert not any("/" in path for path in parse_state((saved / "checkpoint").read_text()))
    output = python(SUMMARIES, *map(str, saved.glob("events.out.*")))
    assert {line.split()[0] for line in output.splitlines()} == {"loss", "prediction", "global_step/sec"}
    assert re.search(r"^loss \d{3,4} (simple_value|tensor)$", output, re.MULTILINE)


def test_a_worker_that_was_there_first_joins_soon_after_the_chief(hosts: ProgramHosts, counter: Path) -> None:
    cluster = addresses(ps=2, worker=2)
    for index in range(2):
        hosts.task(counter, Wiring("ps", index, cluster))
    worker = hosts.task(counter, Wiring("worker", 1, cluster), "--train_steps=100000")
    worker.until(lambda process: process.err.count(POLL) > 1)
    began = time.monotonic()
    worker.until(lambda process: process.err.count(POLL) > 5)
    polled = time.monotonic() - began
    assert polled < 60, "of TensorFlow's own, four polls take two minutes; of ours 4 s, and more on a busy machine"
    chief = hosts.task(counter, Wiring("worker", 0, cluster), "--train_steps=100000")
    chief.until(has_stepped)
    worker.until(has_stepped)


def test_a_stopped_chief_saves_its_step_and_its_restart_resumes_there(hosts: ProgramHosts, counter: Path) -> None:
    cluster = addresses(ps=1, worker=2)
    ps = hosts.task(counter, Wiring("ps", 0, cluster))
    arguments = ("--train_steps=100000", "--pause=0.02")
    chief = hosts.task(counter, Wiring("worker", 0, cluster), *arguments)
    chief.until(has_stepped)
    # A ps that does not answer for a while delays the step and the save; neither may be lost.
    ps.popen.send_signal(signal.SIGSTOP)
    chief.popen.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        chief.popen.wait(2)
    ps.popen.send_signal(signal.SIGCONT)
    chief.ends(143)
    assert "end" not in chief.out.split()
    match = re.search(r"^tfprov: worker/0 stopped by SIGTERM; saved saved/model.ckpt-(\d+)$", chief.err, re.MULTILINE)
    assert match
    assert "Traceback" not in chief.err
    step = int(match[1])
    assert step >= 3
    assert max(whole(chief.folder / "saved")) == step

    # A ps that starts anew has nothing: what the training goes on from is the chief's own disk.
    ps.popen.terminate()
    ps.wait()
    hosts.task(counter, Wiring("ps", 0, cluster))
    again = hosts.task(counter, Wiring("worker", 0, cluster), *arguments)
    worker = hosts.task(counter, Wiring("worker", 1, cluster), *arguments)
    again.until(has_stepped)
    assert f"tfprov: worker/0 goes on from saved/model.ckpt-{step}\n" in again.err
    worker.until(has_stepped)
    worker.popen.terminate()
    worker.ends(143)
    assert re.search(r"^tfprov: worker/1 stopped by SIGTERM at step \d+$", worker.err, re.MULTILINE)
    again.popen.send_signal(signal.SIGINT)
    again.ends(130)


def test_a_single_task_learns_and_resumes_from_the_newest_whole_checkpoint(hosts: ProgramHosts, counter: Path) -> None:
    first = hosts.start(counter, "--train_steps=30", "--save_every_steps=10")
    first.ends()
    saved = first.folder / "saved"
    assert max(whole(saved)) == 30
    (saved / "model.ckpt-900.index").write_bytes(b"torn")
    (saved / "model.ckpt-901.data-00000-of-00001.tempstate1234").write_bytes(b"left")
    (saved / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model.ckpt-900"\n')

    second = hosts.start(counter, "--train_steps=50")
    second.ends()
    assert "tfprov: worker/0 goes on from saved/model.ckpt-30\n" in second.err
    assert len(second.times("step")) == 20
    assert max(whole(saved)) == 50
    assert not list(saved.glob("*tempstate*"))

    third = hosts.start(counter, "--train_steps=50")
    third.ends()
    assert third.times("step") == []


def test_linear_learns_on_a_single_machine(hosts: ProgramHosts) -> None:
    alone = hosts.start(PROGRAMS / "linear.py", LEARNS, fresh=True)
    alone.ends()
    step, _, w, b = learned(alone)
    assert step == 400
    assert (round(w, 1), abs(round(b, 1))) == (2.0, 0.0)


def test_tf_config_with_a_chief_job(hosts: ProgramHosts) -> None:
    cluster = addresses(ps=1, chief=1, worker=1)
    _, chief, worker = (
        hosts.start(
            PROGRAMS / "linear.py", LEARNS, name=job, environ={"TF_CONFIG": to_tf_config(Wiring(job, 0, cluster))}
        )
        for job in ("ps", "chief", "worker")
    )
    chief.ends()
    worker.ends()
    assert learned(chief)[0] >= 400
    assert max(whole(chief.folder / "saved")) >= 400
    assert "done:" not in worker.out


def test_the_textbook_program_runs_unchanged(hosts: ProgramHosts) -> None:
    cluster = addresses(ps=1, worker=1)
    program, wiring = PROGRAMS / "textbook.py", [Wiring(job, 0, cluster) for job in ("ps", "worker")]
    for each in wiring:
        # Its ps writes to its own disk, and fails where the directory does not exist.
        (hosts.base / f"{each.job}0" / "checkpoints").mkdir(parents=True)
    ps, chief = (hosts.task(program, each, "--train_steps=500", fresh=True) for each in wiring)
    chief.ends()
    # The step may be read before its update or after it, so that one of the two may go by untold.
    assert re.search(r"^step [24]00 loss 0\.0", chief.out, re.MULTILINE)
    assert whole(chief.folder / "checkpoints") == {}
    assert max(whole(ps.folder / "checkpoints")) == 500


def test_training_ends_well_after_a_ps_was_killed_and_came_back(
    hosts: ProgramHosts, counter: Path, tmp_path: Path
) -> None:
    cluster = addresses(ps=1, worker=2)
    ps = hosts.task(counter, Wiring("ps", 0, cluster))
    on = tmp_path / "on"
    arguments = ("--train_steps=1000", f"--slow_until={on}", "--save_every_steps=20")
    chief, worker = (hosts.task(counter, Wiring("worker", index, cluster), *arguments) for index in range(2))
    for process in (chief, worker):
        process.until(lambda process: len(process.times("step")) > 15)
    chief.until(lambda process: max(whole(process.folder / "saved"), default=0) >= 20)
    ps.popen.kill()
    ps.wait()
    hosts.task(counter, Wiring("ps", 0, cluster))
    on.touch()
    chief.ends()
    worker.ends()
    back = re.search(r"^tfprov: worker/0 goes on from saved/model.ckpt-(\d+)$", chief.err, re.MULTILINE)
    assert back
    assert int(back[1]) >= 20
    assert 1000 <= max(whole(chief.folder / "saved")) <= 1001


@pytest.mark.parametrize("where", ["step", "queue"])
def test_a_step_that_is_cancelled_because_a_ps_was_lost_is_recovered_from(
    hosts: ProgramHosts, tmp_path: Path, where: str
) -> None:
    program = tmp_path / "cancelled.py"
    program.write_text(CANCELLED)
    alone = hosts.start(program, "7", where, LOST)
    alone.ends()
    assert re.search(r"^tfprov: worker/0 goes on from saved/model.ckpt-\d+$", alone.err, re.MULTILINE)
    assert max(whole(alone.folder / "saved")) == 20


@pytest.mark.parametrize("where", ["step", "queue"])
def test_a_step_that_is_cancelled_for_a_reason_of_its_own_ends_the_training(
    hosts: ProgramHosts, tmp_path: Path, where: str
) -> None:
    program = tmp_path / "cancelled.py"
    program.write_text(CANCELLED)
    alone = hosts.start(program, "7", where, "Dequeue operation was cancelled")
    alone.ends(1)
    assert "CancelledError: Dequeue operation was cancelled" in alone.err
    assert "goes on from" not in alone.err


def test_a_worker_in_its_last_step_ends_well_when_the_ps_has_left_with_the_chief(
    hosts: ProgramHosts, counter: Path, tmp_path: Path
) -> None:
    cluster = addresses(ps=1, worker=2)
    ps = hosts.task(counter, Wiring("ps", 0, cluster))
    ons = [tmp_path / f"on{index}" for index in range(2)]
    # So few steps that each is near the last one, the first too.
    chief, worker = (
        hosts.task(counter, Wiring("worker", index, cluster), "--train_steps=4", f"--hold={on}")
        for index, on in enumerate(ons)
    )
    for process in (chief, worker):
        process.until(lambda process: process.times("step"))
    ons[0].touch()
    chief.ends()
    ps.popen.kill()
    ps.wait()
    ons[1].touch()
    worker.ends()  # and does not wait for a ps
    assert re.search(
        r"^tfprov: worker/1 ends: it was at step \d, near the last, and a ps has left$", worker.err, re.MULTILINE
    )


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_ps_that_does_not_come_back_ends_the_others_with_one_line(
    hosts: ProgramHosts, counter: Path, sent: signal.Signals
) -> None:
    """A step with a ps that hangs never returns, and the session of one with a ps that has ended is never closed."""
    cluster = addresses(ps=1, worker=2)
    ps = hosts.task(counter, Wiring("ps", 0, cluster))
    ps.until(lambda process: "Started server" in process.err)
    tasks = [hosts.task(counter, Wiring("worker", index, cluster), "--max_wait_secs=30") for index in range(2)]
    for process in tasks:
        process.until(has_stepped)
    assert all(greets(at) for at in (*cluster["ps"], *cluster["worker"]))  # or each training would end after a while
    ps.popen.send_signal(sent)
    for index, process in enumerate(tasks):
        process.ends(1)
        what = f"no answer from ps/0 at {cluster['ps'][0]}"
        assert re.search(
            rf"^tfprov: error: worker/{index}: (no session after 30 s: {what}|{what} for 30 s)\n\Z",
            process.err,
            re.MULTILINE,
        )


def test_synchronous_training_ends_for_all(hosts: ProgramHosts, tmp_path: Path) -> None:
    """Without help the last to begin a step waits for ever for the gradients of one that has left."""
    program = tmp_path / "synchronous.py"
    program.write_text(SYNCHRONOUS)
    cluster = addresses(ps=1, worker=2)
    hosts.task(program, Wiring("ps", 0, cluster))
    chief, worker = (hosts.task(program, Wiring("worker", index, cluster)) for index in range(2))
    chief.ends()
    worker.ends()
    assert max(whole(chief.folder / "saved")) >= 100


def test_a_worker_without_a_ps_ends_with_one_line(hosts: ProgramHosts, counter: Path) -> None:
    cluster = addresses(ps=1, worker=2)
    worker = hosts.task(counter, Wiring("worker", 1, cluster), "--max_wait_secs=1")
    chief = hosts.task(counter, Wiring("worker", 0, cluster))
    worker.ends(1)
    what = f"tfprov: error: worker/1: no session after 1 s: no answer from ps/0 at {cluster['ps'][0]}\n"
    assert worker.err.endswith(what)
    # With nothing to save, the first signal is enough, although TensorFlow waits for the ps.
    chief.until(lambda process: "Scanning workers for devices" in process.err)
    chief.popen.terminate()
    chief.ends(143)
    assert chief.err.endswith("tfprov: ended by SIGTERM\n")


def test_a_port_in_use_ends_the_task_with_one_line(hosts: ProgramHosts, counter: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ps = hosts.task(counter, Wiring("ps", 0, {"ps": (address,), "worker": ("127.0.0.1:1",)}))
        ps.ends(1)
    assert f"tfprov: error: ps/0 cannot serve at {address}: " in ps.err
    assert "Traceback" not in ps.err


MAKE = """
import sys, tensorflow as tf
folder = sys.argv[1]
objects = tf.train.Checkpoint(numbers=tf.Variable(tf.range(2000.0)), words=tf.Variable([["a", "bc"], ["", "d"]]))
objects.write(folder + "/objects-1")
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    v1 = tf.compat.v1
    v1.get_variable("parts", [100, 10], partitioner=v1.fixed_size_partitioner(4))
    session.run(v1.global_variables_initializer())
    v1.train.Saver(sharded=True).save(session, folder + "/parts", global_step=1)
"""


def damage(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_verify_finds_a_flipped_bit_and_a_truncated_file(tmp_path: Path) -> None:
    python(MAKE, str(tmp_path))
    objects, parts = tmp_path / "objects-1", tmp_path / "parts-1"
    code, results = verify(objects, parts)
    assert (code, [result["error"] for result in results]) == (0, [None, None])
    assert results[0]["bytes"] > 8000 + 4
    # A partitioned variable is one tensor, whatever the number of its parts.
    assert (results[1]["tensors"], results[1]["bytes"]) == (1, 4000)

    damage(tmp_path / "objects-1.data-00000-of-00001", 5000)
    data = tmp_path / "parts-1.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1])
    code, results = verify(objects, parts, tmp_path / "none-1")
    assert code == 1
    assert all(result["error"] and "\n" not in result["error"] for result in results)
    assert "Checksum does not match" in results[0]["error"]
    assert "none-1" in results[2]["error"]
