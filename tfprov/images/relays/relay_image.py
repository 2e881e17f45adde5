"""Makes the image of the relay from the image to deliver: its Python alone, with the relay's program.

Hosts that have no image yet can run nothing else, and they need it before they get layers from each other: 7 MB. Every
library that Python and its modules are linked with comes along, as the image has them.
"""

import gzip
import hashlib
import io
import json
import posixpath
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tfprov.errors import DeliveryError
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import DOCKER_CONFIG, Descriptor, OciImage, digest_of, encode, layer_type, write_manifest
from tfprov.images.relays.elf import read_dynamic
from tfprov.images.relays.image_files import ImageFiles
from tfprov.paths import PACKAGE

REPOSITORY = "tfprov-relay"
DIRECTORY = "/relay"
"""Where the relay's configuration is put, and its layers lie."""
USER = 65534
"""The user `nobody` on every Linux."""

_PROGRAM = "images/relays/program"
_LIBRARIES = "libs"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_VERSION = re.compile(r"python(3\.[0-9]+)\Z")
_READS_PROGRAM = r"3\.(?:[89]|[1-9][0-9])"
"""Versions of Python from 3.8 on."""
_PACKAGES = "collections|encodings|importlib|json|re"
_MODULES = (
    "_bisect|_blake2|_contextvars|_datetime|_hashlib|_heapq|_json|_md5|_opcode|_posixsubprocess|_random|_sha[0-9a-z]*"
    "|_socket|_ssl|_statistics|_struct|_typing|array|binascii|errno|fcntl|math|select|time|unicodedata|zlib"
)
"""Modules in C that the relay may import; `encodings.idna`, with which names are looked up, needs unicodedata."""
_LIBRARY_DIRECTORY = re.compile(r"(?:usr/)?(?:local/)?lib(?:64|32)?(?:/[a-z0-9_]+-linux-[a-z0-9]+)?/[^/]+\.so[.0-9]*\Z")


@dataclass(frozen=True)
class _Python:
    """A Python that can run the relay: `files` by path, among them the interpreter at `path`, which has no links."""

    path: str
    files: Mapping[str, bytes]


def relay_image(layout: Layout, image: OciImage) -> OciImage:
    """Return the relay's image for hosts of the platform of `image`, made of its lowest layers that have Python.

    It is kept in the layout. Raises DeliveryError when `image` has no Python that runs alone.
    """
    names = [f"{REPOSITORY}:{_key(image.layers[:number])}" for number in range(1, len(image.layers) + 1)]
    with layout.in_use(), ImageFiles(layout) as files:
        for name in names:
            if stored := layout.find(name):
                return stored
        directories = _search_path(layout, image)
        for name, layer in zip(names, image.layers, strict=True):
            files.add(layer)
            if python := _find_python(files, directories):
                return _store(layout, image, python, name)
    raise DeliveryError("the image has no Python 3 with `ssl`")


def _key(layers: Sequence[Descriptor]) -> str:
    parts = [*(layer.digest for layer in layers), *(digest_of(data) for data in _program().values())]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:32]


@cache
def _program() -> Mapping[str, bytes]:
    """Return the modules of the relay below DIRECTORY: without the packages above it, which import others."""
    paths = sorted((PACKAGE / _PROGRAM).glob("*.py"))
    return {f"{DIRECTORY[1:]}/tfprov/{_PROGRAM}/{path.name}": path.read_bytes() for path in paths}


def _search_path(layout: Layout, image: OciImage) -> list[str]:
    settings = json.loads(layout.blobs.read(image.config)).get("config") or {}
    path = next((it.partition("=")[2] for it in settings.get("Env") or () if it.startswith("PATH=")), "")
    return [*filter(None, path.split(":")), *_PATH.split(":")]


def _find_python(files: ImageFiles, directories: Sequence[str]) -> _Python | None:
    """Return the first Python of PATH that has all that the relay imports; None when there is none so far."""
    for directory in directories:
        path = files.resolve(f"{directory}/python3")
        if path and (modules := _modules(files, path)):
            linked = _linked(files, [path, *(name for name in modules if ".so" in name)])
            if linked is not None:
                return _Python(path, files.read_all([path, *modules]) | linked)
    return None


def _modules(files: ImageFiles, path: str) -> list[str]:
    """Return the modules of the standard library; none when it is incomplete, as in `python3-minimal`, or too old.

    The interpreter's file may be called `python3` only, in an image that has one version.
    """
    prefix = posixpath.dirname(posixpath.dirname(path))
    named = _VERSION.search(path)
    if named and not re.fullmatch(_READS_PROGRAM, named[1]):
        return []
    version = re.escape(named[1]) if named else _READS_PROGRAM
    library = rf"{re.escape(prefix)}{'/' if prefix else ''}lib(?:64)?/python{version}"
    pure = rf"(?:(?:{_PACKAGES})/)?[a-z_0-9A-Z]+\.pyc?"
    compiled = rf"lib-dynload/(?:{_MODULES})\.[^/]*so"
    nested = r"(?:collections|importlib)/[a-z_]+/[a-z_0-9]+\.pyc?"
    modules = [*files.matching(re.compile(rf"{library}/(?:{pure}|{compiled}|{nested})\Z"))]
    needed = (r".*/os\.pyc?", r".*/ssl\.pyc?", r".*/json/__init__\.pyc?", r".*/lib-dynload/_ssl\..*")
    return modules if all(any(re.fullmatch(it, name) for name in modules) for it in needed) else []


def _linked(files: ImageFiles, paths: Sequence[str]) -> dict[str, bytes] | None:
    """Return the loader and the libraries that `paths` are linked with, in one directory; None when one is missing."""
    libraries = {posixpath.basename(path): path for path in files.matching(_LIBRARY_DIRECTORY)}
    result: dict[str, bytes] = {}
    unseen = files.read_all(paths)
    while unseen:
        chosen: dict[str, str] = {}
        for path, data in unseen.items():
            dynamic = read_dynamic(data)
            if dynamic is None:
                return None
            if dynamic.loader:
                loader = files.resolve(dynamic.loader)
                if loader is None:
                    return None
                chosen[dynamic.loader.strip("/")] = loader
            for name in dynamic.needed:
                if f"{_LIBRARIES}/{name}" in result or f"{_LIBRARIES}/{name}" in chosen:
                    continue
                places = [it.replace("$ORIGIN", posixpath.dirname(path)) for it in dynamic.directories]
                candidates = [*(f"{place}/{name}" for place in places), libraries.get(name, "")]
                library = next(filter(None, map(files.resolve, filter(None, candidates))), None)
                if library is None:
                    return None
                chosen[f"{_LIBRARIES}/{name}"] = library
        contents = files.read_all(chosen.values())
        result |= {name: contents[path] for name, path in chosen.items()}
        unseen = {path: contents[path] for name, path in chosen.items() if name.startswith(f"{_LIBRARIES}/")}
    return result


def _store(layout: Layout, image: OciImage, python: _Python, name: str) -> OciImage:
    layer = _layer({**python.files, **_program()})
    compressed = layout.blobs.write(gzip.compress(layer, compresslevel=1, mtime=0), layer_type("gzip"))
    os, _, architecture = image.platform.partition("/")
    program = (
        f"import sys; sys.path.insert(0, {DIRECTORY!r}); from tfprov.{_PROGRAM.replace('/', '.')}.main import main"
    )
    settings = {
        "Entrypoint": [f"/{python.path}", "-I", "-S", "-B", "-c", f"{program}; main({DIRECTORY!r})"],
        "Env": [f"LD_LIBRARY_PATH=/{_LIBRARIES}", "PATH=/"],
        "User": f"{USER}:{USER}",
    }
    root = {"type": "layers", "diff_ids": [digest_of(layer)]}
    document = {"architecture": architecture, "os": os, "config": settings, "history": [], "rootfs": root}
    manifest, written = write_manifest(layout.blobs.write(encode(document), DOCKER_CONFIG), (compressed,))
    layout.blobs.write(written, manifest.media_type)
    made = layout.image(manifest)
    layout.name(name, made)
    return made


def _layer(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for directory in _directories(files):
            info = tarfile.TarInfo(directory)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            if f"/{directory}" == DIRECTORY:
                info.uid = info.gid = USER
            archive.addfile(info)
        for path, data in sorted(files.items()):
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), 0o755
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _directories(files: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the directories of `files`, each after those that contain it."""
    directories = {path[:at] for path in files for at, letter in enumerate(path) if letter == "/"}
    yield from sorted(directories)
