"""The lock files in `locks/`: the versions of constraints.txt with the hashes of their files; `make lock` rewrites them.

constraints.txt is what people edit. From it, from pyproject.toml and from what the packages say they need, the lock files
follow: which packages each set is made of, on which platforms, and the hashes of the wheels that fit there. pip installs
from them with nothing but wheels whose hash is written, so neither an index nor a mirror can slip in another file.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from tests.support.paths import ROOT

FOLDER = ROOT / "locks"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
ARCHITECTURES = {"x86_64", "aarch64", "arm64", "universal2"}
INCLUDES = {"tool": (), "demo": ("tool",), "dev": ("demo",), "venv": (), "spark": ()}
"""The lock files, and which one each begins with."""
TWINS = {"tensorflow": "tensorflow-cpu"}
"""Packages built from the same sources, which need the same others: the second one is asked for both.

Which of them is installed is for pyproject.toml to say: a package that needs the first one, such as tf-keras, takes either.
"""
SOURCES = {"pyspark": ("py4j>=0.10.9.7,<0.10.9.10",)}
"""Packages that are published as a source distribution only, and what each needs: its metadata is inside of 430 MB."""
BUILDS = ("editables",)
"""What hatchling needs for an editable installation; it asks for it while it builds, and pip fetches nothing then."""
HEAD = """\
# Made by `make lock` from constraints.txt and pyproject.toml; edit those. {purpose}
--require-hashes
--only-binary :all:
"""
SOURCE_HEAD = "--no-binary {name}\n"
PURPOSES = {
    "tool": "What tfprov itself needs: pip install -r locks/tool.txt",
    "demo": "What `make demo` installs: tfprov's own, TensorFlow and what builds a package of tfprov.",
    "dev": "What `make test` installs, with `pip install --no-deps`: tf-keras requires another build of TensorFlow.",
    "venv": "What makes a virtual environment where Python cannot.",
    "spark": "Spark, which .ci/spark.sh builds once with the locked setuptools.",
}

Environment = Mapping[str, str]
Requires = Mapping[str, Sequence[str]]
"""The requirements of each package, as its metadata has them."""


@dataclass(frozen=True)
class Locked:
    """A line of a lock file; `marker` is empty where the package is needed everywhere."""

    name: str
    version: str
    marker: str = ""
    hashes: tuple[str, ...] = ()


class LockError(Exception):
    """A set of packages that cannot be locked: which one, and what to change."""


def environments() -> list[Environment]:
    """Return what markers can ask, for every Python on every platform that the lock files are for."""
    return [
        {
            **{key: str(value) for key, value in default_environment().items()},
            "implementation_name": "cpython", "os_name": "posix", "platform_python_implementation": "CPython",
            "platform_system": system.capitalize(), "sys_platform": system, "platform_machine": machine,
            "python_version": python, "python_full_version": f"{python}.0",
        }
        for system, machine in PLATFORMS
        for python in PYTHONS
    ]  # fmt: skip


def pins(text: str) -> dict[str, str]:
    """Return the versions of a constraints file by normalized name."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pairs = [line.split("==") for line in lines]
    return {canonicalize_name(name): version for name, version in pairs}


def roots(pyproject: str) -> dict[str, list[str]]:
    """Return the requirements that each lock file is made for, without those of the files it begins with."""
    data = tomllib.loads(pyproject)
    project = data["project"]
    extras = project["optional-dependencies"]
    return {
        "tool": project["dependencies"],
        "demo": [*extras["tensorflow"], *data["build-system"]["requires"], *BUILDS],
        "dev": extras["dev"],
        "venv": ["pip", "virtualenv"],
        "spark": [text for text in extras["spark"] if canonicalize_name(Requirement(text).name) in SOURCES],
    }


def closure(wanted: Iterable[str], requires: Requires, versions: Mapping[str, str], there: Environment) -> set[str]:
    """Return the names of all packages that `wanted` needs in one environment."""
    needed = set[tuple[str, str]]()  # with an extra, or none
    left = [(Requirement(text), "") for text in wanted]
    while left:
        requirement, extra = left.pop()
        if requirement.marker and not requirement.marker.evaluate({**there, "extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        _refuse(requirement, name, versions)
        for each in {"", *requirement.extras}:
            if (name, each) not in needed:
                needed.add((name, each))
                left += [
                    (it, each) for it in map(Requirement, requires[name]) if canonicalize_name(it.name) not in TWINS
                ]
    return {name for name, _ in needed}


def _refuse(requirement: Requirement, name: str, versions: Mapping[str, str]) -> None:
    if name not in versions:
        raise LockError(f"constraints.txt has no version of {name}, which is needed; add a line {name}==VERSION")
    if not requirement.specifier.contains(versions[name], prereleases=True):
        raise LockError(f"constraints.txt: {name}=={versions[name]} is not in `{requirement}`; take another version")


def lock(
    wanted: Mapping[str, Sequence[str]], requires: Requires, versions: Mapping[str, str]
) -> dict[str, list[Locked]]:
    """Return the lines of every lock file, without hashes: a package is in the first file that needs it."""
    everywhere = environments()
    placed, locked = dict[str, set[str]](), dict[str, list[Locked]]()
    for file, texts in wanted.items():
        needed = [closure(texts, requires, versions, there) for there in everywhere]
        placed[file] = set[str]().union(*needed)
        before = set[str]().union(*(placed[name] for name in _included(file)))
        markers = {name: marker([name in names for names in needed]) for name in placed[file] - before}
        locked[file] = [Locked(name, versions[name], markers[name]) for name in sorted(markers)]
    return locked


def _included(file: str) -> list[str]:
    return [each for name in INCLUDES[file] for each in (name, *_included(name))]


def marker(needed: Sequence[bool]) -> str:
    """Return the marker that is true in exactly these environments, in their order; empty for all of them."""
    count, parts = len(PYTHONS), []
    for number, (system, machine) in enumerate(PLATFORMS):
        here = needed[number * count : (number + 1) * count]
        pythons = [f"python_version == '{python}'" for python, one in zip(PYTHONS, here, strict=True) if one]
        terms = [f"sys_platform == '{system}'", f"platform_machine == '{machine}'"]
        if pythons:
            parts.append(" and ".join(terms if all(here) else [*terms, f"({' or '.join(pythons)})"]))
    return "" if all(needed) else " or ".join(parts)


def platforms(condition: str) -> list[tuple[str, str]]:
    """Return the platforms on which a marker is true for some Python."""
    parsed = Marker(condition) if condition else None
    true = [there for there in environments() if parsed is None or parsed.evaluate(dict(there))]
    return [each for each in PLATFORMS if each in {(one["sys_platform"], one["platform_machine"]) for one in true}]


def fits(filename: str) -> bool:
    """Whether a file of a release is a wheel for one of these Pythons on one of these platforms."""
    try:
        tags = parse_wheel_filename(filename)[3]
    except InvalidWheelFilename:  # a source distribution, or a name from before there was a rule
        return False
    return any(_python_fits(tag) and _platform_fits(tag) for tag in tags)


def _python_fits(tag: Tag) -> bool:
    match = re.fullmatch(r"(py|cp)3(\d*)", tag.interpreter)
    if not match:
        return False
    minor = int(match[2] or 0)
    if match[1] == "py" or tag.abi == "abi3":
        return minor <= max(_minors())
    return minor in _minors() and tag.abi in (tag.interpreter, "none")


def _minors() -> list[int]:
    return [int(python.partition(".")[2]) for python in PYTHONS]


def _platform_fits(tag: Tag) -> bool:
    system, _, rest = tag.platform.partition("_")
    return tag.platform == "any" or (
        system.startswith(("manylinux", "musllinux", "linux", "macosx"))
        and any(rest == each or rest.endswith(f"_{each}") for each in ARCHITECTURES)
    )


def write(file: str, lines: Sequence[Locked]) -> str:
    """Return the text of a lock file."""
    text = HEAD.format(purpose=PURPOSES[file]) + "".join(f"-r {name}.txt\n" for name in INCLUDES[file])
    text += "".join(SOURCE_HEAD.format(name=line.name) for line in lines if line.name in SOURCES)
    for line in lines:
        head = f"{line.name}=={line.version}" + (f" ; {line.marker}" if line.marker else "")
        text += " \\\n    ".join([head, *(f"--hash=sha256:{each}" for each in sorted(line.hashes))]) + "\n"
    return text


def read(text: str) -> list[Locked]:
    """Return the lines of a lock file; options are left out."""
    logical = re.sub(r"\\\n\s*", "", text).splitlines()
    lines = []
    for line in logical:
        if line and not line.startswith(("#", "-")):
            head, *hashes = line.split("--hash=sha256:")
            exact, _, condition = head.partition(";")
            name, _, version = exact.strip().partition("==")
            lines.append(Locked(name, version, condition.strip(), tuple(each.strip() for each in hashes)))
    return lines


def differences(files: Mapping[str, Sequence[Locked]], versions: Mapping[str, str]) -> list[str]:
    """Return what lock files say otherwise than constraints.txt, a sentence each."""
    locked = {line.name: line for lines in files.values() for line in lines}
    problems = [f"{name}=={version} is in no lock file" for name, version in versions.items() if name not in locked]
    for name, line in sorted(locked.items()):
        if versions.get(name) != line.version:
            problems.append(f"locked is {name}=={line.version}, and constraints.txt has {versions.get(name) or 'none'}")
        if not line.hashes or not all(re.fullmatch("[0-9a-f]{64}", each) for each in line.hashes):
            problems.append(f"{name}=={line.version} is locked without the hashes of its files")
    return problems
