"""What runs with the Python of a task works from 3.8 on, also where no such interpreter is installed (decision 98)."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from tests.support.paths import ROOT
from tests.support.source_tree import nodes, tree
from tfprov.engine.checks import remote_dirs
from tfprov.hosts import program_checks
from tfprov.hosts.docker import archive, listing, reachability_probe, secret_files
from tfprov.images.code_layer import MODULES
from tfprov.paths import PACKAGE
from tfprov.render.kubernetes import cluster_settings

OLDEST = (3, 8)
RELAY = PACKAGE / "images/relays/program"
FILES = sorted(
    {
        file
        for name in (*MODULES, RELAY.relative_to(PACKAGE).as_posix())
        for file in ((PACKAGE / name).rglob("*.py") if (PACKAGE / name).is_dir() else [PACKAGE / name])
    }
)
"""The modules that are placed into images, and those that are sent as text."""
CLIENTS = ("tfprov.filesystems.hdfs", "tfprov.filesystems.s3")
"""Modules that import the client of a file system."""

PROGRAMS = {
    "import of TensorFlow": program_checks.IMPORT_PROGRAM,
    "listener": reachability_probe.LISTEN,
    "prober": reachability_probe.PROBE,
    "listing": listing.LIST_PROGRAM,
    "sparse files": archive.SPARSE_PROGRAM,
    "secrets": secret_files.python_entrypoint("python3")[-1],
    "unpacking": cluster_settings.bundle(()).unpack(None)[2],
    "module of tfprov": program_checks.module_command("python3", "tfprov.runtime.fetch_remote")[-1],
    "client": remote_dirs.find_client("s3fs"),
}
"""Programs that tfprov passes to the Python of an image with `-c`."""

NEWER = {
    "removeprefix", "removesuffix", "is_relative_to", "readlink", "with_stem", "hardlink_to", "waitstatus_to_exitcode",
    "pidfd_open", "randbytes", "lcm", "to_thread", "bit_count", "pairwise", "UTC", "StrEnum", "TaskGroup", "Runner",
    "timeout_at", "file_digest", "add_note", "batched", "anext", "aiter", "ExceptionGroup", "cancel_futures",
    "ignore_cleanup_errors", "stdlib_module_names", "process_group", "BooleanOptionalAction", "exit_on_error",
    "extraction_filter", "walk_up",
}  # fmt: skip
"""Names that Python got after 3.8, which neither ruff nor mypy (3.10 at least) reports."""
GENERIC = {
    "list", "dict", "set", "frozenset", "tuple", "type", "deque", "defaultdict", "OrderedDict", "Counter", "ChainMap",
    "Callable", "Mapping", "MutableMapping", "Sequence", "MutableSequence", "Iterable", "Iterator", "Generator", "Set",
    "Awaitable", "Coroutine", "AsyncIterator", "AsyncIterable", "Collection", "Pattern", "Match",
}  # fmt: skip
"""Classes that have no `[]` in Python 3.8; those of `typing` have."""


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that are evaluated: all but annotations, which `from __future__ import annotations` keeps as text."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from executed(child)


def newer(node: ast.AST) -> str:
    """Return what a node has that Python 3.8 lacks, or nothing."""
    name = getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "arg", None)
    if name in NEWER:
        return str(name)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in GENERIC:
        return ast.unparse(node)
    if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.BitOr):
        operands = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
        if any(isinstance(it, ast.Dict | ast.DictComp) or ast.unparse(it).startswith("dict(") for it in operands):
            return ast.unparse(node)
    if isinstance(node, ast.Call):
        keywords = {keyword.arg for keyword in node.keywords}
        called = ast.unparse(node.func)
        if (called == "zip" and "strict" in keywords) or (called == "dataclass" and keywords & {"slots", "kw_only"}):
            return ast.unparse(node)
        if called == "isinstance" and isinstance(node.args[1], ast.BinOp):
            return ast.unparse(node)
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.search(r"(?<!\\)[*+?}]\+|\(\?>", node.value)
    ):
        return f"a possessive quantifier or an atomic group: {node.value}"
    return ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_a_module_of_tasks_has_nothing_newer_than_3_8(file: Path) -> None:
    ast.parse(file.read_text(), feature_version=OLDEST)
    documented = {id(it.value) for it in nodes(file) if isinstance(it, ast.Expr)}
    used = (newer(node) for node in executed(tree(file)) if id(node) not in documented)
    assert [what for what in used if what] == []
    fields = [getattr(node, field, None) for node in nodes(file) for field in ("annotation", "returns")]
    annotations = [ast.unparse(field) for field in fields if isinstance(field, ast.AST)]
    is_text = "from __future__ import annotations" in file.read_text()
    assert is_text or [it for it in annotations if "|" in it or "[" in it] == []


def test_ruff_knows_the_python_of_each_of_these_modules() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["per-file-target-version"]
    assert set(settings.values()) == {"py38"}
    patterns = [name for pattern in settings for name in braces(pattern)]
    unknown = [file for file in FILES if not any(matches(file, pattern) for pattern in patterns)]
    assert [file for file in unknown if len(tree(file).body) > 1] == []


def braces(pattern: str) -> list[str]:
    """Return the patterns that one with `{a,b}` means."""
    before, _, rest = pattern.partition("{")
    words, _, after = rest.partition("}")
    return [f"{before}{word}{after}" for word in words.split(",")] if rest else [pattern]


def matches(file: Path, pattern: str) -> bool:
    path = PurePosixPath(file.relative_to(ROOT).as_posix())
    return path.as_posix().startswith(pattern.removesuffix("**")) if pattern.endswith("**") else path.match(pattern)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_the_python_of_an_image_parses_in_3_6(name: str) -> None:
    ast.parse(PROGRAMS[name], feature_version=(3, 6))


def old_interpreters() -> list[str]:
    """Return the interpreters of Python 3.8 to 3.10 on this machine."""
    paths = [Path("/usr/bin"), Path("/usr/local/bin"), *Path.home().glob(".pyenv/versions/*/bin")]
    candidates = [path / f"python3.{minor}" for path in paths for minor in (8, 9, 10)]
    return [str(path) for path in candidates if path.exists()]


def test_old_interpreters_of_this_machine_import_it() -> None:
    modules = [".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts) for file in FILES]
    modules = [name.removesuffix(".__init__") for name in modules if name not in CLIENTS]
    program = (
        f"import importlib, sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "from tfprov.formats.checkpoint import parse_state\n"
        """assert parse_state('model_checkpoint_path: "a" # of "b"\\n') == ["a"]"""
    )
    for python in old_interpreters():
        done = subprocess.run(
            [python, "-B", "-I", "-W", "error", "-c", program], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), python


def test_an_older_python_is_named_with_what_to_do_and_the_settings_that_need_a_newer_one() -> None:
    file = PACKAGE / "runtime/__init__.py"
    ast.parse(file.read_text(), feature_version=(3, 6))
    text = file.read_text().replace("sys.version_info < (3, 8)", "sys.version_info < (9, 9)")
    cause = r"^tfprov\.runtime needs Python 3\.8 or newer, and this is 3\.\S+ \(/\S+\): use an image "
    settings = r".* restart_on, no_restart_on, and a checkpoints\.dir such as s3://"
    with pytest.raises(ImportError, match=cause + settings):
        exec(compile(text, str(file), "exec"), {})
