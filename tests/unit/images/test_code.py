"""The training program as a reproducible archive."""

import errno
import io
import os
import re
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.files import write
from tfprov.errors import InvalidInput, Position, TfprovError
from tfprov.images.code import Code, CodeStore, Ignore, pack
from tfprov.images.code_contents import CodeContents, names_tensorflow

AT = Position("inventory.yml", 5, 7)
FILES = {"main.py": "print('hi')", "lib/a.py": "a = 1", "lib/b.py": "b = 2", "data.txt": "x"}


def names(code: Code) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(code.archive)) as archive:
        return archive.getnames()


def digest(directory: Path) -> str:
    return pack(directory, AT).digest


def test_equal_files_give_equal_archives(tmp_path: Path) -> None:
    one = write(tmp_path / "one", FILES)
    other = write(tmp_path / "other" / "deeper", dict(reversed(FILES.items())), umask=0o077)
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
        if os.geteuid() == 0:
            os.chown(path, 1234, 1234)
    assert pack(one, AT).archive == pack(other, AT).archive
    assert digest(one) == digest(other)


def test_names_are_sorted_and_relative(tmp_path: Path) -> None:
    assert names(pack(write(tmp_path, FILES), AT)) == ["data.txt", "lib/a.py", "lib/b.py", "main.py"]


@pytest.mark.parametrize("change", ["content", "name", "executable", "new file", "link"])
def test_every_change_visible_to_a_program_changes_the_digest(tmp_path: Path, change: str) -> None:
    write(tmp_path, FILES)
    before = digest(tmp_path)
    match change:
        case "content":
            (tmp_path / "main.py").write_text("print('ho')")
        case "name":
            (tmp_path / "main.py").rename(tmp_path / "main2.py")
        case "executable":
            (tmp_path / "main.py").chmod(0o755)
        case "new file":
            (tmp_path / "new").touch()
        case "link":
            (tmp_path / "link").symlink_to("main.py")
    assert digest(tmp_path) != before


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o666, 0o444])
def test_permissions_of_others_do_not_change_the_digest(tmp_path: Path, mode: int) -> None:
    write(tmp_path, FILES)
    before = digest(tmp_path)
    (tmp_path / "main.py").chmod(mode)
    assert digest(tmp_path) == before


def test_caches_and_git_are_left_out(tmp_path: Path) -> None:
    rubbish = {"__pycache__/a.pyc": "", "lib/__pycache__/b.pyc": "", "c.pyc": "", ".git/config": "", ".DS_Store": ""}
    write(tmp_path, FILES | rubbish)
    os.mkfifo(tmp_path / "pipe")
    assert names(pack(tmp_path, AT)) == sorted(FILES)


def test_the_ignore_file_is_respected(tmp_path: Path) -> None:
    write(tmp_path, FILES | {".dockerignore": "lib\n!lib/b.py\n*.txt\n.dockerignore\n"})
    assert names(pack(tmp_path, AT)) == ["lib/b.py", "main.py"]


def test_a_link_inside_is_kept_as_a_link(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    (tmp_path / "lib" / "up").symlink_to("../main.py")
    (tmp_path / "folder").symlink_to("lib")
    with tarfile.open(fileobj=io.BytesIO(pack(tmp_path, AT).archive)) as archive:
        assert archive.getmember("lib/up").linkname == "../main.py"
        assert archive.getmember("folder").issym()
        modes = {member.name: member.mode for member in archive}
    assert (modes["lib/up"], modes["main.py"]) == (0o777, 0o644)


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", ".."])
def test_a_link_that_leads_out_is_an_error(tmp_path: Path, target: str) -> None:
    write(tmp_path / "code", FILES)
    (tmp_path / "code" / "link").symlink_to(target)
    with pytest.raises(InvalidInput) as raised:
        pack(tmp_path / "code", AT)
    why = f"a link that leads out of the directory: {tmp_path}/code/link; remove it, or name it in .dockerignore"
    assert str(raised.value) == f"inventory.yml:5:7: error: `code`: {why}"


def test_a_file_whose_name_begins_with_two_dots_is_not_outside(tmp_path: Path) -> None:
    write(tmp_path, FILES | {"..data/x.py": ""})
    (tmp_path / "link").symlink_to("..data/x.py")
    assert "link" in names(pack(tmp_path, AT))


@pytest.mark.parametrize(("name", "reason"), [("nowhere", "does not exist"), ("file", "is not a directory")])
def test_a_path_that_is_no_directory_is_an_error_at_its_line(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput) as raised:
        pack(tmp_path / name, AT)
    what = f"{tmp_path}/{name} {reason}; give the directory that holds the training program"
    assert str(raised.value) == f"inventory.yml:5:7: error: `code`: {what}"


def test_a_directory_that_cannot_be_read_is_an_error_unless_it_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir
    write(tmp_path, {"main.py": "", "secret/a.py": ""})

    def refusing(path: str) -> Any:
        if Path(path).name == "secret":  # root, who runs these tests in containers, may read any directory
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(InvalidInput, match=f"`code`: Permission denied: {tmp_path}/secret; make it readable"):
        pack(tmp_path, AT)
    (tmp_path / ".dockerignore").write_text("secret\n!main.py\n")
    assert names(pack(tmp_path, AT)) == [".dockerignore", "main.py"]


def test_what_is_never_packed_is_left_out_and_what_only_begins_like_it_is_not(tmp_path: Path) -> None:
    write(tmp_path, {"code/main.py": "", "code/data/x": "", "code-main.py": "", ".dockerignore": ""})
    (tmp_path / "link").symlink_to("code/data/x")
    code = pack(tmp_path / "code", AT, [tmp_path / "link", tmp_path / "code-main.py", tmp_path / "code" / "gone"])
    assert names(code) == ["main.py"]
    assert names(pack(tmp_path / "code", AT, [tmp_path / "code" / "data"])) == ["main.py"]


def test_an_ignore_file_that_is_no_text_is_read_all_the_same(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    (tmp_path / ".dockerignore").write_bytes(b"\xff\nlib\n.dockerignore\n")
    assert names(pack(tmp_path, AT)) == ["data.txt", "main.py"]


def test_an_empty_directory_is_code_too(tmp_path: Path) -> None:
    assert names(pack(tmp_path, AT)) == []


def test_the_first_pattern_may_be_behind_a_byte_order_mark(tmp_path: Path) -> None:
    write(tmp_path, {"main.py": "", "credentials.json": "{}"})
    (tmp_path / ".dockerignore").write_bytes(b"\xef\xbb\xbfcredentials.json\n.dockerignore\n")
    assert names(pack(tmp_path, AT)) == ["main.py"]


# --- .dockerignore ---------------------------------------------------------------------------------------------------


IGNORED = [
    ("*.txt", "a.txt", True),
    ("*.txt", "lib/a.txt", False),
    ("**/*.txt", "lib/deep/a.txt", True),
    ("**/*.txt", "a.txt", True),
    ("lib", "lib/a.py", True),
    ("lib/", "lib/a.py", True),
    ("/lib", "lib/a.py", True),
    ("./lib", "lib/a.py", True),
    ("lib", "other/lib/a.py", False),
    ("lib/*", "lib/a.py", True),
    ("lib/**", "lib/deep/a.py", True),
    ("lib/**/x", "lib/x", True),
    ("lib/**/x", "lib/a/b/x", True),
    ("a?c", "abc", True),
    ("a?c", "a/c", False),
    ("[a-c].py", "b.py", True),
    ("[a-c].py", "d.py", False),
    ("[^a-c].py", "d.py", True),
    ("# comment", "# comment", False),
    ("", "a", False),
    ("   ", "a", False),
    ("*\n!main.py", "main.py", False),
    ("*\n!main.py", "other.py", True),
    ("!main.py\n*", "main.py", True),
    ("lib\n!lib/keep.py", "lib/keep.py", False),
    ("lib\n!lib/keep.py\nlib/keep.py", "lib/keep.py", True),
    ("a.py", "aXpy", False),
    (r"\*", "*", True),
    (r"\*", "x", False),
    ("*.py\n! a.py", "a.py", False),
    (".", "a", False),
    ("(a|b)", "a", False),
    ("*", ".hidden", True),
]
"""Patterns (one a line), a name, and whether Docker leaves it out."""


@pytest.mark.parametrize(("patterns", "name", "left_out"), IGNORED)
def test_ignore_patterns_match_as_in_docker(patterns: str, name: str, left_out: bool) -> None:
    assert Ignore(patterns.splitlines()).matches(name) is left_out


@pytest.mark.parametrize("pattern", ["[]", "[z-a]", "lib/[^]/a"])
def test_a_pattern_that_is_none_is_an_error_at_its_line(tmp_path: Path, pattern: str) -> None:
    (tmp_path / ".dockerignore").write_text(f"# caches\n{pattern}\n")
    with pytest.raises(InvalidInput) as caught:
        pack(tmp_path, AT)
    start, end = f"{tmp_path}/.dockerignore:2: error: `{pattern}` is no pattern: ", "; correct it"
    assert re.fullmatch(f"{re.escape(start)}.+{end}", str(caught.value))


@pytest.mark.filterwarnings("error")
def test_only_a_dash_has_a_meaning_in_a_character_class() -> None:
    for pattern, matching, other in (
        ("[[&&b]", "&", "a"),
        ("[^[a]", "x", "["),
        ("[\\d-f]", "e", "1"),
        ("[\\d-f]", "d", "\\"),
        ("[\\]]", "]", "a"),
    ):
        assert Ignore([pattern]).matches(matching)
        assert not Ignore([pattern]).matches(other)


def test_an_ignored_directory_is_entered_only_for_exceptions() -> None:
    assert Ignore(["data"]).prunes("data")
    assert not Ignore(["data", "!data/keep"]).prunes("data")


# --- its contents ----------------------------------------------------------------------------------------------------


def test_of_a_program_the_first_line_counts_as_the_kernel_reads_it(tmp_path: Path) -> None:
    long = f"#!{'x' * 300}"
    files = {"a": "#!/bin/sh\nexit\n", "long": long, "empty": "", "pkg/__main__.py": "", "pkg/run": "#!"}
    write(tmp_path, files)
    (tmp_path / "a").chmod(0o755)
    (tmp_path / "link").symlink_to("pkg")
    contents = CodeContents(pack(tmp_path, AT))
    lines = {name: contents.first_line(name) for name in ("./a", "long", "empty", "link", "gone")}
    assert lines == {"./a": b"#!/bin/sh", "long": long[:256].encode(), "empty": b"", "link": None, "gone": None}
    assert [contents.has(name) for name in ("a", "pkg", "./pkg/run", "link/any", "a/any", "gone")] == [True] * 4 + [
        False
    ] * 2
    assert [contents.is_executable(name) for name in ("a", "long", "link", "gone")] == [True, False, True, True]
    assert (contents.read("pkg/../long"), contents.read("link"), contents.read("gone")) == (long.encode(), b"", b"")


@pytest.mark.parametrize(
    ("source", "tensorflow", "runtime"),
    [
        ("import tensorflow as tf", True, False), ("  from keras import layers", True, False),
        ("import tf_keras", True, False),
        ("import tfprov.runtime", True, True), ("from tfprov.runtime import x", True, True),
        ("from tfprov import runtime", True, True), ("from tfprov import (runtime)", True, True),
        ("from tfprov import wiring", True, False), ("import tensorflows", False, False), ("# import keras", False, False),
        ("import tfprov", False, False), ("x = 'import keras'", False, False),
    ],
)  # fmt: skip
def test_what_a_program_imports_is_read_from_its_lines(
    tmp_path: Path, source: str, tensorflow: bool, runtime: bool
) -> None:
    contents = CodeContents(pack(write(tmp_path, {"m.py": f"import os\n{source}\n", "m.txt": "import keras\n"}), AT))
    assert (contents.imports_tensorflow, contents.imports_runtime("m.py")) == (tensorflow, runtime)


def test_a_program_on_a_command_line_names_tensorflow_if_it_imports_it() -> None:
    texts = ["import tensorflow", "x=1; from  keras import y", "import tf_keras", "from tfprov import runtime"]
    others = ["", "import os", "important tensorflow", "import tensorflows", "tensorflow", "reimport keras"]
    assert [text for text in (*texts, *others) if names_tensorflow(text)] == texts


# --- the store -------------------------------------------------------------------------------------------------------


def test_stored_code_is_read_by_its_digest(tmp_path: Path) -> None:
    code = pack(write(tmp_path / "code", FILES), AT)
    store = CodeStore(tmp_path / "store")
    assert store.digests() == frozenset()
    store.put(code)
    assert store.digests() == {code.digest}
    assert store.get(code.digest) == code.archive
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "store").iterdir()] == [0o600]


def test_a_store_that_cannot_be_made_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TfprovError) as raised:
        CodeStore(tmp_path / "file" / "store").put(Code("", f"sha256:{1:064}", b""))
    what = f"the packed code cannot be stored: {tmp_path}/file/store: Not a directory"
    assert str(raised.value) == f"{what}; check its permissions, and the room on its disk"


def test_two_runs_store_and_read_the_same_code_at_once(tmp_path: Path) -> None:
    code = Code("", f"sha256:{1:064}", bytes(100_000))
    store = CodeStore(tmp_path)

    def use(_: int) -> bytes:
        store.put(code)
        return store.get(code.digest)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(use, range(64))) == {code.archive}


def test_the_store_removes_the_least_recently_used_archives(tmp_path: Path) -> None:
    store = CodeStore(tmp_path)
    codes = [Code("", f"sha256:{number:064}", b"") for number in range(21)]
    for age, code in enumerate(codes[:-1]):
        store.put(code)
        os.utime(tmp_path / f"{code.digest.removeprefix('sha256:')}.tar", (age, age))
    store.get(codes[0].digest)
    store.put(codes[-1])
    assert store.digests() == {code.digest for code in codes} - {codes[1].digest}
