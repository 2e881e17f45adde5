"""Which tests are run for a mutant, and in which order."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.mutation.lines import Record
from tests.mutation.mutate import Mutant

_FIRST = 1.0
"""Seconds of the first tests: most mutants are killed by these."""
_EACH, _FILE = 0.003, 0.15
"""Seconds that each test, and each further file of tests, takes besides."""
_RARE = 200
"""Tests that run a line: where there are more, the line says nothing of what a test is about."""
_MAX_SAME_NAME = 3
"""Functions of one name: where there are more, the name does not say which of them is called."""
NOTHING: Mapping[str, float] = {}
_DEPTH = 3
"""How many steps from a name to those that are computed from it at import."""


class Uses:
    """Which lines use a name that a module gives a value to."""

    def __init__(self, tree: Path) -> None:
        self.lines: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self.functions: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
        """Where the functions and methods of a name are, from their first line to their last."""
        self.texts: dict[str, list[str]] = {}
        self.assigned: dict[tuple[str, int], str] = {}
        """The names that a line gives values to at import."""
        for path in sorted((tree / "tfprov").rglob("*.py")):
            name = path.relative_to(tree).as_posix()
            self.texts[name] = path.read_text().splitlines()
            self._read(name, ast.parse(path.read_bytes()))

    def _read(self, path: str, module: ast.Module) -> None:
        for node in ast.walk(module):
            match node:
                case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                    self.lines[name].add((path, node.lineno))
                case ast.keyword(arg=str() as name):
                    self.lines[name].add((path, node.lineno))
                case ast.FunctionDef(name=name):
                    self.functions[name].append((path, node.body[0].lineno, node.end_lineno or node.lineno))
        for statement in module.body:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
            if isinstance(target, ast.Name):
                for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
                    self.assigned[path, line] = target.id

    def of(self, mutant: Mutant) -> set[tuple[str, int]]:
        """Return the lines that use what a mutant changes at import."""
        names, places = set(mutant.names), set[tuple[str, int]]()
        for _ in range(_DEPTH):
            new = {
                place
                for name in names
                for place in self.lines[name]
                if not name.startswith("_") or place[0] == mutant.path
            } - places
            places |= new
            names = {self.assigned[place] for place in new if place in self.assigned}
        return places

    def around(self, mutant: Mutant) -> set[tuple[str, int]]:
        """Return the lines of the function that a mutant is in, and of those that are called where it is."""
        lines = {(mutant.path, line) for line in range(mutant.around[0], mutant.around[1] + 1)}
        text = " ".join(self.texts[mutant.path][mutant.lines[0] - 1 : mutant.lines[1]]) if not mutant.at_import else ""
        for name in set(re.findall(r"\w+", text)):
            places = self.functions.get(name, [])
            for path, first, last in places if len(places) <= _MAX_SAME_NAME else []:
                lines |= {(path, line) for line in range(first, last + 1)}
        return lines


def _with_bits(record: Record, mask: int) -> Iterator[str]:
    for number, test in enumerate(record.tests):
        if mask >> number & 1:
            yield test


def _tests(known: dict[str, Record], places: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Yield the tests that run one of some lines."""
    lines = list(places)
    for record in known.values():
        mask = 0
        for path, line in lines:
            mask |= record.lines.get(path, {}).get(line, 0)
        yield from _with_bits(record, mask)


def _collected(known: dict[str, Record], places: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Yield the tests of the files that ran one of some lines when their tests were collected: their cases come of it."""
    lines = list(places)
    for record in known.values():
        if any(record.lines.get(path, {}).get(line) == 0 for path, line in lines):
            yield from record.tests


def _weights(known: dict[str, Record], places: Iterable[tuple[str, int]]) -> dict[str, float]:
    """Return how rare the lines are that each test runs of those around a mutant.

    Nearly everything that is read runs the head of a check; who runs the line that complains is about the check.
    """
    weights: dict[str, float] = defaultdict(float)
    for place in places:
        of_line = list(_tests(known, [place]))
        if 0 < len(of_line) <= _RARE:
            for test in of_line:
                weights[test] += 1 / len(of_line)
    return weights


def _in_order(tests: Iterable[str], seconds: dict[str, float], weights: Mapping[str, float] = NOTHING) -> list[str]:
    """Return the quickest tests first, and further cases of a function the later the more there are before them.

    What runs rare lines comes before what runs those that all run.
    """
    seen: Counter[str] = Counter()
    ranked = []
    for test in sorted(tests, key=lambda name: (-weights.get(name, 0.0), seconds[name], name)):
        function = test.partition("[")[0]
        ranked.append(((seconds[test] + _EACH) * (1 + seen[function]) / (weights.get(test, 0.0) + 1 / _RARE), test))
        seen[function] += 1
    return [test for _, test in sorted(ranked)]


def stages(mutant: Mutant, known: dict[str, Record], uses: Uses, budget: float) -> list[list[str]]:
    """Return the tests to run one list after the other until one fails."""
    own = [(mutant.path, line) for line in range(mutant.lines[0], mutant.lines[1] + 1)]
    direct = set(_tests(known, own))
    indirect: set[str] = set()
    files: set[str] = set()
    if mutant.at_import:
        indirect = set(_tests(known, uses.of(mutant)))
        if not direct | indirect:
            anything = {(mutant.path, line) for one in known.values() for line in one.lines.get(mutant.path, {})}
            indirect = set(_tests(known, anything))
        # Whoever imports the module may read what is changed, by whatever way.
        files = {file for file, record in known.items() if mutant.path in record.imported}
    else:
        indirect = set(_collected(known, own))
    if not direct | indirect:  # it may be run as a program, which nobody traces
        files = {file for file, record in known.items() if mutant.path in record.read - record.imported}
    seconds = {test: time for one in known.values() for test, time in zip(one.tests, one.seconds, strict=True)}
    files |= {test.partition("::")[0] for test in direct | indirect}
    nearby = {test for file in files for test in known[file].tests} - direct - indirect
    # Of a table's entries, a parametrized test has some in its cases: those that name the one that is mutated come first.
    naming = {test: 1.0 for test in indirect if mutant.literal and mutant.literal in test.partition("[")[2]}
    order = _in_order(direct, seconds, _weights(known, uses.around(mutant)))
    order += _in_order(indirect - direct, seconds, naming)
    more = budget if files and (mutant.at_import or not order) else budget / 4
    return _cut(order, seconds, known, budget) + _cut(_in_order(nearby, seconds), seconds, known, more)


def _cut(order: Sequence[str], seconds: dict[str, float], known: dict[str, Record], budget: float) -> list[list[str]]:
    """Return the tests that fit into the budget: some quick ones of few files, and then the others."""
    first: list[str] = []
    rest: list[str] = []
    files: set[str] = set()
    spent = 0.0
    for test in order:
        file = test.partition("::")[0]
        cost = seconds[test] + _EACH + (0.0 if file in files else min(_FILE, known[file].start))
        if spent + cost > budget and spent:
            continue
        files.add(file)
        spent += cost
        (first if spent <= _FIRST else rest).append(test)
    return [part for part in (first, rest) if part]
