"""Mutants of the pure packages: small faults put into the code one at a time, to see whether a unit test notices.

    python -m tests.mutants [--sample 200] [--seed N] [--jobs 2] [--only GLOB] [--tests GLOB]

    make mutants ARGS="--sample 50 --only 'tfprov/inventory/*'"

A random sample of all mutants is tried, with a seed that is printed and repeats it; `--sample 0` takes them all.
`--only` chooses by file, or by the name of a mutant, which is its file, line, column, kind and number: `--only
'tfprov/formats/tfrecord.py'`, `--only 'tfprov/planning/*:compare:*'`, or the name of a single one, as the list of
survivors has it. What is mutated and what is not is listed in `tests/mutation/mutate.py`.

**Which modules.** Those that decide and do not act (`PURE` below): their collaborators are values or in-memory hosts, so a
unit test reaches each line in milliseconds. Left out of `engine` and `images` are the modules that start programs, connect,
lock, talk to an engine, or keep files that several runs use at the same time, the relays among them, whose program runs on
the hosts: the integration tests show these with real hosts. `hosts`, `runtime` and `cli` are left out for the same reason.

**Which tests.** Each unit test file is run once with `coverage`, to see which test runs which line. This takes as long as
the unit tests do, is kept in the cache directory (`$XDG_CACHE_HOME/tfprov-mutants`), and is done again for a test file only
when something has changed that it has read. For a mutant come first those tests that run the changed line, the quickest
first, and further cases of a test function the later the more there are; then some others of the same files. Code that runs
at import has no such tests: those count that run the lines which use its names, then those that run anything in its module,
and then those of all files that import it. They end with the first failure, or when they have taken `--seconds` of CPU
time, by the record.

**Types.** A survivor that mypy refuses cannot be committed, and is counted as killed by types, apart from those that tests
kill: `None` to 0 as the default of a text, for example. mypy reads the file alone, with what it knows of the others in
the cache directory.

A mutant that no test reaches has survived, as has one that all chosen tests pass; that the whole suite would kill it is
possible, but then by a test that never ran the line, or by one beyond `--seconds`. One that takes five times the CPU time
of the original, or all the memory it may have, is killed.

**The control.** Before the first mutant, the tests that come first for any of them are run on the original, in the same
way; behind the last one, so are all others that have killed one. If one of them fails, the run is void: nothing counts,
and the exit code is 2. With `--least` it is 1 when fewer are killed.

**How.** Each mutant has a copy of the tree for itself in a temporary directory, which is removed at the end; the working
tree is only read. The copies share the files in which they do not differ, and the run is void if one of these was changed.
pytest and the packages of others are imported once, and each mutant is a process forked from there.
"""

import argparse
import fnmatch
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from tests.mutation.children import Pool, copy_tree, import_others, run_tests
from tests.mutation.lines import Record, cache_directory, records
from tests.mutation.mutate import Mutant, is_valid, mutants
from tests.mutation.select import Uses, stages
from tests.support.paths import ROOT

PURE = (
    "tfprov/editing/*",
    "tfprov/engine/artifacts.py",
    "tfprov/engine/assemble.py",
    "tfprov/engine/checkpoints/[!v]*.py",
    "tfprov/engine/checks/*_rules.py",
    "tfprov/engine/checks/reachability.py",
    "tfprov/engine/connect.py",
    "tfprov/engine/context.py",
    "tfprov/engine/events.py",
    "tfprov/engine/execute.py",
    "tfprov/engine/host_registry.py",
    "tfprov/engine/monitoring/[!lt]*.py",
    "tfprov/engine/observe.py",
    "tfprov/engine/rollback.py",
    "tfprov/formats/*",
    "tfprov/images/[!bp]*.py",
    "tfprov/images/build.py",
    "tfprov/images/buildkit.py",
    "tfprov/images/compression/*",
    "tfprov/images/exports/*",
    "tfprov/images/relays/[!cr]*.py",
    "tfprov/images/relays/relay_image.py",
    "tfprov/importing/*",
    "tfprov/inventory/*",
    "tfprov/model/*",
    "tfprov/planning/*",
    "tfprov/playbook/*",
    "tfprov/render/*",
    "tfprov/render/kubernetes/*",
    "tfprov/settings/*",
    "tfprov/settings/schema/*",
    "tfprov/templating/*",
    "tfprov/templating/filters/*",
    "tfprov/vault/*",
    "tfprov/wiring.py",
    "tfprov/yamltext/*",
)
"""Patterns of whole paths: an asterisk matches within one folder only."""
_SLOWER = 5.0
"""How many times the CPU time of the original a mutant may take, and how many seconds more than that."""
_MORE = 5.0


BY_TYPES = "types:"
"""How the reason begins for which a mutant is dead that no test has killed."""


class Void(Exception):
    """The run is void: its results do not count."""


def say(text: str) -> None:
    print(text, flush=True)


@dataclass
class Trial:
    """A mutant, and what became of it."""

    mutant: Mutant
    stages: list[list[str]]
    seconds: list[float]
    """How long each stage takes without the mutant."""
    killed: str = ""
    """By which test."""
    took: float = 0.0
    begun: float = 0.0
    tested: int = 0


@dataclass
class Run:
    """The mutants of one tree."""

    source: Path
    pool: Pool
    template: Path
    """A copy of the tree; what Python compiles for the control is kept there for all mutants."""
    known: dict[str, Record] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    """How long each test takes, by the record."""
    trials: list[Trial] = field(default_factory=list)

    def prepare(self, chosen: Sequence[Mutant], seconds: float, pattern: str) -> None:
        """Choose the tests of each mutant among the files that a pattern names."""
        self.known = records(self.template, self.pool, say, pattern)
        if failed := {file: one.failed for file, one in self.known.items() if one.failed}:
            raise Void(
                "\n".join(["the tests fail without a mutant:", *(f"{file}\n{why}" for file, why in failed.items())])
            )
        for one in self.known.values():
            self.times |= zip(one.tests, one.seconds, strict=True)
        uses = Uses(self.template)
        for mutant in chosen:
            lists = stages(mutant, self.known, uses, seconds)
            self.trials.append(Trial(mutant, lists, [self.expected(names) for names in lists]))

    def expected(self, names: Sequence[str]) -> float:
        """Return how long tests take, by the record."""
        start = sum(self.known[file].start for file in {name.partition("::")[0] for name in names})
        return start + sum(self.times[name] for name in names)

    def tests_of(self, names: Sequence[str]) -> set[str]:
        files = {name.partition("::")[0] for name in names} & self.known.keys()
        return {test for file in files for test in self.known[file].tests}

    def first(self) -> set[str]:
        """Return the tests that are run first for some mutant."""
        return {name for trial in self.trials for stage in trial.stages[:1] for name in stage}

    def killers(self) -> set[str]:
        """Return the tests that have killed a mutant."""
        return {trial.killed for trial in self.trials if trial.killed in self.tests_of([trial.killed])}

    def control(self, names: set[str]) -> None:
        """Run tests on the original; Void when one fails."""
        by_file: dict[str, list[str]] = {}
        for name in sorted(names):
            by_file.setdefault(name.partition("::")[0], []).append(name)
        say(f"the control: {len(names)} tests in {len(by_file)} files, without a mutant")
        failed: list[str] = []

        def done(result: Any) -> None:
            if not isinstance(result, dict) or result["failed"]:
                failed.append(f"{result['failed']}\n{result['why']}" if isinstance(result, dict) else str(result))

        ordered = sorted(by_file.values(), key=self.expected)
        for number in range(min(self.pool.jobs, len(ordered))):
            part = [name for of_file in ordered[number :: self.pool.jobs] for name in of_file]
            limit = _SLOWER * self.expected(part) + _MORE
            work = partial(run_tests, part, self.tests_of(part), dict.fromkeys(part, limit))
            self.pool.start(self.template, work, limit, done)
        self.pool.wait()
        if failed:
            raise Void("\n".join(["the control fails:", *failed]))

    def try_all(self) -> None:
        """Try each mutant."""
        before = self.stamps()
        for number, trial in enumerate(self.trials):
            tree = self.pool.scratch / f"m{number}"
            shutil.copytree(self.template, tree, symlinks=True, copy_function=os.link)
            path = tree / trial.mutant.path
            path.unlink()
            path.write_bytes(trial.mutant.apply((self.template / trial.mutant.path).read_bytes()))
            for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
                stale.unlink()
            trial.begun = time.monotonic()
            self.stage(trial, tree, 0)
        self.pool.wait()
        if self.stamps() != before:
            raise Void("a mutant has written into the files of the tree, which all of them share")

    def stamps(self) -> dict[str, tuple[int, int]]:
        """Return what tells whether a file of the tree was changed."""
        paths = (path for path in self.template.rglob("*") if path.is_file() and path.suffix != ".pyc")
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}

    def stage(self, trial: Trial, tree: Path, number: int) -> None:
        if trial.killed or number == len(trial.stages):
            shutil.rmtree(tree)
            trial.took = time.monotonic() - trial.begun
            verdict = (
                f"killed by {trial.killed.encode('unicode_escape').decode():.110}"
                if trial.killed
                else f"SURVIVES {trial.tested} tests"
            )
            say(f"{trial.mutant.name} {verdict} ({trial.took:.1f} s)")
            return
        names = trial.stages[number]
        limit = _SLOWER * trial.seconds[number] + _MORE

        def done(result: Any) -> None:
            if isinstance(result, dict):
                trial.killed = result["failed"]
                trial.tested += result["passed"]
            else:
                trial.killed = f"a {str(result).partition(chr(10))[0]}"
            self.stage(trial, tree, number + 1)

        limits = {name: _SLOWER * self.times[name] + _MORE for name in names}
        self.pool.start(tree, partial(run_tests, names, self.tests_of(names), limits), limit, done)

    def check_types(self) -> None:
        """Ask mypy about each survivor; Void when it refuses the original."""
        alive = [trial for trial in self.trials if not trial.killed]
        if refusal := refused(self.template, sorted({trial.mutant.path for trial in alive})):
            raise Void(f"mypy refuses a file without a mutant: {refusal}")
        for trial in alive:
            path = self.template / trial.mutant.path
            original = path.read_bytes()
            path.unlink()  # the name of a file that other copies may share
            path.write_bytes(trial.mutant.apply(original))
            if refusal := refused(self.template, [trial.mutant.path]):
                trial.killed = f"{BY_TYPES} {refusal}"
                say(f"{trial.mutant.name} killed by types: {refusal:.110}")
            path.write_bytes(original)

    def summary(self) -> float:
        """Print who has survived; return how many of a hundred were killed."""
        alive = [trial for trial in self.trials if not trial.killed]
        for trial in sorted(alive, key=lambda trial: trial.mutant.name):
            mutant = trial.mutant
            before, after = mutant.shown((self.template / mutant.path).read_bytes())
            reached = f"passes {trial.tested} tests" if trial.tested else "is reached by no test"
            say(f"\n{mutant.path}:{mutant.line}: {mutant.kind}; {reached}")
            for sign, lines in (("-", before), ("+", after)):
                for line in lines:
                    say(f"  {sign} {line}")
            say(f"  again: python -m tests.mutants --sample 0 --only {shlex.quote(mutant.name)}")
        kinds = Counter(trial.mutant.kind for trial in self.trials)
        lost = Counter(trial.mutant.kind for trial in alive)
        killed = len(self.trials) - len(alive)
        percent = 100 * killed / len(self.trials) if self.trials else 100.0
        say("\n" + ", ".join(f"{kind} {number - lost[kind]}/{number}" for kind, number in sorted(kinds.items())))
        late = sum(trial.killed in ("a timeout", "a crash") for trial in self.trials)
        typed = sum(trial.killed.startswith(BY_TYPES) for trial in self.trials)
        say(
            f"killed {killed} of {len(self.trials)} mutants ({percent:.1f} %), {late} of them by a limit, "
            f"{typed} by types"
        )
        return percent


def refused(tree: Path, files: Sequence[str]) -> str:
    """Return the first error of mypy in files of a tree, or nothing."""
    if not files:
        return ""
    argv = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", str(cache_directory() / "mypy"), *files]
    done = subprocess.run(argv, cwd=tree, capture_output=True, text=True, check=False)
    return next((line for line in done.stdout.splitlines() if ": error:" in line), "")


def is_pure(path: str, patterns: Sequence[str] = PURE) -> bool:
    """Whether a module is one of those that `patterns` name."""
    return any(PurePosixPath(path).match(pattern) for pattern in patterns)


def sample(tree: Path, patterns: Sequence[str], only: Sequence[str], number: int, seed: int) -> list[Mutant]:
    """Return a random sample of the mutants of the modules that `patterns` name."""
    paths = sorted(path.relative_to(tree).as_posix() for path in (tree / "tfprov").rglob("*.py"))
    pure = [path for path in paths if is_pure(path, patterns)]
    sources = {
        path: (tree / path).read_bytes()
        for path in pure
        if any(fnmatch.fnmatch(path, pattern.partition(":")[0]) for pattern in only)
    }
    candidates = [
        mutant
        for path, source in sources.items()
        for mutant in mutants(path, source)
        if any(fnmatch.fnmatch(name, pattern) for name in (path, mutant.name) for pattern in only)
    ]
    say(f"{len(candidates)} mutants in {len({mutant.path for mutant in candidates})} modules, seed {seed}")
    random.Random(seed).shuffle(candidates)
    valid = (mutant for mutant in candidates if is_valid(mutant, sources[mutant.path]))
    return [mutant for _, mutant in zip(range(number or len(candidates)), valid, strict=False)]


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description="Small faults that a test has to notice."
    )
    parser.add_argument("--sample", type=int, default=200, help="how many mutants; 0 for all; %(default)s")
    parser.add_argument(
        "--seed", type=int, default=int(time.time()) % 1_000_000, help="repeats a sample; default: the time"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time; %(default)s")
    parser.add_argument("--only", action="append", help="a pattern for files or the names of mutants; may be repeated")
    parser.add_argument("--seconds", type=float, default=20.0, help="of tests for one mutant; %(default)s")
    parser.add_argument("--tests", default="*", help="a pattern for test files: no others are run; %(default)s")
    parser.add_argument("--least", type=float, default=0.0, help="percent that have to be killed; %(default)s")
    parser.add_argument("--list", action="store_true", help="list the mutants, and try none")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None, root: Path = ROOT, patterns: Sequence[str] = PURE) -> int:
    """Try a sample; return the exit code."""
    options = arguments(argv)
    began = time.monotonic()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell that starts this in the background takes Ctrl-C from it
        signal.signal(number, signal.default_int_handler)
    scratch = Path(tempfile.mkdtemp(prefix="mutants-"))
    pool = Pool(options.jobs, scratch)
    try:
        template = scratch / "tree"
        copy_tree(root, template)
        chosen = sample(template, patterns, options.only or ["*"], options.sample, options.seed)
        if options.list:
            for mutant in chosen:
                say(f"{mutant.name}\n  {mutant.shown((template / mutant.path).read_bytes())[1]}")
            return 0
        import_others(template)
        run = Run(root, pool, template)
        run.prepare(chosen, options.seconds, options.tests)
        controlled = run.first()
        run.control(controlled)
        say(f"{len(chosen)} mutants, {options.jobs} at a time, after {time.monotonic() - began:.0f} s")
        run.try_all()
        run.control(run.killers() - controlled)
        run.check_types()
        percent = run.summary()
        say(f"{time.monotonic() - began:.0f} s, of CPU in children {sum(os.times()[2:4]):.0f} s; seed {options.seed}")
        return int(percent < options.least)
    except Void as void:
        say(f"void: {void}")
        return 2
    finally:
        pool.close()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
