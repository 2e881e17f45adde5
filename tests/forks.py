"""Tests in several processes that are forks of one which has collected them: pytest -p tests.forks --forks 2.

For thousands of tests of a millisecond: pytest-xdist collects them in each of its processes and tells of every test over a
connection, which takes longer than most of them. A fork takes one file after the other, whichever is next.
"""

import contextlib
import os
import pickle
import selectors
import signal
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, BinaryIO

import pytest

_NUMBER = 4
"""Bytes of the number of a file in the pipe from which forks take them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--forks`."""
    parser.addoption("--forks", type=int, default=2, help="processes in which tests are run")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests in forks, and report here what they report; leave it to pytest where nothing is to be divided."""
    number = session.config.getoption("forks")
    if session.testsfailed or session.config.option.collectonly or number < 2:
        return None
    files = [list(items) for _, items in groupby(session.items, lambda item: item.path)]
    files.sort(key=lambda items: items[0].path.stat().st_size, reverse=True)  # what is left for the end is short
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # noqa: SLF001  one for all of them
    left = _numbers(len(files))
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(number):
            child, reports = _forked(session, files, left)
            stack.callback(_end, child)
            selector.register(stack.enter_context(reports), selectors.EVENT_READ)
        os.close(left)
        while selector.get_map():
            for key, _ in selector.select():
                if not _report(session, key.fileobj):  # type: ignore[arg-type]
                    selector.unregister(key.fileobj)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
    return True


def _numbers(count: int) -> int:
    """Return the end of a pipe from which the numbers below `count` can be read, each by one process."""
    reader, writer = os.pipe()
    for number in range(count):
        os.write(writer, number.to_bytes(_NUMBER))
    os.close(writer)
    return reader


def _forked(session: pytest.Session, files: Sequence[Sequence[pytest.Item]], left: int) -> tuple[int, BinaryIO]:
    """Return the process that runs tests, and where its reports are read."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            _run(session, files, left, os.fdopen(writer, "wb"))
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    return child, os.fdopen(reader, "rb")


def _end(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)


class _Reports:
    """Collects the reports of a file; `None` after all of them says that the process came to its end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.kept: list[dict[str, Any] | None] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep it, unless nobody would miss it."""
        if report.when == "call" or not report.passed or report.duration > 0.005:
            self.kept.append(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))


def _run(session: pytest.Session, files: Sequence[Sequence[pytest.Item]], left: int, to: BinaryIO) -> None:
    plugins = session.config.pluginmanager
    plugins.unregister(plugins.get_plugin("terminalreporter"))
    reports = _Reports(session.config)
    plugins.register(reports)
    for item, following in _with_next(item for items in _taken(files, left) for item in items):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if following is None or following.path != item.path:
            pickle.dump(reports.kept, to)
            to.flush()
            reports.kept = []
    pickle.dump([None], to)
    to.flush()


def _taken(files: Sequence[Sequence[pytest.Item]], left: int) -> Iterator[Sequence[pytest.Item]]:
    while number := os.read(left, _NUMBER):
        yield files[int.from_bytes(number)]


def _with_next(items: Iterator[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    item = next(items, None)
    while item is not None:
        following = next(items, None)
        yield item, following
        item = following


def _report(session: pytest.Session, source: BinaryIO) -> bool:
    """Report what a process says of a file; False at its end."""
    try:
        reports = pickle.load(source)
    except EOFError:
        raise RuntimeError("a process of the tests ended before its last test") from None
    for data in reports:
        if data is None:
            return False
        hook = session.config.hook
        hook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=session.config, data=data))
    return True
