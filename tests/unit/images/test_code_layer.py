"""The layers of code and runtime: the same image everywhere, and nothing but their files in it."""

import ast
import gzip
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfprov
from tests.support.delivery_images import (
    LAYERS,
    OciArchive,
    code,
    contents,
    entry,
    layer_files,
    link,
    load_image,
    settings,
    tar,
)
from tfprov.errors import DeliveryError, Position
from tfprov.images.archive import load
from tfprov.images.code import Code, pack
from tfprov.images.code_layer import (
    LABEL,
    RUNTIME_LABEL,
    append,
    append_runtime,
    code_archive,
    compose,
    runtime,
)
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import (
    DOCKER_LAYER,
    DOCKER_MANIFEST,
    OCI_CONFIG,
    OCI_LAYER,
    OCI_MANIFEST,
    OciImage,
    digest_of,
    encode,
    write_manifest,
)

SOURCE = Path(tfprov.__file__).parent
PROGRAM = code(main=b"print(1)", lib__model=b"W = 2")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "images")


def packed(directory: Path) -> Code:
    return pack(directory, Position("test"))


def test_the_image_id_is_the_same_on_every_machine_and_in_every_release(layout: Layout) -> None:
    # Figures of this project's own: a change here makes every user's tasks restart on the next `up`.
    image = append(layout, load_image(layout), PROGRAM, "top")
    assert image.id == "sha256:2c458f72c3f125980dba0cabaca388b6ce6dc2278a655c98190f4e6b4c9d2dc2"
    assert image.layers[-1].digest == "sha256:0aef031f11e6bf1f20989cb8f4527169cd7a248bc4b4a825e80bd65a1c30f5e9"


def test_code_is_in_its_directory_owned_by_root_without_a_time(layout: Layout) -> None:
    files = layer_files(layout, append(layout, load_image(layout), PROGRAM, "top"))
    assert list(files) == ["code", "code/lib", "code/lib/model", "code/main"]
    assert {(it.uid, it.gid, it.uname, it.gname, it.mtime) for it in files.values()} == {(0, 0, "", "", 0)}
    assert [stat.filemode(it.mode) for it in files.values()] == ["?rwxr-xr-x", "?rwxr-xr-x", "?rw-r--r--", "?rw-r--r--"]


def test_modes_and_links_are_as_packed(layout: Layout, tmp_path: Path) -> None:
    program = tmp_path / "program"
    (program / "bin").mkdir(parents=True)
    (program / "bin" / "run").write_text("#!/bin/sh")
    (program / "bin" / "run").chmod(0o700)
    (program / "main.py").write_text("1")
    (program / "start").symlink_to("bin/run")
    files = layer_files(layout, append(layout, load_image(layout), packed(program), "top"))
    assert (files["code/bin/run"].mode, files["code/main.py"].mode) == (0o755, 0o644)
    assert (files["code/start"].issym(), files["code/start"].linkname) == (True, "bin/run")


def test_the_image_has_the_code_as_working_directory_and_its_digest_as_label(layout: Layout) -> None:
    base = load_image(layout, Labels={"mine": "kept"}, User="1000", WorkingDir="/somewhere")
    image = append(layout, base, PROGRAM, "top")
    config = settings(layout, image)
    assert config["config"]["WorkingDir"] == "/code"
    assert (config["config"]["User"], config["config"]["Env"]) == ("1000", ["PATH=/bin"])
    assert image.labels == {"mine": "kept", LABEL: PROGRAM.digest}
    assert config["history"][-1] == {"created": "1970-01-01T00:00:00Z", "created_by": f"tfprov code {PROGRAM.digest}"}
    assert image.diff_ids == (*base.diff_ids, image.layers[-1].digest)
    assert image.layers[:-1] == base.layers
    assert (image.manifest.media_type, image.layers[-1].media_type) == (DOCKER_MANIFEST, DOCKER_LAYER)
    assert layout.find("top") == image
    assert layout.find("base") == base


def test_new_code_replaces_the_old(layout: Layout) -> None:
    base = load_image(layout)
    first = append(layout, base, PROGRAM, "top")
    other = code(main=b"print(2)")
    second = append(layout, first, other, "top")
    assert second == append(layout, base, other, "top")
    assert (len(second.layers), list(layer_files(layout, second))) == (4, ["code", "code/main"])


def test_code_on_an_image_built_upon_one_with_code_goes_on_top(layout: Layout) -> None:
    """An image built `FROM` ours inherits the label; its own top layer stays."""
    base = load_image(layout, Labels={LABEL: PROGRAM.digest})
    assert len(append(layout, base, PROGRAM, "top").layers) == len(LAYERS) + 1


def test_only_the_new_layer_and_two_documents_are_new(layout: Layout) -> None:
    first = append(layout, load_image(layout), PROGRAM, "top")
    before = contents(layout).keys()
    second = append(layout, first, code(main=b"print(2)"), "top")
    new = {f"sha256:{name}" for name in contents(layout).keys() - before}
    assert new == {second.layers[-1].digest, second.config.digest, second.manifest.digest}


def test_empty_code_is_an_empty_directory(layout: Layout) -> None:
    assert list(layer_files(layout, append(layout, load_image(layout), code(), "top"))) == ["code"]


def test_another_directory(layout: Layout) -> None:
    image = append(layout, load_image(layout), code(main=b"1"), "top", "/app")
    assert list(layer_files(layout, image)) == ["app", "app/main"]
    assert settings(layout, image)["config"]["WorkingDir"] == "/app"


@pytest.mark.parametrize("directory", ["code", "/", "/opt/app", "/..", "/a\n", ""])
def test_a_nested_target_directory_is_refused(layout: Layout, directory: str) -> None:
    with pytest.raises(DeliveryError, match=r"code cannot be added at .*; give a directory such as /code"):
        append(layout, load_image(layout), PROGRAM, "top", directory)


@pytest.mark.parametrize("name", [".wh.main.py", "lib/.wh..wh..opq"])
def test_a_whiteout_name_is_refused(layout: Layout, name: str) -> None:
    base = load_image(layout)
    before = contents(layout)
    with pytest.raises(DeliveryError) as raised:
        append(layout, base, Code("programs", "sha256:1", tar({name: b""})), "top")
    fix = "rename it, or leave it out with a .dockerignore file"
    assert str(raised.value) == f"programs: {name}: in an image layer this name removes a file; {fix}"
    assert contents(layout) == before


@pytest.mark.parametrize("name", ["/etc/passwd", "../main.py", "a/../../b"])
def test_code_stays_in_its_directory(layout: Layout, name: str) -> None:
    with pytest.raises(DeliveryError, match=r"^.*: .+ cannot be in an image$"):
        append(layout, load_image(layout), Code("programs", "sha256:1", tar({name: b""})), "top")


def test_hard_links_and_devices_are_refused(layout: Layout) -> None:
    archive = tar({"a": link("b", tarfile.LNKTYPE)})
    with pytest.raises(DeliveryError, match=r"^programs: a cannot be in an image$"):
        append(layout, load_image(layout), Code("programs", "sha256:1", archive), "top")


@pytest.mark.parametrize("suffix", ["+gzip", "+zstd"])
def test_compressed_layers_are_kept_with_their_media_type(layout: Layout, suffix: str) -> None:
    archive = OciArchive()
    data = b"\x28\xb5\x2f\xfd..." if suffix == "+zstd" else gzip.compress(LAYERS[0])
    archive.name(archive.image(LAYERS[:1], suffix, [data]))
    image = append(layout, load(layout, io.BytesIO(archive.tar()), "base"), PROGRAM, "top")
    docker = [f"{DOCKER_LAYER}.gzip", DOCKER_LAYER]
    assert [it.media_type for it in image.layers] == (docker if suffix == "+gzip" else [f"{OCI_LAYER}+zstd", OCI_LAYER])
    assert image.manifest.media_type == (DOCKER_MANIFEST if suffix == "+gzip" else OCI_MANIFEST)
    document = json.loads(layout.blobs.read(image.manifest))
    assert (document["schemaVersion"], document["mediaType"]) == (2, image.manifest.media_type)


def test_a_configuration_without_history_and_settings_gets_them(layout: Layout) -> None:
    bare = {"architecture": "amd64", "os": "linux", "rootfs": {"diff_ids": [digest_of(LAYERS[0])]}}
    document = json.dumps(bare).encode()
    path = f"{digest_of(document).removeprefix('sha256:')}.json"
    manifest = json.dumps([{"Config": path, "RepoTags": [], "Layers": ["a/layer.tar"]}]).encode()
    archive = tar({path: document, "a/layer.tar": LAYERS[0], "manifest.json": manifest})
    image = append(layout, load(layout, io.BytesIO(archive), "base"), PROGRAM, "top")
    assert settings(layout, image)["config"] == {"WorkingDir": "/code", "Labels": {LABEL: PROGRAM.digest}}


NAMES = st.lists(
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=80).filter(
        lambda name: name not in (".", "..") and not name.startswith(".wh.")
    ),
    min_size=1,
    max_size=4,
).map("/".join)


def test_every_file_arrives_unchanged_and_the_result_is_reproducible(tmp_path: Path) -> None:
    layouts = [Layout(tmp_path / name) for name in ("one", "two")]
    bases = [load_image(layout) for layout in layouts]

    @given(st.dictionaries(NAMES, st.binary(max_size=2000), max_size=6))
    def law(files: dict[str, bytes]) -> None:
        archive = tar(files)
        program = Code("programs", digest_of(archive), archive)
        one, two = (append(layout, base, program, "top") for layout, base in zip(layouts, bases, strict=True))
        assert one == two
        with layouts[1].blobs.open(two.layers[-1]) as file, tarfile.open(fileobj=file) as layer:
            arrived = {it.name.removeprefix("code/"): layer.extractfile(it) for it in layer if it.isreg()}
            assert {name: info.read() for name, info in arrived.items() if info} == files

    law()


def test_appending_the_same_code_again_changes_nothing(layout: Layout) -> None:
    base = load_image(layout)
    image = append(layout, base, PROGRAM, "top")
    before = {path: path.stat().st_ino for path in layout.blobs.directory.iterdir()}
    assert append(layout, base, PROGRAM, "top") == image
    assert {path: path.stat().st_ino for path in layout.blobs.directory.iterdir()} == before


# --- the runtime -----------------------------------------------------------------------------------------------------


def modules(name: str) -> Iterator[Path]:
    """Yield the files of a module such as `tfprov.runtime.graph.task`, and of its parent packages."""
    base = SOURCE.parent
    for part in name.split("."):
        base /= part
        yield from (path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file())


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_runtime_has_exactly_the_modules_it_imports() -> None:
    reached, new = set[Path](), {SOURCE / "__init__.py", *(SOURCE / "runtime").rglob("*.py")}
    while new := new - reached:
        reached |= new
        # The package itself imports its public names when they are used, which no task does.
        names = {name for path in new - {SOURCE / "__init__.py"} for name in imports(path) if name.startswith("tfprov")}
        new = {path for name in names for path in modules(name)}
    assert set(names_of(runtime().archive)) == {f"tfprov/{path.relative_to(SOURCE)}" for path in reached}


def names_of(archive: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        return files.getnames()


def test_the_runtime_is_imported_where_nothing_else_is_installed(layout: Layout, tmp_path: Path) -> None:
    image = append_runtime(layout, load_image(layout), "top")
    with layout.blobs.open(image.layers[-1]) as file, tarfile.open(fileobj=file) as layer:
        for member in layer:  # not with a filter, which older Pythons do not have
            path = tmp_path / "root" / member.name
            source = layer.extractfile(member) if member.isreg() else None
            if source:
                path.write_bytes(source.read())
            else:
                path.mkdir(parents=True)
    program = "import tfprov.runtime, sys; print(tfprov.__file__)"
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.append({str(tmp_path / 'root/tfprov')!r}); {program}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(tmp_path / "root/tfprov/tfprov/__init__.py"), done.stderr


PACK = """
import os, sys
os.umask(int(sys.argv[1], 8))
from tfprov.images.code_layer import append_runtime, runtime
from tfprov.images.oci_layout import Layout
from pathlib import Path
from tests.support.delivery_images import load_image
layout = Layout(Path(sys.argv[2]))
print(runtime().digest, append_runtime(layout, load_image(layout), "top").id)
"""


def test_the_runtime_is_the_same_from_every_installation(tmp_path: Path) -> None:
    """Another path, umask, mtime and mode, with or without bytecode, another working directory."""
    digests = set()
    for number, umask in enumerate(("022", "077")):
        root = tmp_path / str(number)
        for package in ("tfprov", "tests/support"):
            shutil.copytree(
                SOURCE.parent / package, root / package, ignore=shutil.ignore_patterns("__pycache__", "cases")
            )
        (root / "tests" / "__init__.py").touch()
        for path in (root / "tfprov").rglob("*.py"):
            path.chmod(0o600 if number else 0o755)
            os.utime(path, (number, number))
        command = [sys.executable, "-B", "-c", PACK, umask, str(root / "images")]
        done = subprocess.run(
            command, cwd=root, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout)
    image = append_runtime(layout := Layout(tmp_path / "here"), load_image(layout), "top")
    assert digests == {f"{runtime().digest} {image.id}\n"}
    with tarfile.open(fileobj=io.BytesIO(runtime().archive)) as files:
        assert {file.mode for file in files} == {0o644}, "any user of an image may read it"


def test_the_runtime_has_its_own_directory_on_pythonpath(layout: Layout) -> None:
    image = append_runtime(layout, load_image(layout), "top")
    files = layer_files(layout, image)
    assert {name.partition("/")[0] for name in files} == {"tfprov"}
    assert {(it.uid, it.gid, it.uname, it.gname, it.mtime) for it in files.values()} == {(0, 0, "", "", 0)}
    assert {it.mode for it in files.values()} == {0o755, 0o644}
    config = settings(layout, image)
    assert config["config"]["Env"] == ["PATH=/bin", "PYTHONPATH=/tfprov"]
    assert config["config"]["WorkingDir"] == ""
    assert image.labels == {RUNTIME_LABEL: runtime().digest}


@pytest.mark.parametrize(
    ("path", "becomes"),
    [("/lib", "/tfprov:/lib"), ("", "/tfprov"), (":/a:", "/tfprov:/a"), ("/a:/tfprov:/b", "/tfprov:/a:/b")],
)
def test_the_pythonpath_of_the_image_is_kept(layout: Layout, path: str, becomes: str) -> None:
    base = load_image(layout, Env=["A=1", "PYTHONPATHS=/x", f"PYTHONPATH={path}", "B=2"])
    image = append_runtime(layout, base, "top")
    assert settings(layout, image)["config"]["Env"] == ["A=1", "PYTHONPATHS=/x", "B=2", f"PYTHONPATH={becomes}"]
    assert append_runtime(layout, image, "again") == image


def older_runtime(layout: Layout, base: OciImage, kept: Code | None) -> OciImage:
    """Return an image of an earlier tfprov: with another runtime, and with `kept` on it."""
    image = append(layout, base, code(tfprov__old=b"1"), "old", "/tfprov")
    config = settings(layout, image)
    digest = config["config"]["Labels"].pop(LABEL)
    config["config"]["Labels"][RUNTIME_LABEL] = digest
    config["config"] |= {"WorkingDir": "", "Env": ["PATH=/bin", "PYTHONPATH=/tfprov"]}
    config["history"][-1]["created_by"] = f"tfprov runtime {digest}"
    manifest, document = write_manifest(layout.blobs.write(encode(config), image.config.media_type), image.layers)
    layout.blobs.write(document, manifest.media_type)
    old = layout.image(manifest)
    return append(layout, old, kept, "old") if kept else old


@pytest.mark.parametrize("kept", [None, PROGRAM], ids=["alone", "under code"])
def test_a_new_runtime_replaces_the_old_and_keeps_the_code(layout: Layout, kept: Code | None) -> None:
    base = load_image(layout)
    renewed = append_runtime(layout, older_runtime(layout, base, kept), "top")
    assert renewed == compose(layout, base, kept, "expected")


@pytest.mark.parametrize("suffix", ["", "+gzip"])
def test_compressed_code_stays_unchanged_on_a_new_runtime(layout: Layout, suffix: str) -> None:
    """An engine may compress the layers that it saves."""
    mine = compose(layout, load_image(layout), PROGRAM, "mine")
    stored = [layout.blobs.read(layer) for layer in mine.layers]
    archive = OciArchive()
    parts = [archive.blob(OCI_LAYER + suffix, gzip.compress(it) if suffix else it) for it in stored]
    config = archive.blob(OCI_CONFIG, layout.blobs.read(mine.config))
    document = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": entry(config),
        "layers": list(map(entry, parts)),
    }
    archive.name(archive.blob(OCI_MANIFEST, encode(document)))
    back = load(layout, io.BytesIO(archive.tar()), "back")
    renewed = append_runtime(layout, back, "top")
    assert renewed.diff_ids == mine.diff_ids
    assert renewed.layers[-1] == back.layers[-1].model_copy(update={"media_type": renewed.layers[-1].media_type})


def test_base_runtime_and_code_in_this_order(layout: Layout) -> None:
    base = load_image(layout)
    image = compose(layout, base, PROGRAM, "whole")
    assert image.layers[:-2] == base.layers
    assert [next(iter(layer_files(layout, image, number))) for number in (-2, -1)] == ["tfprov", "code"]
    assert image.labels == {RUNTIME_LABEL: runtime().digest, LABEL: PROGRAM.digest}
    assert image == append(layout, append_runtime(layout, base, "runtime"), PROGRAM, "code")
    assert compose(layout, image, PROGRAM, "again") == image
    assert compose(layout, image, None, "code stays") == image
    assert layout.find("whole") == image


def test_an_edit_of_the_code_changes_one_layer(layout: Layout) -> None:
    first = compose(layout, load_image(layout), PROGRAM, "one")
    second = compose(layout, first, code(main=b"print(2)"), "two")
    assert (first.layers[:-1], len(first.layers)) == (second.layers[:-1], len(second.layers))
    assert first.layers[-1] != second.layers[-1]


def test_runtime_and_code_as_one_archive_for_an_image_without_either() -> None:
    archive = code_archive(PROGRAM)
    assert archive == code_archive(PROGRAM)
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        members = {it.name: it for it in files}
        assert (members["tfprov"].mode, members["code"].mode) == (0o755, 0o755)
        assert members["code/tfprov"].linkname == "/tfprov/tfprov"
        assert {(it.uid, it.gid, it.mtime) for it in members.values()} == {(0, 0, 0)}
        file = files.extractfile("code/lib/model")
        assert file
        assert file.read() == b"W = 2"
    assert {"tfprov/tfprov/wiring.py", "tfprov/tfprov/runtime/graph/task.py", "code/main"} <= members.keys()


def test_code_with_a_tfprov_of_its_own_keeps_it() -> None:
    archive = code_archive(code(tfprov__mine=b"1"))
    assert [name for name in names_of(archive) if name.startswith("code")] == [
        "code",
        "code/tfprov",
        "code/tfprov/mine",
    ]
