"""Why tasks failed: one traceback in the user's own paths, known causes with their remedies, a line for the others."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.memory_lab import AGAIN, INVENTORY, MemoryLab, follow_with_steps
from tests.support.reporters import RecordingReporter, texts
from tfprov.engine.monitoring.failures import (
    KNOWN_CAUSES,
    Failure,
    ended,
    excerpt,
    failure,
    idle_end,
    in_own_paths,
    last_log,
    read_failure,
    remedy,
)
from tfprov.engine.monitoring.follow import follow
from tfprov.engine.monitoring.logs import logs
from tfprov.engine.monitoring.readiness import wait_serving
from tfprov.engine.monitoring.watch import Restarts
from tfprov.engine.observe import observe
from tfprov.errors import HostError, TaskFailed
from tfprov.model.state import Observed, State

WORK = "/home/me/.local/state/tfprov/clusters/lab/hosts/h3/tasks/worker-2/work"
LOG = [
    "up",
    "Traceback (most recent call last):",
    f'  File "{WORK}/train.py", line 3, in <module>',
    "    import pandas",
    "ModuleNotFoundError: No module named 'pandas'",
]

REMEDIES = {
    "tfprov appends these flags: `wiring: tf_config` leaves them out, and `wiring: {flags: {…}}` calls them otherwise": [
        "t.py: error: unrecognized arguments: --job_name=ps --task_index=0",
        "t.py: error: unrecognized arguments: --lr=3 --worker_hosts=h1:2222",
        "Unknown command line flag 'job_name'. Did you mean: job ?",
        "Error: No such option: --ps_hosts",
        "no such option '--task_index'",
    ],
    "the program knows no such flag: see `flags:`, `command:` and `wiring:` in the inventory": [
        "t.py: error: unrecognized arguments: --lr=3",
        "Unknown command line flag 'lr'",
        "Unknown command line flag 'job_names'",
        "Error: No such option: --lr",
        "no such option '--lr'",
    ],
    'the program needs Keras 2: install tf-keras where it runs and set `env: {TF_USE_LEGACY_KERAS: "1"}`': [
        "AttributeError: 'PerReplica' object has no attribute 'dtype'",
        "AttributeError: 'Mean' object has no attribute 'reset_states'",
        "ValueError: this optimizer is not supported by Keras 3",
    ],
    "estimators left TensorFlow with 2.16: run it with TensorFlow 2.15 or older": [
        "AttributeError: module 'tensorflow' has no attribute 'estimator'",
        "AttributeError: module 'tensorflow._api.v2' has no attribute 'estimator'",
        "ModuleNotFoundError: No module named 'tensorflow_estimator'",
    ],
    "the program is written for TensorFlow 1: `import tensorflow.compat.v1 as tf` instead, or run it with TensorFlow 1": [
        "AttributeError: module 'tensorflow' has no attribute 'placeholder'",
        "ModuleNotFoundError: No module named 'tensorflow.contrib.learn'",
    ],
    "install it where the task runs: `pip install 'tfprov[tensorflow]'`, "
    "or `RUN pip install tensorflow` in the Dockerfile": [
        "ModuleNotFoundError: No module named 'tensorflow'",
    ],
    "the image has tfprov's runtime only with `code`: set `code`, or add `pip install tfprov` to the image": [
        "(ModuleNotFoundError: No module named 'tfprov')",
        "/usr/bin/python3: No module named tfprov.runtime",
    ],
    "install the module where the task runs: with pip, or with a line in the Dockerfile": [
        "ModuleNotFoundError: No module named 'pandas'",
    ],
    "`command:` names a script that `code:` does not have": [
        "python: can't open file '/w/trian.py': [Errno 2] No such file or directory",
    ],
    "`command:` names a module that neither `code:` nor the Python of the task has": [
        "/opt/venv/bin/python3: No module named trian",
        "python: No module named pkg.__main__; 'pkg' is a package and cannot be directly executed",
    ],
    "a program that serves on no port needs `ready: start`, and one that takes longer to serve a larger `start_timeout`": [
        "does not serve on 10.0.0.1:2222 after 120 s",
    ],
    "another program has the port: end it, or choose another `port`": [
        "OSError: [Errno 98] Address already in use",
        "bind: address already in use",
    ],
    "raise `shm_size` of its container, whose /dev/shm is full; without a container, make room there": [
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.",
        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-a (size 9637888)",
        "OSError: [Errno 28] No space left on device: '/dev/shm/a'",
        "RuntimeError: out of shared memory",
    ],
    "make room on the disk of its host": [
        "OSError: [Errno 28] No space left on device",
    ],
    "a relative directory is another one for each task: `checkpoints: {link: DIRECTORY}` leads it to the checkpoint "
    "directory": [
        "NotFoundError: logdir/model.ckpt-0_temp/part-00000-of-00001.index; No such file or directory",
    ],
}


def test_known_causes_have_their_remedy_in_one_line() -> None:
    lines = {line: cure for cure, lines in REMEDIES.items() for line in lines}
    assert {line: remedy([line]) for line in lines} == lines
    assert set(REMEDIES) == {cure for _, cure in KNOWN_CAUSES}
    first = {next(pattern for pattern, _ in KNOWN_CAUSES if re.search(pattern, line)) for line in lines}
    assert [pattern for pattern, _ in KNOWN_CAUSES if pattern not in first] == [], "each has a line of its own"
    assert all("\n" not in cure for _, cure in KNOWN_CAUSES)


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: shapes (3,) and (4,) not aligned",
        "NotFoundError: /data/model.ckpt-0.index; No such file or directory",
        "logdir/model.ckpt-0.index; No such file or directory",
        "FileNotFoundError: [Errno 2] No such file or directory: 'a/b'",
        "KeyError: 'job_name'",
        "KeyError: 'ps_hosts'",
        "usage: t.py [--task_index N]",
        "ValueError: worker_hosts",
        "AttributeError: 'Session' object has no attribute 'estimator'",
        "AttributeError: module 'tensorflow' has no attribute 'constnat'",
        "AttributeError: module 'x' has no attribute 'placeholder'",
        "AttributeError: 'C' object has no attribute 'reset_states_of'",
        "ImportError: tensorflow.contrib",
        "trian: No module named trian",
    ],
)
def test_a_line_that_only_resembles_a_known_cause_has_no_remedy(line: str) -> None:
    assert remedy([line]) == ""


def test_an_excerpt_is_one_whole_traceback_without_the_values_of_tensors() -> None:
    frames = [line for n in range(30) for line in (f'  File "a.py", line {n}, in f{n}', f"    f{n + 1}()")]
    values = [" [0.1 0.2 0.3]"] * 40
    log = ["noise"] * 50 + [LOG[1], *frames, f"InvalidArgumentError: bad [{'1.5, 2.5] [' * 90}", *values, "shape=(3,)"]
    shown = excerpt(log)
    assert shown[: len(frames) + 1] == [LOG[1], *frames]
    assert shown[len(frames) + 1] == "InvalidArgumentError: bad [1.5, 2.5] [1.5, …] ["
    assert shown[len(frames) + 2 :] == [" [0.1 0.2 0.3]", "… (39 lines of values)", "shape=(3,)"]
    assert excerpt([f"line {n}" for n in range(30)]) == [f"line {n}" for n in range(10, 30)]
    assert excerpt(["one", "usage: t.py", "t.py: wrong", "usage: t.py", "t.py: wrong"]) == [
        "one",
        "usage: t.py",
        "t.py: wrong",
    ]
    cut = [f"{'x' * 300}… (1 more character)", f"{'x' * 300}… (2 more characters)"]
    assert excerpt(["x" * 300, "x" * 301, "x" * 302]) == ["x" * 300, *cut]
    three, four = ["[0.1]", "2.0", "3]"], ["[0.1]", "2.0", "nan 3", "4]"]
    assert excerpt([*three, "a", *four, "b"]) == [*three, "a", "[0.1]", "… (3 lines of values)", "b"]
    assert excerpt(["a", *four]) == ["a", "[0.1]", "… (3 lines of values)"]
    assert excerpt(["a", *three]) == ["a", *three]
    reason = "tfprov: error: chief/0: lost ps/0 at a:1"
    ignored = ["Exception ignored in: <f>", LOG[1], *frames[:2], "e.UnavailableError: lost", *["noise"] * 30]
    assert excerpt([*ignored, reason])[-1] == reason, "also far behind a traceback of another thread"
    deep = excerpt([LOG[1], *frames * 5, "ValueError: 3"])
    assert (len(deep), deep[20], deep[-1]) == (121, "… (182 lines left out)", "ValueError: 3")


def test_paths_of_a_tasks_copy_become_the_users_own() -> None:
    lines = [LOG[2], '  File "/code/train.py", line 1', "/x/code/train.py", f"({WORK}/a/b.py)"]
    assert [*map(in_own_paths("worker/2", "src", in_container=False), lines)] == [
        '  File "src/train.py", line 3, in <module>', lines[1], lines[2], "(src/a/b.py)"
    ]  # fmt: skip
    assert [*map(in_own_paths("worker/2", "src", in_container=True), lines[1:3])] == [
        '  File "src/train.py", line 1',
        lines[2],
    ]


def lab(text: str = INVENTORY) -> MemoryLab:
    """Return a cluster whose code lies in `./src`."""
    made = MemoryLab(text=text)
    places = {(container.task.role, container.task.host) for container in made.context.wanted}
    made.context = replace(made.context, code={place: str(Path.cwd() / "src") for place in places})
    return made


def test_the_first_failure_has_its_traceback_and_the_others_a_line() -> None:
    memory_lab = lab()
    h1, h2, h3 = (memory_lab.hosts[name] for name in ("h1", "h2", "h3"))
    h1.silent.add("ps/0")
    h3.prints("worker/2", *LOG)
    h3.prints("worker/3", *LOG)
    h2.prints("worker/0", "UnavailableError: failed to connect to all addresses")
    h2.exits("worker/0", 3)  # by the clock of its own host it was the first one
    h3.now = 101.0
    h3.exits("worker/2", 1)
    h3.exits("worker/3", 1)
    with pytest.raises(TaskFailed) as caught:
        wait_serving(memory_lab.context, 600)
    assert str(caught.value).splitlines() == [
        "worker/2: exited with code 1; install the module where the task runs: with pip, or with a line in the Dockerfile",
        "  worker/2 | Traceback (most recent call last):",
        '  worker/2 |   File "src/train.py", line 3, in <module>',
        "  worker/2 |     import pandas",
        "  worker/2 | ModuleNotFoundError: No module named 'pandas'",
        "worker/0: exited with code 3 after worker/2 had failed: UnavailableError: failed to connect to all addresses",
        "worker/3: the same error",
    ]
    assert caught.value.code == 3, "the chief's own"


def test_streamed_lines_have_the_users_paths_too() -> None:
    memory_lab, report = lab(), RecordingReporter()
    memory_lab.hosts["h3"].prints("worker/2", LOG[2])
    with logs(replace(memory_lab.context, report=report)):
        pass
    assert report.lines == [("worker/2", '  File "src/train.py", line 3, in <module>')]


def test_what_is_lost_with_a_task_stands_before_the_remedy() -> None:
    memory_lab = lab()
    h1 = memory_lab.hosts["h1"]
    h1.prints("ps/1", "OSError: [Errno 28] No space left on device")
    with pytest.raises(TaskFailed) as caught:
        follow_with_steps(memory_lab.context, lambda: h1.exits("ps/1", 7))
    words = (
        "ps/1: exited with code 7: the training cannot go on without its variables; make room on the disk of its host"
    )
    assert str(caught.value).splitlines()[0] == words


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [(1, "", "ValueError: boom"), (137, "", ""), (1, "no space left on device", ""), (127, "no such file", "")],
)
def test_the_last_output_is_the_reason_only_of_an_end_of_its_own(code: int, error: str, words: str) -> None:
    lab = MemoryLab()
    lab.hosts["h2"].prints("worker/0", "ValueError: boom")
    failed = Observed("worker/0", "h2", State.EXITED, {}, exit_code=code, error=error)
    assert read_failure(lab.context, failed).words == words


def test_a_ps_that_fell_first_is_named_before_the_chief_that_lost_it() -> None:
    memory_lab = lab()
    h1, h2 = memory_lab.hosts["h1"], memory_lab.hosts["h2"]
    h1.prints("ps/1", "MemoryError")
    h2.prints("worker/0", "AbortedError: connection reset by peer")

    def fall() -> None:
        h1.exits("ps/1", 7)
        h2.exits("worker/0", 1)

    with pytest.raises(TaskFailed) as caught:
        follow_with_steps(memory_lab.context, fall)
    assert str(caught.value).splitlines() == [
        "ps/1: exited with code 7: the training cannot go on without its variables",
        "  ps/1 | MemoryError",
        "worker/0: exited with code 1 after ps/1 had failed: AbortedError: connection reset by peer",
    ]


def test_the_exceptions_line_stands_on_the_restarts_line_with_its_remedy() -> None:
    restarts = Restarts(lambda _task: 3)
    first = Observed("worker/1", "h", State.RUNNING, {}, started_at=5.0)
    restarts.update([first])
    again = replace(first, restarts=1, last_exit=1, last_words=LOG[-1], started_at=6.0)
    (message,) = texts(restarts.update([again]))
    assert message == (
        "worker/1 ended with exit code 1 and was started again (1 of 3): ModuleNotFoundError: No module named 'pandas'; "
        "install the module where the task runs: with pip, or with a line in the Dockerfile"
    )
    boom = replace(first, task="worker/3", restarts=0)
    restarts.update([boom])
    assert texts(restarts.update([replace(boom, restarts=1, last_exit=3, last_words="ValueError: 7")])) == [
        "worker/3 ended with exit code 3 and was started again (1 of 3): ValueError: 7"
    ]
    unlimited = Restarts(lambda _task: None)
    unlimited.update([first])
    assert texts(unlimited.update([replace(first, restarts=1)])) == ["worker/1 ended and was started again (1)"]
    killed = replace(first, restarts=2, last_exit=137, last_words="step 3")
    assert texts(restarts.update([killed])) == ["worker/1 ended with exit code 137 and was started again (2 of 3)"]
    other = replace(again, task="worker/2", restarts=0)
    restarts.update([other])
    assert texts(restarts.update([replace(other, restarts=1)])) == [
        "worker/2 ended with exit code 1 and was started again (1 of 3): the same error"
    ]


def test_an_engine_ends_the_restarts_of_a_task_that_failed_twice_with_the_same_message() -> None:
    given_up: list[str] = []
    restarts = Restarts(lambda _task: 9, lambda observed: given_up.append(observed.task))
    runs = [
        Observed(
            "worker/1", "h", State.RUNNING, {}, started_at=t, restarts=n, last_exit=1 if n else None, last_words=words
        )
        for n, (t, words) in enumerate([(0.0, ""), (1.0, "boom"), (2.0, "boom")])
    ]
    message = [texts(restarts.update([one])) for one in (runs[0], replace(runs[1], restarting=True), runs[1], runs[2])]
    assert given_up == ["worker/1"]
    assert message[-1][-1] == "worker/1 failed twice with the same error: it is not started again after this"
    restarts.update([replace(runs[2], restarts=0, started_at=60.0)])
    restarts.update([replace(runs[1], started_at=61.0)])
    assert given_up == ["worker/1"], "`up` has started it anew"


def test_a_task_that_is_left_alone_is_reported_with_the_reason() -> None:
    memory_lab = lab(AGAIN)
    host = memory_lab.hosts["h3"]

    def falls() -> None:
        host.prints("worker/3", *LOG)
        host.exits("worker/3", 1)

    follow_with_steps(memory_lab.context, falls, falls, lambda: memory_lab.hosts["h2"].exits("worker/0", 0))
    assert memory_lab.report.notes[1].startswith(
        "worker/3: exited with code 1 after 1 restart (the same error twice: not started again); install"
    )


def test_a_task_that_ends_at_once_with_0_is_reported_once() -> None:
    memory_lab = lab(AGAIN)
    hosts = memory_lab.hosts
    for host in hosts.values():
        for place in host.places.values():
            place.observed = replace(place.observed, started_at=host.now - 1.3)
    hosts["h2"].exits("worker/1")
    hosts["h3"].saves("worker/3", "progress.json", b"{}")
    hosts["h3"].exits("worker/3")
    hosts["h1"].exits("ps/1")
    wait_serving(memory_lab.context, 60)
    hosts["h2"].exits("worker/0")
    follow(memory_lab.context, 60, with_logs=False)
    assert [note for note in memory_lab.report.notes if "ended" in note] == [
        "ps/1 on h1 ended with exit code 0, 1.3 s after its start: a ps has to serve until the training ends",
        "worker/1 on h2 ended with exit code 0, 1.3 s after its start: does its `command:` start the training?",
        "worker/0 on h2 ended with exit code 0, 1.3 s after its start: does its `command:` start the training?",
    ]


def test_an_end_with_0_is_idle_within_seconds_without_files_and_once() -> None:
    memory_lab = MemoryLab()
    context, host = memory_lab.context, memory_lab.hosts["h1"]
    done = Observed("worker/9", "h1", State.EXITED, {}, exit_code=0, started_at=10.0, finished_at=15.0)
    why = "ended with exit code 0, 5.0 s after its start: does its `command:` start the training?"
    idle = [replace(done, task=task) for task in ("worker/9", "chief/0")]
    assert [idle_end(context, one) for one in idle] == [f"{one.task} on h1 {why}" for one in idle]
    assert [idle_end(context, one) for one in idle] == ["", ""], "they are noted"
    busy = (
        replace(done, finished_at=15.1), replace(done, exit_code=1), replace(done, restarts=1), replace(done, stopped=True),
        replace(done, started_at=None), replace(done, finished_at=None), replace(done, state=State.RUNNING),
        *(replace(done, task=f"{job}/0") for job in ("evaluator", "tensorboard", "serving", "dispatcher")),
    )  # fmt: skip
    context.noted.clear()
    assert [idle_end(context, one) for one in busy] == [""] * len(busy)
    host.puts(done)
    host.saves("worker/9", "model.keras", b"x")
    assert idle_end(context, done) == ""
    host.failure = HostError("h1", "its engine does not answer")
    assert idle_end(context, replace(done, task="worker/8")) == "", "whether it has left files is not known"


def test_of_many_failures_the_first_sixteen_are_read_and_those_alike_are_counted() -> None:
    memory_lab = MemoryLab()
    context, host = memory_lab.context, memory_lab.hosts["h3"]
    tasks = []
    for number in range(20):
        one = Observed(f"worker/{number}", "h3", State.EXITED, {}, exit_code=3, finished_at=100.0 - number)
        host.puts(one)
        host.prints(one.task, f"ValueError: {'odd' if number == 18 else 'boom'}")
        tasks.append(one)
    host.puts(stopped := replace(tasks[0], task="ps/7", stopped=True, finished_at=1.0))
    error = failure(context, [stopped, *tasks], observe(context))
    assert str(error).splitlines() == [
        "worker/19: exited with code 3",
        "  worker/19 | ValueError: boom",
        "worker/18: exited with code 3 as well: ValueError: odd",
        "worker/17, worker/16, worker/15 and 11 more: the same error",
    ]
    assert error.code == 3, "the code of the chief, worker/0, though it failed last"
    killed = [replace(one, exit_code=137) for one in tasks[:2]]
    error = failure(context, [*killed, replace(stopped, finished_at=None)], observe(context))
    assert str(error).splitlines() == [
        "worker/1: killed by SIGKILL (exit code 137)",
        "  worker/1 | ValueError: boom",
        "worker/0: killed by SIGKILL (exit code 137), too",
        "ps/7: stopped as well",
    ]
    assert error.code == 137, "the chief's own"
    host.failure = HostError("h3", "its engine does not answer")
    assert read_failure(context, tasks[0]) == Failure(tasks[0], [], "")
    assert last_log(context, "worker/0", "h3") == ()


def test_how_a_task_ended_has_its_host_its_restarts_and_why_it_is_left_alone() -> None:
    one = Observed("worker/1", "h2", State.EXITED, {}, exit_code=127, error="no such file", restarts=1)
    assert ended(one) == "could not start on h2: no such file after 1 restart"
    script = replace(one, error="the shell says: could not start", restarts=0)
    assert ended(script) == "could not start on h2: the shell says: could not start"
    two = replace(one, error="", exit_code=1, restarts=2, gave_up=True)
    assert ended(two) == "exited with code 1 after 2 restarts (the same error twice: not started again)"
    assert ended(replace(one, state=State.LOST, restarts=0)) == "gone without an exit code"
    assert ended(replace(one, state=State.CREATED, restarts=0)) == "created but never started"


def test_an_unknown_command_is_reported_once_with_its_host() -> None:
    memory_lab = lab()
    why = "there is no program `pyhton`; did you mean `python`? correct `command:`"
    for task in ("worker/2", "worker/3"):
        place = memory_lab.hosts["h3"].places[task]
        place.observed = replace(place.observed, state=State.EXITED, exit_code=127, error=why, finished_at=1.0)
    with pytest.raises(TaskFailed) as caught:
        wait_serving(memory_lab.context, 600)
    assert str(caught.value).splitlines() == [f"worker/2: could not start on h3: {why}", "worker/3: the same error"]


def test_tasks_with_other_values_of_flags_are_one_line_with_the_words_of_the_first() -> None:
    memory_lab = lab()
    hosts = memory_lab.hosts
    for host, task in (("h2", "worker/0"), ("h2", "worker/1"), ("h3", "worker/2")):
        hosts[host].prints(task, f"t.py: error: unrecognized arguments: --seed={task[-1]}")

    def fall() -> None:
        hosts["h1"].prints("ps/0", "MemoryError")
        hosts["h1"].exits("ps/0", 7)
        for host, task in (("h2", "worker/0"), ("h2", "worker/1"), ("h3", "worker/2")):
            hosts[host].now += 1
            hosts[host].exits(task, 2)

    with pytest.raises(TaskFailed) as caught:
        follow_with_steps(memory_lab.context, fall)
    assert str(caught.value).splitlines()[-1] == (
        "worker/0, worker/2, worker/1: exited with code 2 as well: t.py: error: unrecognized arguments: --seed=0"
    )
