"""The mutants of tests/mutants.py: which there are of a source, and that one which survives is told from one that dies."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.mutate import is_valid, mutants
from tests.support.paths import ROOT


def changes(source: str, kind: str = "") -> list[str]:
    """Return what the mutants of a source have instead of what is there, by kind."""
    return [one.text for one in mutants("m.py", source.encode()) if kind in ("", one.kind)]


@pytest.mark.parametrize(
    ("kind", "source", "texts"),
    [
        ("compare", "x = a < b", ["(a <= b)", "(a >= b)"]),
        ("compare", "x = a < b == c", ["(a <= b == c)", "(a >= b == c)", "(a < b != c)"]),
        ("compare", "x = a in b", ["(a not in b)"]),
        ("compare", "x = a is None", ["(a is not None)"]),
        ("boolean", "x = a and b", ["(a or b)"]),
        ("not", "x = not a", ["(a)"]),
        ("arithmetic", "x = a + b", ["(a - b)"]),
        ("arithmetic", "x = -a", ["(a)"]),
        ("arithmetic", "a *= b", ["a //= b"]),
        ("constant", "x = 7", ["8", "6"]),
        ("constant", "x = 'text'", ["''"]),
        ("constant", "x = ''", ["'~'"]),
        ("constant", "x = b'text'", ["b''"]),
        ("constant", "x = True", ["False"]),
        ("constant", "x = None", ["0"]),
        ("constant", "x = []", ["None"]),
        ("constant", "f'{a}text'", ["(f'{a}')"]),
        ("condition", "if a: pass", ["(not (a))"]),
        ("condition", "while a: pass", ["(not (a))"]),
        ("condition", "x = b if a else c", ["(not (a))"]),
        ("condition", "x = [b for b in c if a]", ["(not (a))"]),
        ("return", "def f() -> str: return a", ["''"]),
        ("return", "def f() -> bool: return a", ["(not (a))"]),
        ("return", "def f() -> str | None: return a", ["None"]),
        ("return", "def f() -> tuple[str, ...]: return a", ["()"]),
        ("remove", "a()", ["pass"]),
        ("remove", "a.b = c", ["pass"]),
        ("remove", "a[b] = c", ["pass"]),
        ("remove", "def f():\n  yield a", ["yield from ()"]),
        ("remove", "raise a", ["pass"]),
        ("jump", "for a in b: break", ["continue"]),
        ("jump", "for a in b: continue", ["break"]),
        ("default", "def f(a=(), b=c): pass", ["None", "None"]),
        ("constant", "def f(a=1): pass", ["2", "0"]),
        ("slice", "x = a[b:c]", [":c", "b:"]),
    ],
)
def test_a_source_has_the_mutants_that_are_promised(kind: str, source: str, texts: list[str]) -> None:
    assert changes(source, kind) == texts


@pytest.mark.parametrize(
    "source",
    [
        '"""Documented."""',
        "def f():\n  'Documented.'",
        "a: 'Text' = b",
        "def f(a: 'Text', b: Literal['x']) -> 'Text': ...",
        "Kind = Literal['a', 'b']",
        "a = cast('Text', b)",
        "T = TypeVar('T')",
        "__all__ = ['a']",
        "if TYPE_CHECKING:\n  import a",
        "def __repr__(self): return f'<{self.a!r}>'",
        "assert a == 1, 'why'",
        "raise AssertionError",
        "def f(): raise AssertionError('why')",
        "a = zip(b, c, strict=True)",
        "@dataclass(frozen=True, slots=True)\nclass A: a: int",
        "class A(B, frozen=True): pass",
        "a = field(default=b, init=False)",
        "import a as b",
    ],
)
def test_what_no_test_could_see_is_left_alone(source: str) -> None:
    assert changes(source) == []


def test_only_the_first_part_of_a_split_does_not_depend_on_how_many_there_are() -> None:
    assert changes("x = a.split(b, maxsplit=1)[0]") == ["1", "(-1)"]
    assert "2" in changes("x = a.split(b, maxsplit=1)[1]")


def test_every_mutant_of_a_real_module_compiles_and_differs() -> None:
    path = ROOT / "tfprov" / "config" / "sources" / "ranges.py"
    source = path.read_bytes()
    found = mutants(path.name, source)
    assert len(found) > 50
    for one in found:
        assert is_valid(one, source), one
        changed = one.apply(source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
        before, after = one.shown(source)
        assert (before != after, before[0]) == (True, source.decode().splitlines()[one.line - 1])
    assert len({one.name for one in found}) == len(found)


def test_what_python_warns_of_or_does_not_compile_is_no_mutant() -> None:
    source = b"def f():\n    return\nf()\n"
    [one] = mutants("m.py", source)
    assert is_valid(one, source)
    for text in ("1 is 1", "f(", "f()"):
        assert not is_valid(type(one)(**{**vars(one), "text": text}), source)


FILES = {
    "tfprov/__init__.py": "",
    "tfprov/pure.py": """\
LIMIT = 3


def small(number: int) -> bool:
    return number < LIMIT


def far(number: int) -> int:
    if number == 99:
        return 1
    return number
""",
    "tests/__init__.py": "",
    "tests/unit/__init__.py": "",
    "tests/unit/test_pure.py": """\
from tfprov.pure import far, small


def test_small():
    assert small(2)
    assert not small(4)


def test_far():
    assert far(1) == 1
""",
}
SURVIVORS = [
    ("10", "constant"),
    ("10", "constant"),
    ("1", "constant"),
    ("5", "compare"),
    ("9", "constant"),
    ("9", "constant"),
    ("9", "compare"),
]


def run(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Try the mutants of a small package in a process of its own, which may fork as it has no threads."""
    for name, text in FILES.items():
        (directory / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / "tree" / name).write_text(text)
    code = "import sys; from pathlib import Path; from tests.mutants import main; "
    code += "sys.exit(main(sys.argv[2:], Path(sys.argv[1]), ['tfprov/pure.py']))"
    argv = [sys.executable, "-c", code, str(directory / "tree"), "--sample", "0", *options]
    environ = {**os.environ, "XDG_CACHE_HOME": str(directory / "cache"), "TMPDIR": str(directory)}
    done = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert not done.stderr, done.stderr
    return done


def test_a_survivor_is_told_from_a_mutant_that_is_killed(tmp_path: Path) -> None:
    done = run(tmp_path, "--least", "90")
    alive = re.findall(r"^tfprov/pure\.py:(\d+): (\w+);", done.stdout, re.MULTILINE)
    # Nobody asks for 3, nor for 98 to 100; line 10 is not run, and `!= 99` returns 1 for 1 as well.
    assert alive == SURVIVORS
    assert (
        "tfprov/pure.py:10: constant; is reached by no test\n  -         return 1\n  +         return 2\n"
        in done.stdout
    )
    assert re.search(r"pure\.py:11:11:return:0 killed by tests/unit/test_pure\.py::test_far", done.stdout)
    again = run(tmp_path, "--only", "tfprov/pure.py:5:11:compare:0")
    assert "killed 0 of 1 mutants" in again.stdout
    assert "are run to see" not in again.stdout, "which test runs which line is known from before"
    assert done.returncode == 1
    assert again.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "tree"]


def test_a_control_that_fails_makes_the_run_void(tmp_path: Path) -> None:
    run(tmp_path, "--only", "tfprov/pure.py:5:11:compare:0")
    flag = tmp_path / "flag"
    text = FILES["tests/unit/test_pure.py"].replace("assert far(1) == 1", f"open({str(flag)!r}, 'x').close()")
    files = dict(FILES)
    FILES["tests/unit/test_pure.py"] = text + "    assert far(1) == 1\n"
    try:
        done = run(tmp_path, "--only", "tfprov/pure.py:11:*")
    finally:
        FILES.update(files)
    assert done.returncode == 2
    assert "void: the control fails" in done.stdout
    assert "test_far" in done.stdout
    assert "killed" not in done.stdout
