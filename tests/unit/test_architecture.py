"""The house's rules, read from its own source: who may import whom, and who may print, exit and touch a machine."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import tfprov

ROOT = Path(tfprov.__file__).parent
LAYERS = (
    {"errors"},
    {"wiring", "checkpoint", "records", "events", "files", "paths"},
    {"model"},
    {"config"},
    {"planning"},
    {"hosts"},
    {"delivery"},
    {"engine", "render", "importing"},
    {"cli", "__main__"},
)
"""From the ground up: a module imports from its own floor and from those below."""

IN_THE_CONTAINER = {
    "runtime": {"runtime", "wiring", "checkpoint", "files", "errors"},
    "wiring": set(),
    "checkpoint": set(),
    "records": set(),
    "events": {"records"},
    "files": set(),
}
"""What also runs inside the task's container: the standard library, and these of ours."""

MODULES = sorted(path for path in ROOT.rglob("*.py") if "programs" not in path.parts)


def part(path: Path) -> str:
    """Return the package or module of tfprov that the file at `path` is, or belongs to."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imported(path: Path) -> Iterator[str]:
    """Yield the full names of all that is imported, at whatever depth of the file."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(path: Path) -> set[str]:
    """Return the parts of tfprov that a file imports."""
    names = {name.split(".")[1] for name in imported(path) if name.startswith("tfprov.")}
    return names - {"__version__"}


def foreign(path: Path) -> set[str]:
    """Return the packages that a file imports which are neither ours nor Python's."""
    tops = {name.partition(".")[0] for name in imported(path)}
    return tops - {"tfprov"} - set(sys.stdlib_module_names)


def calls(path: Path) -> set[str]:
    """Return the plain names of all that is called, as `print` or `sys.exit`."""
    return {ast.unparse(node.func) for node in ast.walk(tree(path)) if isinstance(node, ast.Call)}


def floor(name: str) -> int:
    return next(number for number, layer in enumerate(LAYERS) if name in layer)


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


each_module = pytest.mark.parametrize("path", MODULES, ids=shown)


@each_module
def test_arrows_point_downwards(path: Path) -> None:
    if part(path) in ("runtime", "__init__"):
        return
    above = {name for name in ours(path) if name == "runtime" or floor(name) > floor(part(path))}
    assert not above


@each_module
def test_what_runs_in_the_container_needs_nothing_of_the_controller(path: Path) -> None:
    if part(path) in IN_THE_CONTAINER:
        assert ours(path) <= IN_THE_CONTAINER[part(path)] | {part(path)}
        assert foreign(path) <= ({"tensorflow"} if part(path) == "runtime" else set())


@each_module
def test_the_package_itself_imports_nothing(path: Path) -> None:
    if path.name == "__init__.py" and part(path) != "runtime":
        assert not list(imported(path))


@each_module
def test_only_hosts_touches_machines(path: Path) -> None:
    assert part(path) == "hosts" or not foreign(path) & {"fabric", "paramiko", "docker", "invoke"}


@each_module
def test_only_the_command_line_prints(path: Path) -> None:
    # The runtime speaks to the log of its task; the supervisor has one line for who called it.
    if part(path) in ("cli", "__main__", "runtime") or shown(path) == "hosts/supervisor.py":
        return
    assert not calls(path) & {"print", "input", "sys.stdout.write", "sys.stderr.write"}
    assert not foreign(path) & {"click", "rich"}


@each_module
def test_only_the_command_line_exits(path: Path) -> None:
    if part(path) in ("cli", "__main__", "runtime"):
        return
    allowed = {"sys.exit"} if shown(path) == "hosts/supervisor.py" else set()
    assert calls(path) & {"sys.exit", "exit", "quit", "os._exit"} <= allowed
    raised = {ast.unparse(node.exc) for node in ast.walk(tree(path)) if isinstance(node, ast.Raise) and node.exc}
    assert not any(text.startswith("SystemExit") for text in raised)


@each_module
def test_no_module_is_longer_than_300_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300


@each_module
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(tree(path))


def test_every_part_of_the_house_has_its_floor() -> None:
    known = {name for layer in LAYERS for name in layer} | {"runtime", "__init__"}
    assert {part(path) for path in MODULES} <= known


def test_the_command_line_starts_without_what_only_a_verb_needs() -> None:
    slow = ("pydantic", "yaml", "jinja2", "rich", "fabric", "paramiko", "docker", "ruamel", "tensorflow")
    program = f"import sys, tfprov.cli.main; print([name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
