"""Which unit test runs which lines of the code: recorded once per test file, and again when what it reads has changed.

A change of the code itself, as opposed to that of tests and their cases, only moves lines: what was recorded moves with
them, and a line that is new counts as run by whoever ran those in its place. That decides which tests are chosen, and
not what they find.
"""

import difflib
import fnmatch
import functools
import hashlib
import json
import operator
import os
import resource
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import coverage

from tests.mutation.children import Pool, files_of, output_of, pytest_arguments

_FORMAT = 1
_LIMIT = 3600.0
"""Seconds for one test file."""
_ATTEMPTS = 3
"""Python 3.11 sometimes refuses to trace two threads that start at once, and then one of them dies of it."""


@dataclass
class Record:
    """What one test file runs."""

    tests: list[str]
    seconds: list[float]
    """Of CPU time, for each test: how long one waits depends on who else is at work."""
    start: float
    """Seconds of CPU time for importing the file and all that it needs."""
    lines: dict[str, dict[int, int]]
    """The tests that run each line of each module, as bits; a test that a fixture serves runs what the fixture runs."""
    imported: set[str]
    """The modules that the file imports."""
    read: set[str]
    """All files that were read meanwhile, modules among them."""
    failed: str = ""


@dataclass(eq=False)
class Recorder:
    """A pytest plugin that notes which test runs which lines."""

    measured: coverage.Coverage
    tests: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    fixtures: dict[str, list[str]] = field(default_factory=dict)
    failed: str = ""
    current: str = ""
    collected: float = 0.0

    def pytest_collection_finish(self) -> None:
        self.collected = time.process_time()

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed = f"{report.nodeid}\n{report.longrepr}"

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed = f"{report.nodeid}\n{report.longrepr}"

    def switch(self, context: str) -> None:
        self.current = context
        # A rendering's timer may still tick: coverage would measure its handler, which waits for the lock held here.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])
        self.measured.switch_context(context)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hooks(recorder: Recorder) -> object:
    """Return the hooks that wrap others: they need pytest, which the file itself does not."""
    import pytest  # noqa: PLC0415

    class Hooks:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
            recorder.tests.append(item.nodeid)
            recorder.seconds.append(0.0)
            recorder.fixtures[item.nodeid] = list(item.fixturenames)
            recorder.switch(item.nodeid)
            began = _spent()
            result = yield
            recorder.seconds[-1] = _spent() - began
            recorder.switch("")
            return result

        @pytest.hookimpl(wrapper=True)
        def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
            before = recorder.current
            if fixturedef.scope != "function":
                recorder.switch(f"@{fixturedef.argname}")
            try:
                return (yield)
            finally:
                recorder.switch(before)

    return Hooks()


def _spent() -> float:
    """Return the seconds of CPU time that this process and its children have taken."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def record(tree: Path, file: str) -> dict[str, Any]:
    """Run a test file in a child; return what is kept of it."""
    import pytest  # noqa: PLC0415

    read: set[str] = set()
    root = f"{tree}/"

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | Path):
            path = os.path.join(tree, arguments[0])  # noqa: PTH118  as cheap as can be
            if path.startswith(root):
                read.add(path)

    sys.addaudithook(note)
    measured = coverage.Coverage(data_file=None, source=[str(tree / "tfprov")], config_file=False)
    recorder = Recorder(measured)
    began = time.process_time()
    measured.start()
    code = int(pytest.main(pytest_arguments([file]), plugins=[recorder, _hooks(recorder)]))
    measured.stop()
    if code and not recorder.failed:
        recorder.failed = f"pytest ended with {code}\n{output_of(os.environ['TMPDIR'])}"
    modules = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    return {
        "tests": recorder.tests,
        "seconds": [round(one, 4) for one in recorder.seconds],
        "start": recorder.collected - began,
        "failed": recorder.failed,
        "masks": _masks(measured.get_data(), recorder, root),
        "imported": sorted(name.removeprefix(root) for name in modules if name.startswith(f"{root}tfprov/")),
        "read": _states(tree, [*read, *(name for name in modules if name.startswith(root))]),
    }


def _masks(data: coverage.CoverageData, recorder: Recorder, root: str) -> dict[str, Any]:
    """Return the tests of each line as a number in hexadecimal, each number once."""
    bits: dict[str, int] = defaultdict(int)
    for number, test in enumerate(recorder.tests):
        bits[test] |= 1 << number
        for fixture in recorder.fixtures[test]:
            bits[f"@{fixture}"] |= 1 << number
    numbers: dict[tuple[str, ...], int] = {}
    lines: dict[str, dict[int, int]] = {}
    for path in data.measured_files():
        of_file = lines.setdefault(path.removeprefix(root), {})
        for line, contexts in data.contexts_by_lineno(path).items():
            of_file[line] = numbers.setdefault(tuple(sorted(contexts)), len(numbers))
    masks = []
    for of_line in numbers:
        mask = 0
        for context in of_line:
            mask |= bits.get(context, 0)
        masks.append(f"{mask:x}")
    return {"masks": masks, "lines": lines}


def _states(tree: Path, names: Iterable[str]) -> dict[str, str]:
    """Return a digest of each file and folder of the tree that was read, by its path in the tree."""
    paths = {os.path.relpath(name, tree) for name in names if not name.endswith((".pyc", ".pyo"))}
    counted = (path for path in sorted(paths) if "__pycache__" not in path and path not in (".", ".."))
    return {path: state for path in counted if (state := _state(tree / path))}


def _state(path: Path) -> str:
    try:
        if not path.is_dir():
            return hashlib.sha256(path.read_bytes()).hexdigest()
        # Python lists the folders of packages when it imports: what another test file is called changes nothing.
        names = [] if (path / "__init__.py").exists() else sorted(os.listdir(path))  # noqa: PTH208
        return hashlib.sha256("\0".join(name for name in names if name != "__pycache__").encode()).hexdigest()
    except OSError:  # it is not there, or cannot be: a test may try any name
        return ""


def cache_directory() -> Path:
    """Return where what is known of tests and types is kept between runs."""
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "tfprov-mutants"


def _key(file: str) -> str:
    return hashlib.sha256(f"{_FORMAT} {sys.version} {file}".encode()).hexdigest()[:32]


def _cached(tree: Path, file: str) -> dict[str, Any] | None:
    """Return what is in the cache of a test file, if the tests and all that they read are as they were."""
    for path in cache_directory().glob(f"{_key(file)}-*.json"):
        kept: dict[str, Any] = json.loads(path.read_bytes())
        changed = {name: state for name, state in kept["read"].items() if _state(tree / name) != state}
        if all(_is_code(name) and (_sources() / state).exists() for name, state in changed.items()):
            for name, state in changed.items():
                _move(kept["masks"]["lines"], kept["masks"]["masks"], tree, name, state)
            return kept
    return None


def _is_code(name: str) -> bool:
    return name.startswith("tfprov/") and name.endswith(".py")


def _sources() -> Path:
    """Return where each version of the code lies that something was recorded of, by its digest."""
    return cache_directory() / "sources"


@cache
def _moves(path: Path, state: str) -> tuple[tuple[int, int, int, int], ...]:
    """Return which lines of the code as it was became which of the code as it is."""
    before = (_sources() / state).read_text().splitlines()
    after = path.read_text().splitlines() if path.exists() else []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return tuple(codes[1:] for codes in matcher.get_opcodes())


def _move(lines: dict[str, dict[str, int]], masks: list[str], tree: Path, name: str, state: str) -> None:
    old = {int(line): number for line, number in lines.get(name, {}).items()}
    new: dict[str, int] = {}
    for first, end, start, stop in _moves(tree / name, state):
        if end - first == stop - start:
            new |= {str(line - first + start): old[line] for line in range(first + 1, end + 1) if line in old}
            continue
        around = [old[line] for line in range(first, end + 1) if line in old]  # and the line above
        masks.append(f"{functools.reduce(operator.or_, (int(masks[number], 16) for number in around), 0):x}")
        new |= {str(line): len(masks) - 1 for line in range(start + 1, stop + 1)}
    lines[name] = new


def _keep(tree: Path, file: str, kept: dict[str, Any]) -> None:
    _sources().mkdir(parents=True, exist_ok=True)
    for name, state in kept["read"].items():
        if _is_code(name) and not (_sources() / state).exists():
            shutil.copyfile(tree / name, _sources() / state)
    content = json.dumps(kept)
    digest = hashlib.sha256(json.dumps(kept["read"]).encode()).hexdigest()[:16]
    target = cache_directory() / f"{_key(file)}-{digest}.json"
    incomplete = target.with_suffix(f".{os.getpid()}")
    incomplete.write_text(content)
    incomplete.replace(target)


def _record(kept: dict[str, Any]) -> Record:
    masks = [int(mask, 16) for mask in kept["masks"]["masks"]]
    lines = {
        path: {int(line): masks[number] for line, number in of_file.items()}
        for path, of_file in kept["masks"]["lines"].items()
    }
    return Record(
        kept["tests"], kept["seconds"], kept["start"], lines, set(kept["imported"]), set(kept["read"]), kept["failed"]
    )


def records(tree: Path, pool: Pool, say: Any, pattern: str = "*") -> dict[str, Record]:
    """Return what each test file of a tree runs; what is not in the cache is recorded."""
    kept: dict[str, Any] = {}
    missing = []
    for file in fnmatch.filter(files_of(tree), pattern):
        if (one := _cached(tree, file)) is not None:
            kept[file] = one
        else:
            missing.append(file)
    for attempt in range(_ATTEMPTS):
        if missing:
            say(f"{len(missing)} test files are run to see which lines they reach{' once more' * bool(attempt)}")
        for file in sorted(missing, key=lambda file: -(tree / file).stat().st_size):

            def done(result: Any, file: str = file) -> None:
                kept[file] = result if isinstance(result, dict) else {"failed": str(result)}
                if not kept[file]["failed"]:
                    _keep(tree, file, kept[file])

            pool.start(tree, partial(record, tree, file), _LIMIT, done)
        pool.wait()
        missing = [file for file in missing if kept[file]["failed"]]
    empty = {"tests": [], "seconds": [], "start": 0.0, "masks": {"masks": [], "lines": {}}, "imported": [], "read": {}}
    return {file: _record(empty | one) for file, one in sorted(kept.items())}
