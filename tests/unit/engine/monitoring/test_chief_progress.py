"""How far the chief is, read from the end of a file that is on another machine."""

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.event_files import event, sized
from tests.support.memory_cluster import make_context
from tests.support.memory_lab import INVENTORY as MEMORY_LAB
from tests.support.memory_lab import MemoryLab
from tests.support.split_training import SplitTraining
from tfprov.engine.monitoring.chief_progress import (
    Lives,
    Reached,
    StepDrops,
    lives,
    read_progress,
    read_reached,
    steps_of,
    tail_of,
    train_steps,
)
from tfprov.engine.observe import observe
from tfprov.formats.event_file import EventProgress, progress
from tfprov.formats.tfrecord import write_record
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.state import Observed, State

EVENTS = "events.out.tfevents.1.w0"


def event_file(steps: int, filler: int, values: Mapping[str, float | bytes] | None) -> bytes:
    """Return an event file with `filler` bytes in a field that nothing reads in front of every step."""
    stream, between = io.BytesIO(), io.BytesIO()
    write_record(between, sized(15, bytes(filler)))
    write_record(stream, event(1.0, 0))
    for step in range(1, steps + 1):
        stream.write(between.getvalue())
        write_record(stream, event(step / 4, step, {**(values or {}), "loss": 1 / step}))
    return stream.getvalue()


class Metered(MemoryRuntime):
    """Counts the bytes that a file's end costs; `grows` is written behind what was listed before it is read."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.moved = 0
        self.grows = b""

    def tail(self, task: str, name: str, size: int) -> bytes:
        if self.grows:
            self.saves(task, name, self.places[task].files[name][0] + self.grows)
        data = super().tail(task, name, size)
        self.moved += len(data)
        return data


@pytest.fixture
def split(tmp_path: Path) -> SplitTraining:
    return SplitTraining(tmp_path, hosts={"w0": Metered("w0")}).runs()


def read_counted(split: SplitTraining, data: bytes) -> tuple[EventProgress | None, int]:
    """Return what is read of a file of the chief, and how many bytes were moved for it."""
    chief = split.hosts["w0"]
    assert isinstance(chief, Metered)
    chief.saves("worker/0", EVENTS, data)
    chief.moved = 0
    parsed = read_progress(split.context, observe(split.context))
    return parsed, chief.moved


def test_little_of_a_file_of_50_megabytes_is_read_with_the_same_result(split: SplitTraining) -> None:
    data = event_file(steps=1000, filler=50_000, values=None)
    assert len(data) > 50_000_000
    actual, moved = read_counted(split, data)
    assert actual == progress(io.BytesIO(data))
    assert actual is not None
    assert (actual.step, actual.steps_per_second) == (1000, 4.0)
    assert moved < 1_000_000


@pytest.mark.parametrize("steps", [1, 2, 40, 1000])
@pytest.mark.parametrize("filler", [0, 700, 9000])
def test_the_progress_is_that_of_the_whole_file_at_every_size(split: SplitTraining, steps: int, filler: int) -> None:
    data = event_file(steps, filler, {"other": 1.0})
    assert read_counted(split, data)[0] == progress(io.BytesIO(data))


def test_at_most_two_megabytes_of_a_file_without_progress_are_read(split: SplitTraining) -> None:
    data = event_file(steps=1, filler=0, values=None) + event_file(steps=1, filler=6_000_000, values=None)[:-200]
    _, moved = read_counted(split, data)
    assert moved < 3_000_000


@pytest.mark.parametrize("size", [1000, 300_000, 3_000_000])
def test_a_file_that_grows_while_it_is_read_does_not_confuse_anybody(split: SplitTraining, size: int) -> None:
    data = event_file(steps=10, filler=size // 10, values=None)
    chief = split.hosts["w0"]
    assert isinstance(chief, Metered)
    chief.grows = event_file(steps=1, filler=100, values=None)
    actual, _ = read_counted(split, data)
    assert actual is not None
    assert actual.step in (1, 10), "of the records before it grew, or of those behind them"


def test_a_chief_that_has_written_nothing_has_no_progress(split: SplitTraining) -> None:
    assert read_progress(split.context, observe(split.context)) is None
    assert read_counted(split, b"")[0] is None


def test_a_chief_without_event_files_is_at_the_step_that_it_saved_last(split: SplitTraining) -> None:
    chief = split.hosts["w0"]
    for step, names in ((9, ("index", "data-00000-of-00001")), (4, ("index", "data-00000-of-00001")), (12, ("index",))):
        chief.now += 1
        for name in names:
            chief.saves("worker/0", f"ckpt-{step}.{name}", b"x")
    seen = observe(split.context)
    assert read_reached(split.context, seen) == Reached(4, "checkpoints", None, "", 0, (4, chief.now - 1))
    chief.saves("worker/0", "notes.bin", event_file(steps=3, filler=10, values=None))
    for name in ("ckpt-0.index", "ckpt-0.data-00000-of-00001", "best.index", "best.data-00000-of-00001"):
        chief.now += 1
        chief.saves("worker/0", name, b"x")
    assert read_reached(split.context, seen) == Reached(0, "checkpoints", saved=(0, chief.now - 3)), (
        "no other file counts"
    )
    chief.saves("worker/0", f"train/{EVENTS}", event_file(steps=7, filler=10, values=None))
    reached = read_reached(split.context, seen)
    assert reached is not None
    assert (reached.step, reached.source, reached.file, reached.saved) == (7, "train", f"train/{EVENTS}", None)
    assert read_reached(split.context, seen, {}) is None, "by the files that are known already"


def test_an_empty_new_file_does_not_hide_the_one_before(split: SplitTraining) -> None:
    chief = split.hosts["w0"]
    chief.saves("worker/0", "events.out.tfevents.0.w0", event_file(steps=7, filler=10, values=None))
    chief.now += 1
    actual, _ = read_counted(split, b"")
    assert actual is not None
    assert actual.step == 7


def test_the_end_of_a_file_reads_like_the_file(split: SplitTraining) -> None:
    data = bytes(range(256)) * 20
    split.hosts["w0"].saves("worker/0", "x", data)
    assert tail_of(split.hosts["w0"], "worker/0", "x", len(data)).read(len(data)) == data
    file = tail_of(split.hosts["w0"], "worker/0", "x", len(data))
    assert file.seek(0, io.SEEK_END) == len(data)
    assert file.read(10) == b""
    for start in (0, 1, 5000, len(data) - 1):
        assert file.seek(start) == start
        assert file.read(len(data) - start) == data[start:]


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (["python", "a.py", "--train_steps=2000", "--batch_size=64"], 2000),
        (["a.py", "-max_steps=20", "--max_steps=30"], 30),
        (["a.py", "--train_steps=many"], None),
        (["a.py", "--max_steps=0"], None),
        (["a.py", "--train_steps", "2000"], None),
        (["a.py", "--my_train_steps=5"], None),
        (["a.py", f"--num_steps={'9' * 30}"], None),
        ([], None),
    ],
)
def test_the_steps_of_a_training_are_read_from_its_flags(words: list[str], steps: int | None) -> None:
    assert train_steps(words) == steps


def test_the_steps_of_a_running_chief_are_those_that_it_was_started_with() -> None:
    text = MEMORY_LAB.replace("command: [python]", "command: [python], flags: {train_steps: 1000}")
    lab = MemoryLab(text=text)
    edited = make_context(text.replace("WIRING", "flags").replace("1000", "2000"), (), lab.hosts)
    assert steps_of(edited, edited.chief(observe(edited))) == 1000
    started = Observed("worker/0", "h2", State.RUNNING, {"flags": {"lr": 1}, "command": ["python", "--max_steps=7"]})
    assert steps_of(edited, started) == 7
    assert steps_of(edited, replace(started, spec={"flags": {}})) is None
    assert steps_of(edited) == 2000
    assert steps_of(replace(edited, wanted=())) is None, "the chief is left out"


def test_steps_are_lost_within_ten_minutes_after_a_restart_of_the_chief_or_a_ps() -> None:
    one = Observed("worker/0", "h2", State.RUNNING, {}, started_at=5.0, restarts=1)
    ps, other = replace(one, task="ps/1", host="h1"), replace(one, task="worker/1")
    before = lives([one, ps, other], "worker/0")
    assert before == {("worker/0", "h2", 5.0, 1), ("ps/1", "h1", 5.0, 1)}
    after = lives([replace(one, restarts=2), ps], "worker/0")

    def update(at: float, reached: Reached, now: Lives = after) -> tuple[int, int] | None:
        drops = StepDrops()
        assert drops.update(Reached(100, "", saved=(100, 50.0)), before, 0.0, lambda _: None) is None
        assert drops.update(Reached(100, "", saved=(100, 50.0)), now, 10.0, lambda _: None) is None
        return drops.update(reached, now, at, lambda _: None)

    assert update(610.0, Reached(90, "")) == (100, 90)
    assert update(610.5, Reached(90, "")) is None
    assert update(20.0, Reached(90, ""), before) is None, "nothing was restarted"
    assert update(20.0, Reached(100, "")) is None
    assert update(20.0, Reached(100, "", saved=(99, 50.5))) == (100, 99)
    assert update(20.0, Reached(100, "", saved=(100, 50.5))) is None
    assert update(20.0, Reached(100, "", saved=(99, 50.0))) is None, "it was saved before"
