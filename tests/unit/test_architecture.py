"""The house's rules, read from its own source: who may import whom, and who may print, exit and touch a machine."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tfprov
from tests.support.source_tree import nodes, statements, tree

ROOT = Path(tfprov.__file__).parent
LAYERS = (
    {"errors"},
    {"wiring", "atomic_write", "file_locks", "paths", "formats"},
    {"filesystems"},
    {"tfrecord"},
    {"spark"},
    {"model"},
    {"results"},
    {"vault"},
    {"yamltext"},
    {"inventory", "templating"},
    {"settings", "editing"},
    {"planning"},
    {"hosts"},
    {"images"},
    {"engine", "render", "importing"},
    {"notify"},
    {"history"},
    {"supervision"},
    {"dashboard", "playbook"},
    {"api"},
    {"cli", "__main__"},
)
"""The packages from the lowest layer to the highest: a module imports from its own layer and from lower ones."""

IN_THE_CONTAINER = {
    "runtime": {"runtime", "wiring", "formats", "atomic_write", "filesystems"},
    "filesystems": {"formats"},
    "wiring": set(),
    "formats": set(),
    "atomic_write": set(),
}
"""What also runs inside the task's container: the standard library, and these of ours."""

MODULES = sorted(
    path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if "programs" not in path.relative_to(ROOT).parts
)
"""Every module of tfprov, by its path below the package."""

pytestmark = pytest.mark.lane("architecture")  # each module is parsed once

Use = tuple[int, str]
"""A line, and the full name of what is imported or called there."""


def part(module: str) -> str:
    """Return the package or module of tfprov that the file `module` is, or belongs to."""
    return Path(module).with_suffix("").parts[0]


@cache
def imports(module: str) -> tuple[Use, ...]:
    """Return all that is imported, at whatever depth of the file."""
    uses: list[Use] = []
    for node in statements(ROOT / module):
        if isinstance(node, ast.Import):
            uses += ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            uses += ((node.lineno, "." * node.level + f"{node.module}.{alias.name}") for alias in node.names)
    return tuple(uses)


def own_imports(module: str) -> Iterator[Use]:
    """Yield the parts of tfprov that a file imports."""
    for line, name in imports(module):
        if name.startswith("tfprov.") and name != "tfprov.__version__":
            yield line, name.split(".")[1]


def third_party_imports(module: str) -> Iterator[Use]:
    """Yield the packages that a file imports which are neither tfprov's nor Python's."""
    for line, name in imports(module):
        top = name.partition(".")[0]
        if top and top != "tfprov" and top not in sys.stdlib_module_names:
            yield line, top


def calls(module: str, names: Iterable[str]) -> Iterator[Use]:
    """Yield the calls of `names`, which are plain, as `print` or `sys.exit`."""
    last = {name.rpartition(".")[2] for name in names}
    if not re.search(rf"\b({'|'.join(sorted(last))})\b", (ROOT / module).read_text()):
        return
    for node in nodes(ROOT / module):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in last and (name := ast.unparse(node.func)) in names:
                yield node.lineno, name


def layer(name: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if name in names)


def places(module: str, uses: Iterable[Use]) -> list[str]:
    return [f"{module}:{line}: {name}" for line, name in uses]


def test_arrows_point_downwards() -> None:
    # The runtime is in the container and imported by nobody; the package itself has a rule of its own.
    controllers = [module for module in MODULES if part(module) not in ("runtime", "__init__")]
    assert len(controllers) > 250
    offenders = [
        place
        for module in controllers
        for place in places(
            module,
            ((line, n) for line, n in own_imports(module) if n == "runtime" or layer(n) > layer(part(module))),
        )
    ]
    assert offenders == []


def test_imports_are_absolute() -> None:
    relative = [place for m in MODULES for place in places(m, ((n, name) for n, name in imports(m) if name[0] == "."))]
    assert relative == []


def test_what_runs_in_the_container_needs_nothing_of_the_controller() -> None:
    offenders = []
    checked = set()
    for module in MODULES:
        own = part(module)
        if own not in IN_THE_CONTAINER:
            continue
        checked.add(own)
        allowed = IN_THE_CONTAINER[own] | {own}
        # `filesystems` imports a client once a URL asks for it.
        libraries = {"runtime": {"tensorflow"}, "filesystems": {"fsspec", "s3fs"}}.get(own, set())
        offenders += places(module, ((line, name) for line, name in own_imports(module) if name not in allowed))
        offenders += places(module, ((line, n) for line, n in third_party_imports(module) if n not in libraries))
    assert offenders == []
    assert checked == IN_THE_CONTAINER.keys(), "every one of them is there"


def test_the_relay_needs_nothing_but_the_standard_library() -> None:
    program = "images/relays/program/"
    modules = [module for module in MODULES if module.startswith(program)]
    allowed = "tfprov.images.relays.program."
    own = [use for module in modules for use in imports(module) if use[1].startswith("tfprov.")]
    assert [name for _, name in own if not name.startswith(allowed)] == []
    assert [place for module in modules for place in places(module, third_party_imports(module))] == []
    assert len(own) > 5


def test_packages_import_nothing() -> None:
    # tfprov, tfprov.tfrecord and tfprov.spark are what users import; all import on first use.
    public = {"__init__.py", "tfrecord/__init__.py", "spark/__init__.py"}
    packages = [m for m in MODULES if Path(m).name == "__init__.py" and m not in public and part(m) != "runtime"]
    assert {"cli/__init__.py", "settings/schema/__init__.py"} <= set(packages)
    assert [place for module in packages for place in places(module, imports(module))] == []


def test_only_hosts_touches_machines() -> None:
    libraries = {"fabric", "paramiko", "docker", "invoke"}
    users = {m: [(n, name) for n, name in third_party_imports(m) if name in libraries] for m in MODULES}
    assert [place for m, uses in users.items() if part(m) != "hosts" for place in places(m, uses)] == []
    assert {name for uses in users.values() for _, name in uses} >= libraries - {"invoke"}, "and it does use them"


ON_SPARK = {f"spark/distributor/{name}.py" for name in ("runner", "task", "child", "job")}
"""The driver's end of a training on Spark, its tasks, and their processes."""
CONSOLE = {"print", "input", "sys.stdout.write", "sys.stderr.write"}
CONSOLE_LIBRARIES = {"click", "rich"}
EXITS = {"sys.exit", "exit", "quit", "os._exit"}
SUPERVISOR = "hosts/process/supervisor.py"


def writes_to_the_console(module: str) -> Iterator[Use]:
    yield from calls(module, CONSOLE)
    yield from (use for use in third_party_imports(module) if use[1] in CONSOLE_LIBRARIES)


def exits(module: str) -> Iterator[Use]:
    yield from calls(module, EXITS)
    for node in statements(ROOT / module):
        if isinstance(node, ast.Raise) and node.exc and ast.unparse(node.exc).startswith("SystemExit"):
            yield node.lineno, "SystemExit"


def test_only_the_command_line_prints() -> None:
    # The runtime speaks to the log of its task; the supervisor has one line for who called it.
    # A runner on Spark prints what its tasks print.
    may = {module for module in MODULES if part(module) in ("cli", "__main__", "runtime")} | {SUPERVISOR, *ON_SPARK}
    assert [place for m in MODULES if m not in may for place in places(m, writes_to_the_console(m))] == []
    printed = {name for module in may for _, name in writes_to_the_console(module)}
    assert printed >= {"print", *CONSOLE_LIBRARIES}, "the rule knows how those print who may"


def test_only_the_command_line_exits() -> None:
    may = {module for module in MODULES if part(module) in ("cli", "__main__", "runtime")}
    assert [place for m in MODULES if m not in {*may, SUPERVISOR, *ON_SPARK} for place in places(m, exits(m))] == []
    assert {name for _, name in exits(SUPERVISOR)} <= {"sys.exit"}
    assert {name for module in may for _, name in exits(module)} >= {"sys.exit", "SystemExit"}, "as those who may do"


def dotted(module: str) -> str:
    """Return the dotted name of the file `module`, as it is imported."""
    return ".".join(("tfprov", *Path(module).with_suffix("").parts)).removesuffix(".__init__")


def import_graph() -> dict[str, set[str]]:
    """Return, for each module, the modules of tfprov that it imports: also in functions and under TYPE_CHECKING."""
    known = {dotted(module) for module in MODULES}
    graph = {}
    for module in MODULES:
        names = {name for _, name in imports(module)}
        graph[dotted(module)] = {n if n in known else n.rpartition(".")[0] for n in names} & known - {dotted(module)}
    return graph


def test_no_modules_import_each_other_in_a_circle() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()
    graph = import_graph()
    assert graph["tfprov.engine.execute"] >= {"tfprov.errors", "tfprov.engine.context"}, "imports are read"
    TopologicalSorter(graph).prepare()


def test_packages_are_few_and_small() -> None:
    # 307 run a cluster; 99 are for its data: tfrecord/, spark/, remote file systems, exported models, notebooks; 40 are for
    # the terminal; others are for its history: runs, their page, their supervisor, and notifications; 17 are for images
    # from host to host; 12 are for compressed layers, 9 for exports of images.
    assert len(MODULES) <= 307 + 99 + 41 + 62 + 19 + 12 + 9
    sizes = Counter(str(Path(module).parent) for module in MODULES)
    assert {folder: size for folder, size in sizes.items() if size > 20} == {}


def test_no_module_is_longer_than_300_lines() -> None:
    lengths = {module: len((ROOT / module).read_text().splitlines()) for module in MODULES}
    assert {module: lines for module, lines in lengths.items() if lines > 300} == {}


def test_every_module_says_what_it_is_for() -> None:
    assert [module for module in MODULES if not ast.get_docstring(tree(ROOT / module))] == []


def test_every_package_has_a_layer() -> None:
    known = {name for layer in LAYERS for name in layer} | {"runtime", "__init__"}
    assert {part(module) for module in MODULES} - known == set()


def test_the_command_line_starts_without_what_only_a_verb_needs() -> None:
    slow = (
        "pydantic",
        "yaml",
        "jinja2",
        "rich",
        "fabric",
        "paramiko",
        "docker",
        "ruamel",
        "tensorflow",
        "numpy",
        "pyarrow",
    )
    program = f"import sys, tfprov.cli.main; print([name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_observing_hosts_needs_no_docker_sdk() -> None:
    program = "import sys, tfprov.engine.machines, tfprov.engine.image_sources, tfprov.engine.observe; "
    program += "print([name for name in ('docker', 'requests', 'urllib3') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
