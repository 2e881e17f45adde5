"""Build contexts and the recipes of images."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from tests.support.files import write
from tests.support.images import train_context
from tests.support.paths import ROOT
from tfprov.errors import InvalidInput, Position
from tfprov.images.build import BuildContext, Recipe, context_chunks, pack_context, proxies
from tfprov.images.code import pack

AT = Position("inventory.yml", 5, 7)
FILES = {"Dockerfile": "FROM scratch\n", "etc/a.conf": "a", "run.sh": "#!/bin/sh"}
TRAIN = ROOT / "images" / "train"


def members(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        return {it.name: file.read() for it in files if (file := files.extractfile(it))}


def names(context: BuildContext) -> set[str]:
    return set(members(context.archive))


def test_equal_directories_give_equal_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write(tmp_path / "one", FILES)
    other = write(tmp_path / "other", dict(reversed(FILES.items())), umask=0o077)
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
    first = pack_context(one, AT)
    monkeypatch.chdir(tmp_path)
    second = pack_context(Path("other"), AT)
    assert (first.digest, first.archive) == (second.digest, second.archive)
    assert (first.source, first.dockerfile) == (str(one), "Dockerfile")
    assert members(first.archive) == {name: text.encode() for name, text in FILES.items()}


@pytest.mark.parametrize("ignored", ["*", "**", "Dockerfile", "**/Dockerfile*\n!run.sh", "etc"])
@pytest.mark.parametrize("dockerfile", ["Dockerfile", "etc/Dockerfile.gpu", "./etc//Dockerfile.gpu"])
def test_an_ignored_dockerfile_is_packed_all_the_same(tmp_path: Path, ignored: str, dockerfile: str) -> None:
    write(tmp_path, FILES | {".dockerignore": ignored, "etc/Dockerfile.gpu": "FROM scratch"})
    context = pack_context(tmp_path, AT, dockerfile)
    assert context.dockerfile in names(context)
    assert context.dockerfile == os.path.normpath(dockerfile)
    assert "etc/a.conf" not in names(context) or ignored.startswith(("Dockerfile", "**/Dockerfile"))


def test_the_reserved_tfprov_directory_is_never_packed(tmp_path: Path) -> None:
    write(tmp_path, FILES | {".tfprov/pip.conf": "somebody's", ".dockerignore": "!.tfprov\n.dockerignore"})
    assert names(pack_context(tmp_path, AT)) == set(FILES)


ADD_IT = "add it, or name another file of that directory with `image.dockerfile`"


@pytest.mark.parametrize(
    ("directory", "dockerfile", "complaint"),
    [
        ("nowhere", "Dockerfile", "nowhere does not exist; give the directory that holds the Dockerfile"),
        ("there/run.sh", "Dockerfile", "there/run.sh is not a directory; give the directory that holds the Dockerfile"),
        ("empty", "Dockerfile", f"empty has no Dockerfile; {ADD_IT}"),
        ("there", "Dockerfile.gpu", f"there has no Dockerfile.gpu; {ADD_IT}"),
        ("there", "etc", f"there has no etc; {ADD_IT}"),
        ("empty", "../there/Dockerfile", f"empty has no ../there/Dockerfile; {ADD_IT}"),
        ("there", "/etc/passwd", f"there has no /etc/passwd; {ADD_IT}"),
    ],
)
def test_a_missing_context_or_dockerfile_is_an_error_at_its_line(
    tmp_path: Path, directory: str, dockerfile: str, complaint: str
) -> None:
    write(tmp_path / "there", FILES)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput) as raised:
        pack_context(tmp_path / directory, AT, dockerfile)
    assert str(raised.value) == f"inventory.yml:5:7: error: `image.build`: {tmp_path}/{complaint}"


@pytest.mark.parametrize("what", ["image.build", "code"])
def test_a_directory_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path, what: str) -> None:
    write(tmp_path, FILES)
    with (tmp_path / "0").open("wb") as file:  # the first in the archive
        file.truncate(512 * 1024**2 + 1)  # a sparse file
    with pytest.raises(InvalidInput) as raised:
        pack_context(tmp_path, AT) if what == "image.build" else pack(tmp_path, AT)
    reason = f"`{what}`: {tmp_path} is larger than 512 MiB; leave data out with a .dockerignore file"
    assert str(raised.value) == f"inventory.yml:5:7: error: {reason}"
    (tmp_path / ".dockerignore").write_text("0")
    pack_context(tmp_path, AT)


def test_an_edit_of_a_program_does_not_build_the_train_image_again() -> None:
    packed = members(pack_context(TRAIN, AT).archive)
    assert packed == {name: data for name, (data, _) in train_context().items()}
    assert set(packed) == {"Dockerfile", ".dockerignore"}


# --- the recipe ------------------------------------------------------------------------------------------------------


def recipe(tmp_path: Path, **changes: object) -> Recipe:
    context = pack_context(write(tmp_path, FILES), AT)
    values = {"context": context, "args": {"B": "2", "A": "1"}, "ca_bundle": None, "pip_conf": None} | changes
    return Recipe(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"ca_bundle": b"cert"},
        {"pip_conf": b"[global]"},
        {"proxies": {"HTTP_PROXY": "p"}},
        {"args": {"A": "1", "B": "2"}},
    ],
    ids=["certificates", "pip.conf", "proxies", "order"],
)
def test_settings_of_the_machine_do_not_change_the_key(tmp_path: Path, change: dict[str, object]) -> None:
    assert recipe(tmp_path, **change).key == recipe(tmp_path).key


def test_context_dockerfile_arguments_and_builder_change_the_key(tmp_path: Path) -> None:
    usual = recipe(tmp_path)
    write(tmp_path, {"Dockerfile.gpu": "FROM scratch\n"})
    write(tmp_path / "other", FILES | {"run.sh": "other"})
    others = [
        recipe(tmp_path, args={"A": "1"}),
        recipe(tmp_path, args={"A": "1", "B": "3"}),
        recipe(tmp_path, args={}),
        recipe(tmp_path, builder="node1"),
        recipe(tmp_path, builder="node2"),
        recipe(tmp_path, context=pack_context(tmp_path, AT, "Dockerfile.gpu")),
        recipe(tmp_path, context=pack_context(tmp_path / "other", AT)),
    ]
    keys = {it.key for it in (usual, *others)}
    assert len(keys) == 1 + len(others)
    assert all(len(key) == 64 and set(key) <= set("0123456789abcdef") for key in keys)


def test_the_key_is_the_same_in_every_release(tmp_path: Path) -> None:
    # A figure of this project's own: a change here builds every user's image again.
    assert recipe(tmp_path).key == "4de72d5601b202e35d05a04c434ff8cd0265a307b52654de08d724fe06d3228d"


def test_the_context_is_sent_with_certificates_and_pip_conf(tmp_path: Path) -> None:
    plain = recipe(tmp_path)
    assert b"".join(context_chunks(plain)) == plain.context.archive
    with_host_files = recipe(tmp_path, ca_bundle=b"c" * 700, pip_conf=b"[global]\n")
    with tarfile.open(fileobj=io.BytesIO(b"".join(context_chunks(with_host_files)))) as archive:
        modes = {member.name: member.mode for member in archive if member.name.startswith(".tfprov/")}
    assert modes == {".tfprov/ca.crt": 0o644, ".tfprov/pip.conf": 0o644}, "every user of the image's build reads them"
    assert members(b"".join(context_chunks(with_host_files))) == members(plain.context.archive) | {
        ".tfprov/ca.crt": b"c" * 700,
        ".tfprov/pip.conf": b"[global]\n",
    }


def test_only_proxy_variables_are_taken_in_upper_and_lower_case() -> None:
    environ = {"HTTP_PROXY": "a", "https_proxy": "b", "no_proxy": "", "PATH": "/bin", "MY_HTTP_PROXY": "c"}
    assert proxies(environ) == {"HTTP_PROXY": "a", "https_proxy": "b"}
    names = ["HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY"]
    both = dict.fromkeys([*names, *map(str.lower, names)], "p")
    assert proxies(both) == both
    assert proxies({}) == {}


def test_a_context_knows_whether_its_dockerfile_needs_buildkit(tmp_path: Path) -> None:
    files = {"Dockerfile": "FROM scratch\n", "other/new": "FROM scratch\nCOPY --chmod=600 a /\n", "a": "x"}
    directory = write(tmp_path / "context", files)
    assert not pack_context(directory, AT).needs_buildkit
    assert pack_context(directory, AT, "other/new").needs_buildkit


def test_a_dockerfile_behind_a_link_may_be_left_out(tmp_path: Path) -> None:
    directory = write(tmp_path / "context", {"a": "FROM scratch\nARG TARGETARCH\n", ".dockerignore": "b\n"})
    (directory / "b").symlink_to("a")
    (directory / "Dockerfile").symlink_to("b")
    assert pack_context(directory, AT, "a").needs_buildkit
    assert not pack_context(directory, AT).needs_buildkit
