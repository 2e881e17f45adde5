"""The relay's image: Python and its libraries out of the layers of an image, and what is refused."""

import gzip
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.support.delivery_images import config, link, tar
from tests.support.growth import check_growth
from tfprov.errors import DeliveryError
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import DOCKER_CONFIG, DOCKER_LAYER, OciImage, digest_of, write_manifest
from tfprov.images.relays.elf import Dynamic, read_dynamic
from tfprov.images.relays.image_files import ImageFiles
from tfprov.images.relays.relay_image import relay_image
from tfprov.images.relays.relays import make_certificate

PYTHON = Path(sys.executable).resolve()
STDLIB = Path(sysconfig.get_path("stdlib")).resolve()


def image_of(layout: Layout, layers: Sequence[bytes], path: str = "/usr/bin", kind: str = DOCKER_LAYER) -> OciImage:
    blobs = tuple(layout.blobs.write(layer, kind) for layer in layers)
    document = config(layers, Env=[f"PATH={path}"])
    manifest, written = write_manifest(layout.blobs.write(document, DOCKER_CONFIG), blobs)
    layout.blobs.write(written, manifest.media_type)
    return layout.image(manifest)


def libraries(*programs: Path) -> Mapping[str, bytes]:
    """Return all libraries that programs are linked with, as the system finds them."""
    printed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    paths = {Path(path) for path in re.findall(r"(/\S+) \(0x", printed)}
    return {str(path)[1:]: path.read_bytes() for path in paths}


def standard_library() -> Mapping[str, bytes]:
    paths = [path for pattern in ("*.py", "*/*.py", "*/*/*.py", "lib-dynload/*") for path in STDLIB.glob(pattern)]
    skipped = {"test", "site-packages", "idlelib", "lib2to3", "ensurepip"}
    kept = [path for path in paths if path.is_file() and not skipped & set(path.parts)]
    return {str(path)[1:]: path.read_bytes() for path in kept}


def test_its_python_runs_with_what_comes_along_and_nothing_else(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images")
    interpreter: dict[str, bytes | tarfile.TarInfo] = {
        str(PYTHON)[1:]: PYTHON.read_bytes(), "opt/venv/bin/python3": link("python"),
        "opt/venv/bin/python": link(str(PYTHON)),
    }  # fmt: skip
    modules: dict[str, bytes | tarfile.TarInfo] = {
        # As Debian has them, in another layer, and to a file that is gone.
        **standard_library(), f"{str(STDLIB)[1:]}/sitecustomize.py": link("/etc/python3/sitecustomize.py"),
        f"{str(STDLIB)[1:]}/usercustomize.py": link("/etc/python3/gone.py"),
    }  # fmt: skip
    interpreter["etc/python3/sitecustomize.py"] = b"# of the distribution\n"
    linked_with = libraries(PYTHON, *(STDLIB / "lib-dynload").glob("*.so"))
    layers = [tar({**interpreter, **linked_with}), tar(modules), tar({"data": os.urandom(1000)})]
    image = image_of(layout, layers, "/opt/venv/bin:/usr/bin")
    layout.blobs.path(image.layers[2].digest).write_bytes(b"damaged")  # layers above Python are not read
    made = relay_image(layout, image)
    assert relay_image(layout, image) == made, "it is kept"
    assert made.platform == image.platform
    settings = json.loads(layout.blobs.read(made.config))["config"]
    root = tmp_path / "root"
    layer = gzip.decompress(layout.blobs.path(made.layers[0].digest).read_bytes())
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        # Interpreters and their libraries have 10 to 25 MB: nothing but these, and what the relay may import of the rest.
        entries = {entry.name: entry.size for entry in archive if entry.isfile()}
        imported = [size for name, size in entries.items() if name.startswith(str(STDLIB)[1:])]
        assert sum(imported) < sum(len(data) for data in modules.values() if isinstance(data, bytes)) / 2
        linked = {Path(name).name for name in entries if name.startswith("libs/")}
        assert linked <= {Path(name).name for name in linked_with}
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has neither
        archive.extractall(root)
        assert archive.getmember("relay").uid == 65534
    assert (root / str(STDLIB)[1:] / "sitecustomize.py").read_bytes() == b"# of the distribution\n"
    assert not (root / str(STDLIB)[1:] / "usercustomize.py").exists()
    dynamic = read_dynamic(PYTHON.read_bytes())
    assert dynamic is not None
    assert settings["Entrypoint"][0] == str(PYTHON)
    # As a container would run it, with the loader from the image.
    command = [f"{root}{dynamic.loader}", "--library-path", str(root / "libs"), f"{root}{settings['Entrypoint'][0]}"]
    program = settings["Entrypoint"][5].replace("'/relay'", repr(str(root / "relay")), 1).partition("; main(")[0]
    check = f"{program}; import ssl; print(sys.prefix, ssl.__file__, main.__module__)"
    done = subprocess.run([*command, *settings["Entrypoint"][1:5], check], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    prefix, module, name = done.stdout.split()
    assert module.startswith(f"{root}{STDLIB}"), "not this machine's"
    assert prefix.startswith(str(root))
    assert name == "tfprov.images.relays.program.main"


def test_an_image_without_python_or_with_a_part_of_it_is_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images")
    incomplete: Sequence[Mapping[str, bytes | tarfile.TarInfo]] = (
        {"bin/sh": b"a shell"},
        {"usr/bin/python3.11": PYTHON.read_bytes(), "usr/bin/python3": link("python3.11")},
        {"usr/bin/python3": link("python3")},
        {"usr/bin/python3": b"#!/bin/sh", "usr/lib/python3.9/os.py": b""},
    )
    for number, files in enumerate(incomplete):
        entries: dict[str, bytes | tarfile.TarInfo] = {**files, "number": str(number).encode()}
        with pytest.raises(DeliveryError, match=r"^the image has no Python 3 with `ssl`$"):
            relay_image(layout, image_of(layout, [tar(entries)]))


def test_a_python_that_cannot_read_the_program_is_passed_over(tmp_path: Path) -> None:
    program = Path(
        shutil.which("true") or "/bin/true"
    )  # of a thousandth of the size; what a layer's file does is not asked
    contents, linked_with = program.read_bytes(), libraries(program)
    layout = Layout(tmp_path / "images")
    for version in ("3.6", "3.7", "3.8"):
        files: dict[str, bytes | tarfile.TarInfo] = {
            **linked_with, f"usr/bin/python{version}": contents, "usr/bin/python3": link(f"python{version}"),
            **{f"usr/lib/python{version}/{name}": b"" for name in ("os.py", "ssl.py", "json/__init__.py")},
            f"usr/lib/python{version}/lib-dynload/_ssl.so": contents,
        }  # fmt: skip
        image = image_of(layout, [tar(files)])
        if version == "3.8":
            assert relay_image(layout, image).size > 0
        else:
            with pytest.raises(DeliveryError, match=r"^the image has no Python 3 with `ssl`$"):
                relay_image(layout, image)


def test_layers_that_cannot_be_read_are_one_error(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images")
    with pytest.raises(DeliveryError, match=rf"^layer {digest_of(b'no tar')} cannot be read: .+"):
        relay_image(layout, image_of(layout, [b"no tar"]))
    with pytest.raises(DeliveryError, match=rf"^layer {digest_of(b'zstd')} is compressed with zstd$"):
        relay_image(layout, image_of(layout, [b"zstd"], kind=f"{DOCKER_LAYER}.zstd"))


def test_a_compressed_layer_with_damaged_data_is_one_error(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images")
    layer = gzip.compress(tar({"model": bytes(300_000), "next": b"x"}), compresslevel=0)
    image = image_of(layout, [layer], kind=f"{DOCKER_LAYER}.gzip")
    third = len(layer) // 3
    damaged = layer[:third] + b"\xff" * third + layer[2 * third :]
    layout.blobs.path(image.layers[0].digest).write_bytes(damaged)
    with pytest.raises(DeliveryError, match=r"^layer sha256:\w+ cannot be read: .+"), ImageFiles(layout) as files:
        files.add(image.layers[0])


def test_forty_links_are_followed_and_no_more(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images")
    chain: dict[str, bytes | tarfile.TarInfo] = {f"l{number}": link(f"l{number + 1}") for number in range(41)}
    image = image_of(layout, [tar({**chain, "l41": b"end", "hard": link("gone", tarfile.LNKTYPE)})])
    with ImageFiles(layout) as files:
        files.add(image.layers[0])
        assert (files.resolve("/l1"), files.resolve("/l0")) == ("l41", None)
        with pytest.raises(DeliveryError, match=r"^/hard in the image cannot be read: .+"):
            files.read("hard")


def test_a_certificate_is_valid_on_hosts_with_a_wrong_clock_and_signs_no_other() -> None:
    pem = make_certificate()
    key, certificate = (
        load_pem_private_key(pem, None),
        x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERT") :]),
    )
    assert certificate.public_key() == key.public_key()
    assert (certificate.subject, certificate.issuer) == (x509.Name.from_rfc4514_string("CN=tfprov relay"),) * 2
    valid = (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    assert valid == (datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
    [constraints] = certificate.extensions
    assert (constraints.critical, constraints.value) == (True, x509.BasicConstraints(ca=True, path_length=0))


def test_files_are_those_that_a_container_sees(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images")
    lower = tar(
        {
            "./lib": link("usr/lib"), "usr/lib/a.so": b"old", "usr/lib/gone": b"", "opt/x/one": b"", "opt/x/two": b"",
            "loop": link("loop"), "up": link("../../usr/lib/a.so"), "dir/.wh.nothing": b"",
        }
    )  # fmt: skip
    upper = tar({"usr/lib/a.so": b"new", "usr/lib/.wh.gone": b"", "opt/x/.wh..wh..opq": b"", "opt/x/three": b"3"})
    image = image_of(layout, [lower, gzip.compress(upper)], kind=f"{DOCKER_LAYER}.gzip")
    with ImageFiles(layout) as files:
        for layer in image.layers:
            files.add(layer)
        assert files.resolve("/lib/a.so") == files.resolve("/up") == files.resolve("lib/../lib/a.so") == "usr/lib/a.so"
        assert files.read("usr/lib/a.so") == b"new"
        assert [files.resolve(path) for path in ("/usr/lib/gone", "/opt/x/one", "/loop", "/usr", "/x/y")] == [None] * 5
        assert files.resolve("/opt/x/three") == "opt/x/three"
        assert set(files.matching(re.compile("opt/"))) == {"opt/x/three", "opt/x/.wh..wh..opq"}


def test_files_are_read_as_they_follow_one_another_in_a_layer(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images")
    names = [f"usr/lib/{number}" for number in range(20)]
    content: dict[str, bytes | tarfile.TarInfo] = {name: name.encode() for name in names}
    image = image_of(layout, [gzip.compress(tar(content))], kind=f"{DOCKER_LAYER}.gzip")
    with ImageFiles(layout) as files:
        files.add(image.layers[0])
        assert list(files.read_all(reversed(names)).items()) == list(content.items())


def test_a_layer_that_removes_many_files_takes_one_pass(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images")
    lower = tar({**{f"usr/lib/{number}/a.py": b"" for number in range(5_000)}, "usr/lib/10": b"", "usr/lib/1.py": b""})
    upper = tar({f"usr/lib/.wh.{number}": b"" for number in range(1, 2_000)})
    image = image_of(layout, [lower, upper])
    with ImageFiles(layout) as files:
        # A pass for each takes ten times as long as to read the lower layer, which stands for any work of that size.
        check_growth(lambda: files.add(image.layers[0]), lambda: files.add(image.layers[1]), below=3)
        paths = ("usr/lib/0/a.py", "usr/lib/1/a.py", "usr/lib/10", "usr/lib/1.py", "usr/lib/2000/a.py")
        assert [bool(files.resolve(path)) for path in paths] == [True, False, False, True, True]


def test_what_a_program_needs_is_read_from_its_dynamic_section() -> None:
    dynamic = read_dynamic(PYTHON.read_bytes())
    assert dynamic is not None
    printed = subprocess.run(["ldd", PYTHON], capture_output=True, text=True, check=True).stdout
    assert all(name in printed for name in (*dynamic.needed, dynamic.loader))
    assert any(name.startswith("libc.") for name in dynamic.needed)


def test_bytes_that_are_no_program_are_none() -> None:
    module = next((STDLIB / "lib-dynload").glob("_json*.so")).read_bytes()
    assert read_dynamic(module) is not None
    assert [read_dynamic(data) for data in (b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\3\3" + bytes(100))] == [None] * 4
    for size in range(0, 4096, 64):
        read_dynamic(module[:size])
    for at in range(600):
        read_dynamic(module[:at] + b"\xff" + module[at + 1 :])


# --- what an ELF file needs --------------------------------------------------------------------------------------------

NEEDED, TABLE, RPATH, RUNPATH = 1, 5, 15, 29
LOAD, DYNAMIC, INTERPRETER = 1, 2, 3
ADDRESS = 0x10000


def elf(order: str, *, wide: bool, entries: Iterable[tuple[int, str]], loader: str = "", table: int = ADDRESS) -> bytes:
    """Return an ELF file whose texts are loaded at ADDRESS, behind another segment; `table` is their address in it."""
    head, width = (64, 56) if wide else (52, 32)
    texts, written = b"-\0", [(TABLE, table)] if table else []
    for tag, text in entries:
        written.append((tag, len(texts)))
        texts += text.encode() + b"\0"
    form = f"{order}{'qQ' if wide else 'lL'}"
    dynamic = b"".join(struct.pack(form, *entry) for entry in [(7, 1 << 20), *written, (0, 0), (NEEDED, 1 << 20)])
    parts = [(LOAD, 0x1000, b"x" * 50), (LOAD, ADDRESS, texts), (DYNAMIC, 0, dynamic)]
    parts += [(INTERPRETER, 0, loader.encode() + b"\0")] if loader else []
    at, segments, content = head + width * len(parts), b"", b""
    for kind, address, data in parts:
        place = at + len(content)
        fields = (
            [kind, 4, place, address, 0, len(data), 0, 0] if wide else [kind, place, address, 0, len(data), 0, 4, 0]
        )
        segments += struct.pack(f"{order}{'LLQQQQQQ' if wide else 'LLLLLLLL'}", *fields)
        content += data
    start = b"\x7fELF" + bytes([1 + wide, 1 if order == "<" else 2])
    start = start.ljust(32 if wide else 28, b"\0") + struct.pack(f"{order}{'Q' if wide else 'L'}", head)
    start = start.ljust(54 if wide else 42, b"\0") + struct.pack(f"{order}HH", width, len(parts)).ljust(10, b"\0")
    return start + segments + content


LIBRARIES = [(NEEDED, "libc.so.6"), (RUNPATH, "$ORIGIN/../lib"), (NEEDED, "libm.so"), (RPATH, "/a:/b:"), (14, "lib.so")]


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("order", ["<", ">"])
def test_what_an_elf_file_of_any_machine_needs(order: str, wide: bool) -> None:
    paths = ("/a", "/b", "$ORIGIN/../lib")
    program = elf(order, wide=wide, entries=LIBRARIES, loader="/lib/ld.so")
    assert read_dynamic(program) == Dynamic(("libc.so.6", "libm.so"), paths, "/lib/ld.so")
    assert read_dynamic(elf(order, wide=wide, entries=LIBRARIES)) == Dynamic(("libc.so.6", "libm.so"), paths, "")
    assert read_dynamic(elf(order, wide=wide, entries=[])) == Dynamic((), (), "")
    assert read_dynamic(elf(order, wide=wide, entries=[], loader="/l", table=0)) == Dynamic((), (), "/l")
    outside = (ADDRESS - 1, ADDRESS + 49, 1 << 30)
    assert [read_dynamic(elf(order, wide=wide, entries=LIBRARIES, table=address)) for address in outside] == [None] * 3
    assert {read_dynamic(program[:cut]) for cut in range(60)} == {None}
    for cut in range(60, len(program)):
        read_dynamic(program[:cut])
    assert read_dynamic(b"#!" + program[2:]) is None
    assert read_dynamic(program[:4] + b"\3" + program[5:]) is None


def library(*needed: str, path: str = "", loader: str = "") -> bytes:
    return elf("<", wide=True, entries=[*((NEEDED, name) for name in needed), (RUNPATH, path)], loader=loader)


NEEDED_FILES: Mapping[str, bytes | tarfile.TarInfo] = {
    "usr/bin/python3.11": library("liba.so.1", loader="/lib64/ld.so"),
    "usr/bin/python3": link("python3.11"),
    "lib64/ld.so": library(),
    "usr/lib/liba.so.1": library("libb.so", path="$ORIGIN/deep"),
    "usr/lib/deep/libb.so": library("liba.so.1"),
    "usr/lib/python3.11/os.py": b"",
    "usr/lib/python3.11/ssl.py": b"",
    "usr/lib/python3.11/json/__init__.py": b"",
    "usr/lib/python3.11/lib-dynload/_ssl.so": library("liba.so.1"),
}
OTHER_FILES: Mapping[str, bytes | tarfile.TarInfo] = {
    "usr/lib/libc.so": b"",
    "usr/lib/python3.11/test/x.py": b"",
    "usr/lib/python3.11/lib-dynload/_other.so": library("libgone.so"),
}


def test_the_relay_has_what_its_python_needs_and_nothing_else(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images")
    image = image_of(layout, [tar({**NEEDED_FILES, **OTHER_FILES})], path="/opt/bin:")  # PATH lacks the directory
    relay = relay_image(layout, image)
    with tarfile.open(fileobj=io.BytesIO(layout.blobs.read(relay.layers[0]))) as archive:
        members = {member.name: (oct(member.mode), member.uid) for member in archive if member.isreg()}
        owned = {
            member.name: (oct(member.mode), member.uid, member.gid) for member in archive if member.name == "relay"
        }
    assert {name: mode for name, mode in members.items() if "relays/program" not in name} == dict.fromkeys(
        [
            "lib64/ld.so", "libs/liba.so.1", "libs/libb.so", "usr/bin/python3.11", "usr/lib/python3.11/json/__init__.py",
            "usr/lib/python3.11/lib-dynload/_ssl.so", "usr/lib/python3.11/os.py", "usr/lib/python3.11/ssl.py",
        ],
        ("0o755", 0),
    )  # fmt: skip
    assert owned == {"relay": ("0o755", 65534, 65534)}
    program = (
        "import sys; sys.path.insert(0, '/relay'); from tfprov.images.relays.program.main import main; main('/relay')"
    )
    assert json.loads(layout.blobs.read(relay.config)) == {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/python3.11", "-I", "-S", "-B", "-c", program],
            "Env": ["LD_LIBRARY_PATH=/libs", "PATH=/"],
            "User": "65534:65534",
        },
        "history": [],
        "rootfs": {"type": "layers", "diff_ids": list(relay.diff_ids)},
    }
    assert [re.fullmatch("tfprov-relay:[0-9a-f]{32}", name) is not None for name in layout.images()] == [True]


@pytest.mark.parametrize("lacking", NEEDED_FILES)
def test_without_one_file_that_its_python_needs_there_is_no_relay(lacking: str, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images")
    files = {name: content for name, content in NEEDED_FILES.items() if name != lacking}
    with pytest.raises(DeliveryError, match=r"^the image has no Python 3 with `ssl`$"):
        relay_image(layout, image_of(layout, [tar(files)]))
