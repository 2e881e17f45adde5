"""A gather that is cut off goes on where it stopped, and never with the bytes of another file."""

import io
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from tests.support.reporters import RecordingReporter
from tfprov.engine.checkpoints.gather import gather
from tfprov.engine.checkpoints.model_files import copy_path
from tfprov.engine.checkpoints.verify import Verification
from tfprov.engine.context import Context
from tfprov.engine.events import Transferred
from tfprov.errors import GatherError, HostError, Unreachable
from tfprov.hosts.base import Prefix
from tfprov.hosts.memory import MemoryRuntime
from tfprov.hosts.ssh.errors import ConnectionLost
from tfprov.model.cluster import Cluster, Task
from tfprov.model.inventory import Inventory
from tfprov.model.state import Observed, State

WORTHWHILE = 1024 * 1024
"""Bytes of a file that are kept and compared; fewer are copied anew."""
SIZE = 17 * WORTHWHILE
DATA, INDEX = "model.ckpt-100.data-00000-of-00001", "model.ckpt-100.index"
AWAY = Unreachable("h1", "no answer")
CONTENT = random.Random(1).randbytes(SIZE)


class Cutting(MemoryRuntime):
    """A host whose connection breaks after `every` bytes of a file, `cuts` times; `sent` counts the bytes of checkpoints.

    With `leaves`, it answers nothing after a cut; without `compares`, it has no program to compare files with; if
    `is_slow`, that takes too long.
    """

    every, cuts, sent, leaves, compares, is_slow = SIZE, 0, 0, False, True, False

    def open(self, task: str, name: str) -> BinaryIO:
        file = super().open(task, name)
        return file if name == "checkpoint" else buffered(self, file)

    def open_rest(self, task: str, name: str, before: Prefix) -> BinaryIO | None:
        if self.is_slow:
            raise HostError(self.host, "its Docker engine did not answer in time")
        rest = super().open_rest(task, name, before) if self.compares else None
        return None if rest is None else buffered(self, rest)


def buffered(host: Cutting, file: BinaryIO) -> BinaryIO:
    """Return `file` as runtimes do: buffered, so that small reads are cheap."""
    return cast(BinaryIO, io.BufferedReader(Cut(host, file.read())))


class Cut(io.RawIOBase):
    """A file that is sent over a connection that breaks."""

    def __init__(self, host: Cutting, data: bytes) -> None:
        self._host, self._data, self._left = host, io.BytesIO(data), host.every

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._host.cuts and not self._left:
            self._host.cuts -= 1
            self._host.failure = AWAY if self._host.leaves else None
            raise ConnectionLost(self._host.host, "the connection was lost")
        size = self._data.readinto(
            memoryview(buffer)[: min(len(buffer), self._left) if self._host.cuts else len(buffer)]
        )
        self._left -= size
        self._host.sent += size
        return size


class Fixture:
    def __init__(self, directory: Path) -> None:
        self.host, self.target = Cutting("h1"), directory / "linear"
        self.host.puts(Observed("worker/0", "h1", State.RUNNING, {}, run="run-1"))
        self.context = Context(
            inventory=Inventory("inventory.yml", {}, {}),
            cluster=Cluster("linear", (Task("worker", 0, "worker", "h1", "10.0.0.1", 2222),)),
            wanted=(),
            runtimes={"h1": self.host},
            artifacts={},
            home=directory / "home",
            target=self.target,
            report=RecordingReporter(),
        )
        self.saves(CONTENT)

    def saves(self, content: bytes, prefix: str = "model.ckpt-100") -> None:
        self.host.now += 1
        self.host.saves("worker/0", f"{prefix}.data-00000-of-00001", content)
        self.host.saves("worker/0", f"{prefix}.index", b"index")
        self.host.saves("worker/0", "checkpoint", f'model_checkpoint_path: "{prefix}"\n'.encode())

    def gather(self) -> list[str]:
        def verify(prefixes: Sequence[Path]) -> dict[str, Verification]:
            return {prefix.name: Verification(1) for prefix in prefixes}

        return [saved.prefix for saved in gather(self.context, verify).new]

    @property
    def part(self) -> Path:
        return self.target / ".part"

    def interrupted(self, size: int) -> None:
        """Gather until `size` bytes have come, after which the host is away for a while."""
        self.host.every, self.host.cuts, self.host.leaves = size, 1, True
        with pytest.raises(Unreachable):
            self.gather()
        self.host.failure, self.host.sent = None, 0


@pytest.fixture
def chief(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path)


def test_a_connection_that_is_cut_ten_times_costs_no_byte_twice(chief: Fixture) -> None:
    chief.host.every, chief.host.cuts = SIZE // 11, 10
    assert chief.gather() == ["model.ckpt-100"]
    assert (chief.target / DATA).read_bytes() == CONTENT
    assert (chief.host.cuts, chief.host.sent) == (0, SIZE + len(b"index"))
    assert not chief.part.exists()


def test_the_next_gather_goes_on_after_a_host_was_away(chief: Fixture) -> None:
    chief.interrupted(5 * WORTHWHILE)
    assert {path.name for path in chief.part.iterdir()} == {DATA}
    chief.host.failure = AWAY
    with pytest.raises(Unreachable):
        chief.gather()
    chief.host.failure = None
    report = RecordingReporter()
    chief.context = replace(chief.context, report=report)
    assert chief.gather() == ["model.ckpt-100"]
    moved = [event for event in report.events if isinstance(event, Transferred)]
    whole = SIZE + len(b"index")
    assert {(event.name, event.total) for event in moved} == {("worker/0", whole)}
    sent = [event.sent for event in moved]
    assert 5 * WORTHWHILE < sent[0] < sent[1] < SIZE, "what was there is counted"
    assert (sorted(sent), sent[-1]) == (sent, whole)
    assert (chief.target / DATA).read_bytes() == CONTENT
    assert chief.host.sent == SIZE - 5 * WORTHWHILE + len(b"index")
    assert not chief.part.exists()


def test_a_file_that_was_replaced_meanwhile_is_copied_anew(chief: Fixture) -> None:
    chief.interrupted(5 * WORTHWHILE)
    other = b"x" + CONTENT[1:]
    chief.saves(other)
    assert chief.gather() == ["model.ckpt-100"]
    assert (chief.target / DATA).read_bytes() == other


@pytest.mark.parametrize("damage", ["a bit", "too long", "a link", "a folder", "too short"])
def test_what_is_no_beginning_of_the_file_is_never_continued(chief: Fixture, damage: str) -> None:
    chief.interrupted(5 * WORTHWHILE)
    part, elsewhere = chief.part / DATA, chief.target.parent / "elsewhere"
    data = bytearray(part.read_bytes())
    part.unlink()
    if damage == "a bit":
        data[-1] ^= 1
        part.write_bytes(data)
    elif damage == "too long":
        part.write_bytes(CONTENT + b"more")
    elif damage == "too short":
        part.write_bytes(CONTENT[:100])
    elif damage == "a link":
        elsewhere.write_bytes(data)
        part.symlink_to(elsewhere)
    else:
        part.mkdir()
        (part / "file").write_bytes(data)
    assert chief.gather() == ["model.ckpt-100"]
    assert (chief.target / DATA).read_bytes() == CONTENT
    assert not (chief.target / DATA).is_symlink()
    assert chief.host.sent == SIZE + len(b"index")
    if damage == "a link":
        assert elsewhere.read_bytes() == data, "nothing was written through the link"


def test_a_host_that_cannot_compare_is_given_up_after_three_tries(chief: Fixture) -> None:
    chief.host.every, chief.host.cuts, chief.host.compares = 2 * WORTHWHILE, 100, False
    with pytest.raises(
        GatherError, match=r"^worker/0's checkpoint model\.ckpt-100 could not be copied: h1: the connection was lost$"
    ):
        chief.gather()
    assert chief.host.cuts == 96, "the first try opens it twice"
    chief.host.cuts = 0
    assert chief.gather() == ["model.ckpt-100"]
    assert (chief.target / DATA).read_bytes() == CONTENT


def test_a_connection_that_brings_nothing_more_ends_a_gather_after_three_tries(chief: Fixture) -> None:
    chief.interrupted(WORTHWHILE)
    chief.host.every, chief.host.cuts, chief.host.leaves = 0, 100, False
    with pytest.raises(GatherError):
        chief.gather()
    assert chief.host.cuts == 96, "the first try, which has what an earlier gather left, and three more"


def test_a_host_that_compares_too_slowly_sends_the_whole_file(chief: Fixture) -> None:
    chief.interrupted(5 * WORTHWHILE)
    chief.host.is_slow = True
    assert chief.gather() == ["model.ckpt-100"]
    assert (chief.target / DATA).read_bytes() == CONTENT
    assert chief.host.sent == SIZE + len(b"index")


@pytest.mark.parametrize(("size", "is_kept"), [(WORTHWHILE - 1, False), (WORTHWHILE, True)])
def test_a_short_beginning_of_a_file_is_not_kept(chief: Fixture, *, size: int, is_kept: bool) -> None:
    chief.interrupted(size)
    assert [path.name for path in chief.target.rglob("*") if path.is_file()] == [DATA] * is_kept


def test_beginnings_of_files_that_are_gone_do_not_pile_up(chief: Fixture) -> None:
    chief.interrupted(5 * WORTHWHILE)
    for name in (DATA, INDEX):
        del chief.host.places["worker/0"].files[name]
    chief.saves(CONTENT[::-1], "model.ckpt-200")
    chief.interrupted(3 * WORTHWHILE)
    assert {path.name: path.stat().st_size for path in chief.part.iterdir()} == {
        "model.ckpt-200.data-00000-of-00001": 3 * WORTHWHILE
    }


def test_a_copied_directory_has_nothing_of_an_interrupted_gather(chief: Fixture) -> None:
    chief.host.saves("worker/0", "export/big", CONTENT)
    chief.interrupted(5 * WORTHWHILE)
    (chief.part / "export").mkdir(exist_ok=True)
    (chief.part / "export" / "big").write_bytes(CONTENT[: 2 * WORTHWHILE])
    chief.host.writes("worker/0", "export/model.keras", b"model")
    copied = copy_path(chief.context, "export")
    assert [path.name for path in copied.at.iterdir()] == ["model.keras"]
