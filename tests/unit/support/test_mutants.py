"""The mutants of tests/mutants.py: which there are of a source, and which sources there are."""

import ast
from pathlib import Path

import pytest

from tests.mutants import is_pure
from tests.mutation.lines import Record
from tests.mutation.mutate import is_valid, mutants
from tests.mutation.select import Uses, stages
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
    path = ROOT / "tfprov" / "inventory" / "ansible_cfg.py"
    source = path.read_bytes()
    made, unchanged = mutants(path.name, source), ast.dump(ast.parse(source))
    assert len(made) > 50
    for one in made:
        assert is_valid(one, source), one
        changed = one.apply(source)
        assert ast.dump(ast.parse(changed)) != unchanged
        before, after = one.shown(source)
        assert (before != after, before[0]) == (True, source.decode().splitlines()[one.line - 1])
    assert len({one.name for one in made}) == len(made)


def test_what_python_warns_of_or_does_not_compile_is_no_mutant() -> None:
    source = b"def f():\n    return\nf()\n"
    [one] = mutants("m.py", source)
    assert is_valid(one, source)
    for text in ("1 is 1", "f(", "f()"):
        assert not is_valid(type(one)(**{**vars(one), "text": text}), source)


@pytest.mark.parametrize(
    ("path", "pure"),
    [
        ("tfprov/settings/resolve.py", True),
        ("tfprov/settings/schema/settings_schema.py", True),
        ("tfprov/images/oci_layout.py", True),
        ("tfprov/images/push.py", False),
        ("tfprov/images/relays/sources.py", True),
        ("tfprov/images/relays/relays.py", False),
        ("tfprov/images/relays/program/relay.py", False),
        ("tfprov/engine/monitoring/failures.py", True),
        ("tfprov/engine/monitoring/logs.py", False),
        ("tfprov/hosts/ssh/host.py", False),
    ],
)
def test_modules_that_act_have_no_mutants(path: str, pure: bool) -> None:
    assert (ROOT / path).is_file()
    assert is_pure(path) is pure


def test_the_cases_that_name_the_entry_of_a_table_come_first(tmp_path: Path) -> None:
    source = "NAMES = {'one': 1, 'two': 2}\ndef number(name):\n    return NAMES[name]\n"
    (tmp_path / "tfprov").mkdir()
    (tmp_path / "tfprov" / "m.py").write_text(source)
    tests = ["t.py::test_a", "t.py::test_b[one-1]", "t.py::test_b[two-2]"]
    module = "tfprov/m.py"
    known = {"t.py": Record(tests, [0.1, 0.1, 0.1], 0.0, {module: {3: 0b111}}, {module}, {module})}
    (mutant,) = [one for one in mutants(module, source.encode()) if one.literal == "two"]
    (chosen,) = stages(mutant, known, Uses(tmp_path), budget=0.15)[:1]
    assert chosen[0] == tests[2]
