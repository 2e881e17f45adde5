"""The lock files say what constraints.txt says, with hashes; and how they are made of it."""

import re
from collections.abc import Callable
from email.message import Message
from importlib import metadata
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import licences
from tests.support.lock import (
    FOLDER,
    INCLUDES,
    SOURCES,
    Environment,
    Locked,
    LockError,
    differences,
    environments,
    fits,
    lock,
    marker,
    pins,
    platforms,
    read,
    roots,
    write,
)
from tests.support.package_index import release_hashes, source_hashes
from tests.support.paths import ROOT

FILES = {name: read((FOLDER / f"{name}.txt").read_text()) for name in INCLUDES}
PINS = pins((ROOT / "constraints.txt").read_text())
ROOTS = roots((ROOT / "pyproject.toml").read_text())
SHA = "0" * 64


def test_the_lock_files_are_those_of_constraints_txt() -> None:
    assert differences(FILES, PINS) == [], "constraints.txt or a lock file has changed: make lock"


def test_what_pyproject_asks_for_is_locked_and_in_its_range() -> None:
    missing = []
    for file, texts in ROOTS.items():
        names = {line.name: line.version for each in ("tool", "demo", "dev", file) for line in FILES[each]}
        for requirement in map(Requirement, texts):
            version = names.get(canonicalize_name(requirement.name), "")
            if not version or not requirement.specifier.contains(version):
                missing.append(f"{requirement}, and {file}.txt has {version or 'none'}")
    assert missing == [], "pyproject.toml has changed: make lock"


def test_what_is_installed_here_and_needed_by_a_locked_package_is_locked() -> None:
    """Nothing outside of a lock file could be installed; a package left out would be missed on a new machine."""
    installed: dict[str, metadata.Distribution] = {
        canonicalize_name(each.name): each for each in metadata.distributions()
    }
    missing = []
    for file in ("tool", "demo", "dev", "spark"):
        for line in FILES[file]:
            requires = installed[line.name].requires or [] if line.name in installed else []
            needed = [
                each for each in map(Requirement, requires) if not each.marker or each.marker.evaluate({"extra": ""})
            ]
            missing += [f"{line.name} needs {each}" for each in needed if canonicalize_name(each.name) not in PINS]
    assert missing == []


def test_make_installs_from_lock_files_alone_and_names_no_index() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "-r locks/demo.txt" in makefile
    assert 'sh .ci/packages.sh "$(PYTHON)" $(VENV) locks/dev.txt\n' in makefile
    assert '--no-deps --require-hashes -r "$lock"\n' in (ROOT / ".ci" / "packages.sh").read_text()
    assert "sh .ci/spark.sh" not in makefile.partition("ready-demo: $(INPUTS)")[2].partition("ready-dev:")[0]
    for name in INCLUDES:
        head = (FOLDER / f"{name}.txt").read_text().partition("==")[0]
        assert ("--no-binary pyspark\n" in head) == (name == "spark")
        assert "--require-hashes\n--only-binary :all:\n" in head, name
    texts = [makefile, *(path.read_text() for path in (*FOLDER.iterdir(), *(ROOT / ".ci").iterdir()))]
    assert [line for text in texts for line in re.findall(r".*(?:https?://|--index-url|--trusted-host).*", text)] == []


def test_each_way_of_being_stale_is_told() -> None:
    good = Locked("click", "8.1", "", (SHA,))
    rows: list[tuple[list[Locked], dict[str, str], str]] = [
        ([good], {"click": "8.2"}, "locked is click==8.1, and constraints.txt has 8.2"),
        ([good], {"click": "8.1", "rich": "14.0"}, "rich==14.0 is in no lock file"),
        ([good, Locked("rich", "14.0", "", (SHA,))], {"click": "8.1"},
         "locked is rich==14.0, and constraints.txt has none"),
        ([Locked("click", "8.1")], {"click": "8.1"}, "click==8.1 is locked without the hashes of its files"),
        ([Locked("click", "8.1", "", ("abc",))], {"click": "8.1"}, "click==8.1 is locked without the hashes of its files"),
    ]  # fmt: skip
    assert differences({"tool": [good]}, {"click": "8.1"}) == []
    assert [differences({"tool": lines}, versions) for lines, versions, _ in rows] == [[line] for *_, line in rows]


WANTED = {"tool": ["a>=1"], "demo": ["b[fast]; platform_machine == 'x86_64'", "c"], "dev": ["d"], "venv": ["a"]}
REQUIRES = {
    "a": ["e; python_version < '3.12'", "windows-only; sys_platform == 'win32'"],
    "b": ["f; extra == 'fast'", "g; extra == 'slow'"], "c": ["b; sys_platform == 'darwin'"],
    "d": ["a", "c", "tensorflow"],  # which of its two builds, the project decides
    "e": [], "f": [],
}  # fmt: skip
VERSIONS = dict.fromkeys(REQUIRES, "1.0")


def test_a_package_is_in_the_first_file_that_needs_it_with_where_it_is_needed() -> None:
    locked = lock(WANTED, REQUIRES, VERSIONS)
    names = {file: [line.name for line in lines] for file, lines in locked.items()}
    assert names == {"tool": ["a", "e"], "demo": ["b", "c", "f"], "dev": ["d"], "venv": ["a", "e"]}
    where = {line.name: line.marker for lines in locked.values() for line in lines}
    assert {name for name in where if not where[name]} == {"a", "c", "d"}
    expected_where: dict[str, Callable[[Environment], bool]] = {
        "b": lambda there: there["platform_machine"] == "x86_64" or there["sys_platform"] == "darwin",
        "e": lambda there: there["python_version"] == "3.11",
        "f": lambda there: there["platform_machine"] == "x86_64",
    }
    for name, expected in expected_where.items():
        parsed = Marker(where[name])
        assert [parsed.evaluate(dict(there)) for there in environments()] == [
            expected(there) for there in environments()
        ]
    assert platforms(where["b"]) == [("linux", "x86_64"), ("darwin", "arm64")]


def test_what_cannot_be_locked_says_which_line_to_change() -> None:
    with pytest.raises(LockError, match=r"no version of e, which is needed; add a line e==VERSION"):
        lock(WANTED, REQUIRES, {name: version for name, version in VERSIONS.items() if name != "e"})
    with pytest.raises(LockError, match=r"constraints.txt: a==0.9 is not in `a>=1`"):
        lock(WANTED, REQUIRES, {**VERSIONS, "a": "0.9"})


def test_a_lock_file_is_read_as_it_was_written() -> None:
    some = marker([there["platform_machine"] == "aarch64" for there in environments()])
    lines = [Locked("a", "1.0", "", (SHA,)), Locked("b-c", "2026.1.2", some, (SHA, "1" * 64))]
    assert read(write("demo", lines)) == lines


def test_wheels_that_fit() -> None:
    rows = {
        "a-1-py3-none-any.whl": True, "a-1-py2.py3-none-any.whl": True, "a-1-cp311-cp311-manylinux_2_28_x86_64.whl": True,
        "a-1-cp313-cp313-manylinux_2_17_aarch64.manylinux2014_aarch64.whl": True,
        "a-1-cp39-abi3-musllinux_1_2_x86_64.whl": True,
        "a-1-cp312-cp312-macosx_11_0_arm64.whl": True, "a-1-cp312-cp312-macosx_10_9_universal2.whl": True,
        "a-1-cp310-cp310-manylinux_2_28_x86_64.whl": False, "a-1-cp313-cp313t-manylinux_2_28_x86_64.whl": False,
        "a-1-cp311-cp311-win_amd64.whl": False, "a-1-cp311-cp311-manylinux_2_28_ppc64le.whl": False,
        "a-1-pp310-pypy310_pp73-manylinux_2_17_x86_64.whl": False, "a-1-py2-none-any.whl": False, "a-1.tar.gz": False,
        "not a wheel.whl": False,
    }  # fmt: skip
    assert {name: fits(name) for name in rows} == rows


def test_hashes_are_those_of_one_release_that_can_be_installed_everywhere() -> None:
    def project(*names: str, **more: Any) -> dict[str, Any]:
        return {"files": [{"filename": name, "hashes": {"sha256": name}, **more} for name in names]}

    intel, arm = "a-1.0-cp311-abi3-manylinux_2_28_x86_64.whl", "a-1.0-cp311-abi3-manylinux_2_28_aarch64.whl"
    mac, line = "a-1.0-cp311-abi3-macosx_11_0_arm64.whl", Locked("a", "1.0")
    assert release_hashes(project(intel, arm, mac, "a-1.0.tar.gz", "a-1.0.1-py3-none-any.whl"), line) == (
        intel,
        arm,
        mac,
    )
    with pytest.raises(LockError, match=r"a==1\.0 has no wheel for linux on aarch64"):
        release_hashes(project(intel, mac), line)
    on_intel = Locked("a", "1.0", "sys_platform == 'linux' and platform_machine == 'x86_64'")
    assert release_hashes(project(intel), on_intel) == (intel,)
    with pytest.raises(LockError, match=f"{intel} was withdrawn by its authors"):
        release_hashes(project(intel, yanked="wrong"), on_intel)


def test_a_source_distribution_is_locked_by_its_own_hash() -> None:
    files = [("pyspark-4.3.0.tar.gz", "a"), ("pyspark-4.3.1.tar.gz", "b"), ("pyspark-4.3.0-py3-none-any.whl", "c")]
    project = {"files": [{"filename": name, "hashes": {"sha256": sha}} for name, sha in files]}
    assert source_hashes(project, Locked("pyspark", "4.3.0")) == ("a",)
    with pytest.raises(LockError, match=r"pyspark==4\.2\.0 has no source distribution; take another version"):
        source_hashes(project, Locked("pyspark", "4.2.0"))
    project["files"][0]["yanked"] = "wrong"
    with pytest.raises(LockError, match=r"pyspark-4\.3\.0\.tar\.gz was withdrawn by its authors"):
        source_hashes(project, Locked("pyspark", "4.3.0"))


def test_what_a_source_distribution_needs_is_what_its_metadata_says() -> None:
    for name, texts in SOURCES.items():
        requires = map(Requirement, metadata.requires(name) or [])
        plain = [each for each in requires if not each.marker or each.marker.evaluate({"extra": ""})]
        assert {(each.name, each.specifier) for each in plain} == {
            (each.name, each.specifier) for each in map(Requirement, texts)
        }


def package(name: str, **fields: str | list[str]) -> Message:
    message = Message()
    for key, value in {"Name": name, "Version": "1", **fields}.items():
        for each in [value] if isinstance(value, str) else value:
            message[key.replace("_", "-")] = each
    return message


def test_licences_of_a_package_and_of_what_it_needs() -> None:
    packages = {
        "tool": package("tool", License_Expression="MIT", Requires_Dist=["Some_Lib", "big; extra == 'big'"]),
        "some-lib": package("Some_Lib", Classifier=["License :: OSI Approved :: BSD License", "Typing :: Typed"]),
        "big": package("big", License="Apache 2.0\n\nAll of the text", Requires_Dist=["tool", "none"]),
        "none": package("none", License="UNKNOWN"),
    }
    assert licences.rows("tool", [], packages.__getitem__) == [("Some_Lib", "1", "BSD License"), ("tool", "1", "MIT")]
    table = licences.text(licences.rows("tool", ["big"], packages.__getitem__))
    assert table == (
        "big       1  Apache 2.0\nnone      1  not stated\nSome_Lib  1  BSD License\ntool      1  MIT\n"
    )  # fmt: skip
