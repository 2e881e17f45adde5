"""The runtime without TensorFlow: its wiring, the repair of the checkpoint directory, and signals."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.waiting import LONG, until
from tfprov import runtime
from tfprov.formats.checkpoint import parse_state
from tfprov.hosts.crash import last_words
from tfprov.runtime.graph.task import check_wiring
from tfprov.runtime.resume import repair
from tfprov.runtime.signals import Signals
from tfprov.wiring import Wiring, WiringError, to_tf_config

PS, WORKERS = ("h0:2222",), ("h1:2222", "h2:2222")
ROOT = {"PYTHONPATH": str(Path(runtime.__file__).parents[2])}
CLUSTER = {"ps": PS, "worker": WORKERS}
WITH_CHIEF = {"ps": PS, "chief": ("h3:2222",), "worker": WORKERS}


def save(folder: Path, prefix: str, *, torn: bool = False) -> None:
    (folder / f"{prefix}.index").write_bytes(b"index")
    if not torn:
        (folder / f"{prefix}.data-00000-of-00001").write_bytes(b"data")


def state(folder: Path) -> list[str]:
    return parse_state((folder / "checkpoint").read_text())


def test_a_crash_of_native_code_prints_where_the_program_was() -> None:
    joins = "from tfprov.runtime.join_cluster import read_wiring; read_wiring(lambda wiring: None, [], {})"
    program = f"import ctypes; {joins}; ctypes.string_at(0)"
    done = subprocess.run([sys.executable, "-c", program], check=False, env=ROOT, capture_output=True, text=True)
    assert done.returncode == -signal.SIGSEGV
    assert last_words(done.stderr.splitlines()) == "Fatal Python error: Segmentation fault"
    assert re.search('^  File ".*", line [0-9]+ in string_at$', done.stderr, re.MULTILINE)


def test_importing_the_runtime_does_not_import_tensorflow() -> None:
    program = "import sys, tfprov.runtime, tfprov.runtime.verify; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, env=ROOT).returncode == 0


def test_the_runtime_needs_nothing_but_the_standard_library() -> None:
    """Inside the container there is TensorFlow, and nothing that the controller needs."""
    program = (
        "import sys, tfprov.runtime, tfprov.runtime.verify\n"
        "print(*{m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names) - {'__main__', 'tfprov'})"
    )
    # -S: an installed package may hook itself into every interpreter by a .pth file.
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ROOT)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("wiring", "replica", "replicas", "chief"),
    [
        (Wiring("worker", 0), 0, 1, True),
        (Wiring("worker", 0, CLUSTER), 0, 2, True),
        (Wiring("worker", 1, CLUSTER), 1, 2, False),
        (Wiring("chief", 0, WITH_CHIEF), 0, 3, True),
        (Wiring("worker", 0, WITH_CHIEF), 1, 3, False),
        (Wiring("worker", 1, WITH_CHIEF), 2, 3, False),
    ],
)
def test_every_training_task_has_its_own_replica_number(
    wiring: Wiring, replica: int, replicas: int, chief: bool
) -> None:
    task = runtime.Task(wiring, "checkpoints")
    assert (task.replica, task.replicas, task.is_chief) == (replica, replicas, chief)


@pytest.mark.parametrize(
    ("wiring", "message"),
    [
        (Wiring("worker", 1), "worker/1 has no cluster"),
        (Wiring("ps", 0), "ps/0 has no cluster"),
        (Wiring("worker", 0, {"worker": WORKERS}), "2 tasks train and there is no ps"),
        (Wiring("worker", 0, {"ps": ("h0",), "worker": WORKERS}), "'h0' is not an address"),
        (Wiring("worker", 0, {"ps": ("h0:0",), "worker": WORKERS}), "'h0:0' is not an address"),
        (Wiring("worker", 0, {"ps": ("h0:70000",), "worker": WORKERS}), "'h0:70000' is not an address"),
        (Wiring("worker", 0, {"ps": ("h 0:1",), "worker": WORKERS}), "'h 0:1' is not an address"),
    ],
)
def test_an_invalid_wiring_is_refused(wiring: Wiring, message: str) -> None:
    with pytest.raises(WiringError, match=message):
        check_wiring(wiring)


@pytest.mark.parametrize(
    "wiring",
    [
        Wiring("worker", 0),
        Wiring("chief", 0),
        Wiring("evaluator", 0),
        Wiring("evaluator", 0, CLUSTER),
        Wiring("ps", 0, CLUSTER),
        Wiring("worker", 0, {"worker": ("h1:2222",)}),
        Wiring("worker", 0, {"ps": ("[::1]:2222",), "worker": WORKERS}),
    ],
)
def test_a_valid_wiring_is_accepted(wiring: Wiring) -> None:
    check_wiring(wiring)


@pytest.mark.parametrize(
    ("argv", "environ", "message"),
    [
        (["--job_name=worker", "--task_index=5", "--worker_hosts=h:1"], {}, "worker/5 is not in the cluster"),
        (["--job_name=worker", "--task_index=x", "--worker_hosts=h:1"], {}, "must be a whole number"),
        (["--job_name=worker", "--task_index=1"], {}, "worker/1 has no cluster"),
        ([], {"TF_CONFIG": "{"}, "TF_CONFIG is not valid"),
        ([], {"TF_CONFIG": '{"cluster": {"worker": ["h:1"]}, "task": {"type": "worker", "index": "0"}}'}, "'0'"),
    ],
)
def test_a_bad_wiring_ends_the_program_with_one_line_and_code_2(
    argv: list[str], environ: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        runtime.join(argv, environ)
    stderr = capsys.readouterr().err
    assert ended.value.code == 2
    assert stderr.count("\n") == 1
    assert stderr.startswith("tfprov: error: ")
    assert message in stderr


def test_an_evaluator_cannot_open_the_training_session(capsys: pytest.CaptureFixture[str]) -> None:
    task = runtime.Task(Wiring("evaluator", 0, CLUSTER), "checkpoints")
    with pytest.raises(SystemExit, match="2"):
        task.session()
    assert "evaluator/0 is not part of the training" in capsys.readouterr().err


def test_two_intervals_of_saving_are_refused_in_every_task(capsys: pytest.CaptureFixture[str]) -> None:
    """TensorFlow takes one: the chief alone would fail, and the workers wait for it."""
    task = runtime.Task(Wiring("worker", 1, CLUSTER), "checkpoints")
    with pytest.raises(SystemExit, match="2"):
        task.session(save_every_steps=10, save_every_secs=10)
    assert "save_every_steps and save_every_secs are alternatives" in capsys.readouterr().err


def test_flags_win_over_tf_config(capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"TF_CONFIG": to_tf_config(Wiring("worker", 0, CLUSTER))}
    with pytest.raises(SystemExit):
        runtime.join(["--job_name=worker", "--task_index=7", "--worker_hosts=h:1"], environ)
    assert "worker/7" in capsys.readouterr().err


def test_repair_creates_the_directory_and_finds_nothing_in_it(tmp_path: Path) -> None:
    assert repair(str(tmp_path / "a" / "b")) is None
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_repair_names_the_newest_whole_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, "model.ckpt-90")
    save(tmp_path, "model.ckpt-200")
    save(tmp_path, "model.ckpt-300", torn=True)
    assert repair(str(tmp_path)) == "model.ckpt-200"
    assert state(tmp_path) == ["model.ckpt-200"]


def test_repair_prefers_what_the_runtime_saves_to_weights_that_a_program_saves_beside_it(tmp_path: Path) -> None:
    """Such weights lack the optimizer and the step, so that a chief restarted on them would end again and again."""
    save(tmp_path, "weights-900")
    assert repair(str(tmp_path)) == "weights-900"
    save(tmp_path, "model.ckpt-90")
    save(tmp_path, "model.ckpt-200")
    assert repair(str(tmp_path)) == "model.ckpt-200"


def test_repair_replaces_paths_of_another_directory_and_a_torn_newest(tmp_path: Path) -> None:
    for step in (100, 200):
        save(tmp_path, f"model.ckpt-{step}")
    save(tmp_path, "model.ckpt-300", torn=True)
    paths = "".join(f'all_model_checkpoint_paths: "/old/model.ckpt-{step}"\n' for step in (50, 100, 200, 300))
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "/old/model.ckpt-300"\n{paths}')
    assert repair(str(tmp_path)) == "model.ckpt-200"
    assert state(tmp_path) == ["model.ckpt-200", "model.ckpt-100"]


def test_repair_never_lists_a_checkpoint_tensorflow_did_not_list(tmp_path: Path) -> None:
    """TensorFlow deletes the oldest of those it knows; one a person put there is not its to delete."""
    for step in (100, 200, 300):
        save(tmp_path, f"model.ckpt-{step}")
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-200"\n')
    assert repair(str(tmp_path)) == "model.ckpt-300"
    assert state(tmp_path) == ["model.ckpt-300", "model.ckpt-200"]


def test_repair_drops_a_state_that_names_only_torn_checkpoints(tmp_path: Path) -> None:
    save(tmp_path, "model.ckpt-300", torn=True)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-300"\n')
    assert repair(str(tmp_path)) is None
    assert not (tmp_path / "checkpoint").exists()


def test_repair_removes_the_leftovers_of_a_killed_save_and_nothing_else(tmp_path: Path) -> None:
    save(tmp_path, "model.ckpt-100")
    kept = ["events.out.tfevents.1.h", "graph.pbtxt", "notes_temp", "model.ckpt-100.meta"]
    left = [
        "model.ckpt-200.data-00000-of-00001.tempstate12345",
        "model.ckpt-200.index.tempstate9",
        "checkpoint.tmpab12",
    ]
    for name in kept + left:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "model.ckpt-200_temp").mkdir()
    (tmp_path / "model.ckpt-200_temp" / "part-00000-of-00001.index").write_bytes(b"")
    repair(str(tmp_path))
    whole = ["checkpoint", "model.ckpt-100.data-00000-of-00001", "model.ckpt-100.index"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(kept + whole)


def test_repair_leaves_a_remote_directory_to_tensorflow() -> None:
    assert repair("gs://bucket/checkpoints") is None
    assert not Path("gs:").exists()


def test_the_first_signal_is_stored_while_work_is_orderly_and_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    signals = Signals()
    with signals.handled():
        signals.orderly = True
        os.kill(os.getpid(), signal.SIGTERM)
        until(lambda: signals.number)
    assert (signals.name, signals.code) == ("SIGTERM", 143)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_block_that_ends_after_a_signal_does_not_wait_for_the_grace() -> None:
    signals = Signals(grace=1e6)
    with signals.handled():
        signals.orderly = True
        signal.raise_signal(signal.SIGTERM)
    assert signals.number == signal.SIGTERM


FORKS = """
import os, signal, sys, threading
from tfprov.runtime.signals import Signals

def signal_child(number):
    # Send a signal to a forked process that waits, and return the signal that ended it, or minus its exit code.
    (ready, is_ready), (ended, end) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(end)
        try:
            os.write(is_ready, b"x")
            os.read(ended, 1)  # until the signal, or until the end of the pipe if it ignores the signal
            os._exit(3)
        except KeyboardInterrupt:
            os._exit(4)
    os.close(is_ready)
    os.read(ready, 1)
    os.kill(child, number)
    os.close(end)
    return end_of(child)

def end_of(child):
    status = os.waitpid(child, 0)[1]
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in what runs in the background
signals = Signals()
"""


def run_forks(program: str) -> None:
    """Run a program that forks, and asserts what comes of it."""
    # Later versions of Python warn of a fork beside threads.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS + program]
    done = subprocess.run(command, capture_output=True, check=False, env=ROOT, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("number", "end", "thread"),
    [
        ("SIGTERM", signal.SIGTERM, "main"),
        ("SIGINT", -4, "main"),
        ("SIGTERM", signal.SIGTERM, "other"),  # Python 3.13 runs no handlers in a fork of such a thread
    ],
)
def test_a_signal_to_a_forked_process_ends_it_and_is_none_of_its_parent(number: str, end: int, thread: str) -> None:
    in_thread = "forking = threading.Thread(target=work); forking.start(); forking.join()"
    run_forks(f"""
ends = []
work = lambda: ends.append(signal_child(signal.{number}))
with signals.handled():
    signals.orderly = True
    {"work()" if thread == "main" else in_thread}
assert (ends, signals.number) == ([{int(end)}], 0), (ends, signals.number)  # all of the pipe has been read by now
""")


def test_a_forked_process_that_leaves_the_block_does_not_end_the_handling_of_its_parent() -> None:
    run_forks("""
with signals.handled():
    signals.orderly = True
    child = os.fork()
    if not child:
        sys.exit(3)
    assert end_of(child) == -3
    signal.raise_signal(signal.SIGTERM)
assert signals.number == signal.SIGTERM
""")


def test_handlers_that_a_program_has_set_itself_stay_in_its_forked_processes() -> None:
    run_forks("""
handler = lambda *_: None
with signals.handled():
    signal.signal(signal.SIGTERM, handler)
    child = os.fork()
    if not child:
        os._exit(signal.getsignal(signal.SIGTERM) is not handler)
    assert end_of(child) == 0
""")


@pytest.mark.parametrize(
    ("orderly", "grace", "sent_signals", "code"),
    [
        (False, None, [signal.SIGTERM], 143),
        (False, None, [signal.SIGINT], 130),
        (True, None, [signal.SIGTERM, signal.SIGTERM], 143),
        (True, None, [signal.SIGTERM, signal.SIGINT], 130),
        (True, 0.2, [signal.SIGTERM], 143),
    ],
)
def test_a_signal_ends_a_task_that_no_python_handler_could_reach(
    orderly: bool, grace: float | None, sent_signals: list[signal.Signals], code: int
) -> None:
    """The main thread sits in a lock that ignores handlers, as it does in a call into TensorFlow."""
    program = f"""
import ctypes, sys
from tfprov.runtime.signals import Signals
signals = Signals({grace})
with signals.handled():
    signals.orderly = {orderly}
    print("ready", flush=True)
    libc = ctypes.CDLL(None)
    while True:
        libc.usleep(100000)
"""
    command, pipe = [sys.executable, "-c", program], subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, env=ROOT)
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        for number in sent_signals:
            process.send_signal(number)
            while process.poll() is None and _pending(process.pid):  # two of one kind that are pending are one
                time.sleep(0.01)
        try:
            _, stderr = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == code
    assert stderr.startswith(b"tfprov: ended by SIG")
    assert b"Traceback" not in stderr


def test_a_signal_of_the_program_itself_does_not_lift_the_limit_of_the_step() -> None:
    """The pipe has the bytes of SIGTERM and SIGALRM at once, as with a timer that ends just after SIGTERM came."""
    program = """
import ctypes, os, signal
from tfprov.runtime.signals import Signals
signals = Signals(0.0)
with signals.handled():
    signals.orderly = True
    pipe = signal.set_wakeup_fd(-1)
    os.write(pipe, bytes([signal.SIGTERM, signal.SIGALRM]))
    libc = ctypes.CDLL(None)
    while True:
        libc.usleep(100000)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, env=ROOT, timeout=LONG, text=True
    )
    assert done.returncode == 143
    assert done.stderr == "tfprov: ended by SIGTERM; the step did not end within 0 s\n"


def _pending(pid: int) -> int:
    """Return the signals that the kernel has not handed to the process yet, as a set of bits."""
    return int(re.findall(r"^ShdPnd:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[0], 16)


def test_the_reason_for_an_exit_is_the_last_line_and_printed_once() -> None:
    program = """
import os, threading, time
from tfprov.runtime.signals import exit_now
def complain():
    while True:
        os.write(2, b"oh no" + bytes([10]))
for work in (complain, complain, lambda: exit_now("error: lost", 3), lambda: exit_now("error: lost", 3)):
    threading.Thread(target=work, daemon=True).start()
time.sleep(60)
"""
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, env=ROOT)
        assert (done.returncode, done.stderr.count(b"tfprov: ")) == (3, 1)
        after = done.stderr.partition(b"\ntfprov: error: lost\n")[2]
        assert after in (b"", b"oh no\n", b"oh no\noh no\n"), "what each of the two was writing at that moment, at most"


def test_the_reason_for_an_exit_is_known_although_another_thread_had_only_begun_its_line() -> None:
    """Python writes the report of an exception that it ignores in pieces, and TensorFlow's executors cause one."""
    program = """
import os
from tfprov.runtime.signals import exit_now
os.write(2, b"Exception ignored in: <f>" + bytes([10]) + b"Traceback (most recent call last):" + bytes([10]))
os.write(2, b"  File 'a.py', line 1, in f" + bytes([10]) + b"a.UnavailableError: ")
exit_now("error: chief/0: lost ps/0", 1)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, env=ROOT, text=True)
    assert last_words(done.stderr.splitlines()) == "tfprov: error: chief/0: lost ps/0"


def test_exit_now_ends_a_task_whose_stderr_is_closed() -> None:
    for unread in ("os.close(2)", "reading, writing = os.pipe(); os.dup2(writing, 2); os.close(reading)"):
        program = f"import os; from tfprov.runtime.signals import exit_now; {unread}; exit_now('error: lost', 3)"
        assert subprocess.run([sys.executable, "-c", program], check=False, env=ROOT).returncode == 3


def test_the_reason_for_an_exit_is_printed_when_no_file_can_be_opened() -> None:
    program = """
import resource
from tfprov.runtime.signals import exit_now
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
exit_now("error: lost", 3)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, env=ROOT)
    assert (done.returncode, done.stderr) == (3, b"tfprov: error: lost\n")


def test_without_tf_datas_service_every_task_reads_its_own_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(shard: object, shards: int) -> object:
        return shard, shards

    monkeypatch.delenv("TFPROV_DATA_SERVICE", raising=False)
    assert runtime.served(make) is make
    monkeypatch.setenv("TFPROV_DATA_SERVICE", "grpc://10.0.0.1:2222")
    assert runtime.served(make) is not make
