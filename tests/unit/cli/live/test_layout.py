"""The live view: readable at 80 columns with 40 tasks and with 1,000, and drawn on a real pseudo-terminal."""

import fcntl
import os
import signal
import termios
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.support.clock import ManualClock
from tests.support.terminal import Terminal, terminal
from tests.support.waiting import LONG, until
from tfprov.cli.live.layout import fitted_table, grouped, screen_lines, summary_line
from tfprov.cli.live.watch import suspended, watch
from tfprov.cli.watch import status_lines
from tfprov.engine.monitoring.overview import Overview
from tfprov.engine.monitoring.status import Row, Status, StepBack
from tfprov.engine.monitoring.task_progress import Pace, Slowest
from tfprov.errors import Terminated, Unreachable
from tfprov.formats.event_file import EventProgress
from tfprov.hosts.usage import Usage

GIB = 1 << 30


def overview(workers: int, **changes: object) -> Overview:
    """A cluster with 4 ps on node[1:4], and a worker on each further node, with different speeds."""
    rows = [Row(f"ps/{n}", f"node{n + 1}", "running", f"10.0.0.{n}:2222", "4711", 130.0) for n in range(4)]
    rows += [
        Row(f"worker/{n}", f"node{n + 17}", "running", f"10.0.1.{n % 250}:2222", "4711", 130.0 - n / 1000,
            pace=Pace(1200, 1200, 96.0 + n % 9, None, 5.0))
        for n in range(workers)
    ]  # fmt: skip
    status = Status(
        "mnist", "worker/0", tuple(rows), EventProgress(1200, 5.0, 20.1, 0.1234), Slowest("worker/9", 96.0, 100.0, workers),
        StepBack("worker/0", 448, 401), {}, 2000, run="r",
    )  # fmt: skip
    usage = {row.task: Usage(0.5, GIB, None) for row in rows}
    made = Overview(f"mnist: 4 ps, {workers} workers", status, usage, "step 1200 loss 0.1234")
    return replace(made, status=replace(status, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [60, 80, 110, 200])
@pytest.mark.parametrize("workers", [1, 36, 996])
@pytest.mark.parametrize("rows", [10, 24, 60])
def test_the_screen_is_never_too_wide_or_too_high_and_has_what_matters(columns: int, workers: int, rows: int) -> None:
    lines = screen_lines(overview(workers), columns, rows, 3.0)
    assert len(lines) <= rows
    assert max(map(len, lines)) <= columns
    text = "\n".join(lines)
    assert lines[0].startswith("mnist: step 1,200 of 2,000 · 60.0% · 20.1 steps/s")
    assert "worker/0 | step 1200 loss 0.1234" in text
    assert "as of 3 s ago" in text


def test_forty_tasks_at_eighty_columns() -> None:
    lines = screen_lines(overview(36), 80, 24, 0.0)
    assert lines[0] == "mnist: step 1,200 of 2,000 · 60.0% · 20.1 steps/s · loss 0.1234 · ETA 39s · up …"
    table = [line for line in lines if line.startswith(("TASK", "ps/", "worker/0-"))]
    assert table == [
        "TASK         STATE    UP      STEPS/S  CPU   MEMORY   HOST",
        "ps/0-3       running  2m 10s  -        2.0   4.3 GB   node[1:4]",
        "worker/0-35  running  2m 10s  96-104   18.0  38.7 GB  node[17:52]",
    ]


def test_a_thousand_tasks_with_bad_ones_first() -> None:
    full = overview(996)
    rows = list(full.status.rows)
    rows[500] = replace(rows[500], state="failed", uptime=None, pace=None, detail="exit code 137")
    rows[600] = replace(rows[600], state="restarting", restarts=3, uptime=None)
    bad = replace(full, status=replace(full.status, rows=tuple(rows)))
    lines = screen_lines(bad, 100, 24, 0.0)
    assert lines[3].startswith("worker/496")
    assert "failed" in lines[3]
    assert "exit code 137" in lines[3]
    assert "restarting (3x)" in lines[4]
    assert "worker/0-495,497-595,597-995" in "\n".join(screen_lines(bad, 200, 24, 0.0))
    all_bad = replace(full, status=replace(full.status, rows=tuple(replace(row, state="absent") for row in rows)))
    assert len(grouped(all_bad, 10)) == 2


def test_lost_hosts_and_gpus_are_shown() -> None:
    lost = {f"node{n}": Unreachable(f"node{n}", "no route") for n in range(17, 22)}
    shown = "\n".join(screen_lines(overview(36, unreachable=lost), 80, 24, 0.0))
    assert "node17: no route" in shown
    assert "and 3 more hosts that do not answer" in shown
    made = overview(2)
    with_gpu = replace(made, usage={**made.usage, "worker/0": Usage(1.0, GIB, 8 * GIB)})
    assert "  8.6 GB  " in "\n".join(screen_lines(with_gpu, 100, 24, 0.0))


def test_a_hostile_line_or_host_cannot_steer_the_terminal() -> None:
    hostile = replace(overview(1), last_line="\x1b[2J\x1b]0;x\x07\nevil\u202e", title="a\x1b[H")
    for line in screen_lines(hostile, 80, 24, 0.0):
        assert line.isprintable(), line


def test_the_summary_of_a_cluster_without_progress() -> None:
    assert summary_line(overview(1, progress=None).status, "mnist:") == "mnist: no step yet · up 2m 10s · 47 steps lost"
    nothing = replace(overview(1).status, rows=(), progress=None, went_back=None)
    assert summary_line(nothing, "mnist:") == "mnist: not running"


@pytest.mark.parametrize("columns", [60, 80, 110])
def test_no_row_of_status_wraps(columns: int) -> None:
    status = overview(3).status
    rows = (*status.rows, Row("worker/3", "a-host-with-a-long-name.example.com", "failed", detail="x" * 200))
    lines = list(status_lines(replace(status, rows=rows), columns))
    table = [line for line in lines if line.startswith(("TASK", "ps/", "worker/1 ", "worker/3"))]
    assert len(table) == 7
    assert max(map(len, table)) <= columns
    assert f"  {'x' * 200}" in lines, "a message stands below its row, whole"
    assert any("up 2m 10s · 47 steps lost" in line for line in lines)
    whole = list(status_lines(replace(status, rows=rows)))
    assert any(line.endswith("x" * 200) for line in whole), "in a pipe everything is on one line"
    assert [*fitted_table([("A", ""), ("b", "")], 80)] == ["A", "b"]


@pytest.fixture
def window() -> Iterator[Terminal]:
    with terminal(80, 24) as made:
        yield made


def test_the_view_is_drawn_on_a_terminal_that_is_as_before_afterwards(window: Terminal) -> None:
    window.out.write("before\r\n")
    window.out.flush()
    readings: list[int] = []
    ended = threading.Event()

    def read() -> Overview:
        readings.append(1)
        return overview(36, steps=1000 * len(readings))

    thread = threading.Thread(target=watch, args=(read, window.out), kwargs={"interval": 0.1, "ends": ended.is_set})
    thread.start()
    until(
        lambda: len(readings) > 3 and any(line.startswith("worker/0-35  running") for line in window.lines()),
    )
    shown = window.lines()
    assert any(line.startswith("worker/0-35  running") for line in shown)
    window.resize(60)
    until(lambda: any(line.startswith("mnist: step 1,200") and line.endswith("…") for line in window.lines()))
    ended.set()
    thread.join(LONG)
    assert not thread.is_alive()


def test_a_terminal_without_a_size_shows_the_view(window: Terminal) -> None:
    fcntl.ioctl(window.out.fileno(), termios.TIOCSWINSZ, bytes(8))
    ended = threading.Event()
    thread = threading.Thread(
        target=watch, args=(lambda: overview(36), window.out), kwargs={"interval": 0.1, "ends": ended.is_set}
    )
    thread.start()
    try:
        until(lambda: any(line.startswith("worker/0-35  running") for line in window.lines()))
    finally:
        ended.set()
        thread.join(LONG)


def test_the_first_reading_is_awaited_with_a_moving_line_and_an_error_ends_the_view(window: Terminal) -> None:
    answers, clock = threading.Event(), ManualClock()
    raised: list[BaseException] = []

    def read() -> Overview:
        answers.wait(LONG)
        raise Unreachable("node1", "no route")

    def run() -> None:
        try:
            watch(read, window.out, interval=0.1, now=clock.now)
        except Unreachable as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: any("asking the hosts · 0 s" in line for line in window.lines()))
    clock.time += 1
    until(lambda: any("asking the hosts · 1 s" in line for line in window.lines()))
    answers.set()
    thread.join(LONG)
    assert [str(error) for error in raised] == ["node1: no route"]


def test_ctrl_z_gives_the_screen_back_to_the_shell_until_the_view_goes_on() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)  # an error, and no wait, where nothing was written
    seen = []
    with suspended(writing, stop=lambda: seen.append(os.read(reading, 100))):
        os.kill(os.getpid(), signal.SIGTSTP)
    assert seen == [b"\x1b[?25h\x1b[?1049l"], "the cursor, and the screen of before"
    assert os.read(reading, 100) == b"\x1b[?1049h\x1b[?25l"
    for end in (reading, writing):
        os.close(end)


def test_the_view_ends_well_by_ctrl_c_and_not_by_sigterm() -> None:
    def raises(error: BaseException) -> bool:
        raise error

    with terminal(80, 24) as window:
        watch(lambda: overview(1), window.out, ends=lambda: raises(KeyboardInterrupt()))
        with pytest.raises(Terminated):
            watch(lambda: overview(1), window.out, ends=lambda: raises(Terminated()))
