"""Tests in several processes that are forks of one which has collected them: pytest -p tests.forks --forks 2.

For thousands of tests of a millisecond: pytest-xdist collects them in each of its processes and tells of every test over a
connection, which takes longer than most of them. A fork takes one lane after the other, whichever is next: a file, or a
group of tests that share what takes long to start.
"""

import contextlib
import os
import pickle
import selectors
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import pytest

LONGEST = ("lab", "trainings", "spark", "training-lab", "engine", "strategies", "tensorflow", "file-systems")
"""The lanes of integration tests, the longest first, as a run's last lines have them."""
SECONDS = pytest.StashKey[Counter[str]]()
"""How long the tests of each lane took, by its name."""
_IN_LANES = 3
"""Forks that begin with the lanes of `LONGEST`, which have work for more than one core each. For each of them that finds
none of these lanes left, a further fork begins: of the files that remain, many wait for a process or a clock. The first
of the further forks takes unit tests from the start: the three wait at the same time, now and then."""
_UNIT = "unit"
"""A directory of unit tests."""
_OF_EXAMPLES = 4_000
"""Bytes of other tests that take as long as a test with examples of hypothesis, which may be a file of few lines."""
_WAITING = ("test_host_lock.py",)
"""Files of unit tests that wait for most of their time: the first, so that others run meanwhile, and not the last."""
_SHOWN = 10
"""Lanes whose time is printed."""
RUN_ID = pytest.StashKey[str]()
"""What all processes of a run have in common, and no other run."""
_NUMBER = 4
"""Bytes of the number of a lane in the pipe from which forks take them."""
_SEND = 1
"""Seconds between two messages about finished tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--forks`."""
    parser.addoption("--forks", type=int, default=2, help="processes in which tests are run")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests in forks, and report here what they report; leave it to pytest where nothing is to be divided."""
    number = session.config.getoption("forks")
    if session.testsfailed or session.config.option.collectonly or number < 2:
        return None
    lanes = divided(session.items)
    names = {item.nodeid: lane_of(item) for item in session.items}
    session.config.stash[SECONDS] = Counter()
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # noqa: SLF001  one for all of them
    left = _Left(*(Counter(_kind(items[0]) for items in lanes)[kind] for kind in _KINDS))
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for fork in range(number):
            child, reports = _forked(session, lanes, left.taken(fork))
            stack.callback(_end, child)
            selector.register(stack.enter_context(reports), selectors.EVENT_READ)
        left.close()
        budget = session.config.pluginmanager.get_plugin("budget")
        while selector.get_map():
            if budget:
                budget.sample()
            for key, _ in selector.select():
                if not _report(session, key.fileobj, names):  # type: ignore[arg-type]
                    selector.unregister(key.fileobj)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
    return True


def divided(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """Return what one process runs, one test after the other: a `lane` by its mark, or else a file; the longest first.

    Groups share a fixture that takes long, such as hosts; what is left for the end is short.
    """
    lanes: dict[str, list[pytest.Item]] = {}
    for item in items:
        lanes.setdefault(lane_of(item), []).append(item)

    def length(key: str) -> tuple[int, bool, int]:
        size = sum(path.stat().st_size for path in {item.path for item in lanes[key]})
        size += _OF_EXAMPLES * sum(
            getattr(getattr(item, "obj", None), "is_hypothesis_test", False) for item in lanes[key]
        )
        kind = _kind(lanes[key][0])
        waits = key.rpartition("/")[2] in _WAITING
        return -_KINDS.index(kind), waits, LONGEST[::-1].index(key) if kind == "long" else size

    return [lanes[key] for key in sorted(lanes, key=length, reverse=True)]


_KINDS = ("long", "other", "unit")
"""Of lanes, in the order in which they are taken."""


def _kind(item: pytest.Item) -> str:
    if lane_of(item) in LONGEST:
        return "long"
    return "unit" if _UNIT in item.nodeid.partition("::")[0].split("/") else "other"


def lane_of(item: pytest.Item) -> str:
    """Return the group of a test, or else its file."""
    marker = item.get_closest_marker("lane")
    return str(marker.args[0] if marker else item.path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the lanes that took longest: the longest one bounds the time of the run."""
    if taken := config.stash.get(SECONDS, Counter()).most_common(_SHOWN):
        lanes = ", ".join(f"{lane.rpartition('/')[2]} {seconds:.0f}" for lane, seconds in taken)
        terminalreporter.write_line(f"seconds of the longest lanes: {lanes}")


class _Left:
    """The numbers of the lanes that are left, which forks take from pipes: first the long ones, then others, then unit."""

    def __init__(self, long: int, others: int, unit: int) -> None:
        self._long = _numbers(range(long))
        self._others = _numbers(range(long, long + others))
        self._unit = _numbers(range(long + others, long + others + unit))
        # A byte for each fork that has no long lane any more; reading ends, too, when no process has the other end open.
        self._freed, self._free = os.pipe()

    def taken(self, fork: int) -> Iterator[int]:
        """Yield the numbers that a fork takes, which are its own from then on."""
        if fork < _IN_LANES:
            yield from _read(self._long)
            os.write(self._free, b"1")
        os.close(self._free)
        if fork > _IN_LANES:
            os.read(self._freed, 1)
        if fork != _IN_LANES:
            yield from _read(self._others)
        yield from _read(self._unit)

    def close(self) -> None:
        """Leave them to the forks."""
        for descriptor in (self._long, self._others, self._unit, self._freed, self._free):
            os.close(descriptor)


def _numbers(numbers: Sequence[int]) -> int:
    """Return the end of a pipe from which they can be read."""
    reader, writer = os.pipe()
    for number in numbers:
        os.write(writer, number.to_bytes(_NUMBER))
    os.close(writer)
    return reader


def _read(numbers: int) -> Iterator[int]:
    while number := os.read(numbers, _NUMBER):
        yield int.from_bytes(number)


def _forked(
    session: pytest.Session, lanes: Sequence[Sequence[pytest.Item]], taken: Iterable[int]
) -> tuple[int, BinaryIO]:
    """Return the process that runs tests, and where its reports are read."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            _run(session, (lanes[number] for number in taken), os.fdopen(writer, "wb"))
            code = 0
        except KeyboardInterrupt:  # of Ctrl-C, or of `_end`
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            session._setupstate.teardown_exact(None)  # noqa: SLF001  as pytest ends a session
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
            raise
        finally:
            os._exit(code)
    os.close(writer)
    return child, os.fdopen(reader, "rb")


def _end(child: int) -> None:
    """Interrupt a process that still runs, so that its fixtures are torn down, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGINT)
    os.waitpid(child, 0)


class _Reports:
    """Collects the reports of tests; after all of them comes the number of the images that the process has built."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.kept: list[dict[str, Any] | int] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep it, unless nobody would miss it."""
        if report.when == "call" or not report.passed or report.duration > 0.005:
            self.kept.append(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))


def _run(session: pytest.Session, lanes: Iterable[Sequence[pytest.Item]], to: BinaryIO) -> None:
    from tests.support.budget import IMAGES_BUILT  # noqa: PLC0415  conftest.py must be the first to import tests.support

    plugins = session.config.pluginmanager
    plugins.unregister(plugins.get_plugin("terminalreporter"))
    reports = _Reports(session.config)
    plugins.register(reports)

    def send(*last: int) -> None:
        pickle.dump([*reports.kept, *last], to)
        to.flush()
        reports.kept = []

    for items in lanes:
        sent = time.monotonic()
        # After the last one everything is torn down but what belongs to the session.
        for item, following in zip(items, [*items[1:], session], strict=True):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if time.monotonic() > sent + _SEND:
                send()
                sent = time.monotonic()
        send()
    session._setupstate.teardown_exact(None)  # noqa: SLF001  as pytest ends a session
    send(session.config.stash.get(IMAGES_BUILT, 0))


def _report(session: pytest.Session, source: BinaryIO, names: Mapping[str, str]) -> bool:
    """Report what a process says of tests, whose lanes have `names`; False at its end."""
    try:
        reports = pickle.load(source)
    except EOFError:
        raise RuntimeError("a process of the tests ended before its last test") from None
    for data in reports:
        if isinstance(data, int):
            if budget := session.config.pluginmanager.get_plugin("budget"):
                budget.built += data
            return False
        hook = session.config.hook
        report = hook.pytest_report_from_serializable(config=session.config, data=data)
        session.config.stash[SECONDS][names[report.nodeid]] += report.duration
        hook.pytest_runtest_logreport(report=report)
    return True
