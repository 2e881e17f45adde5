"""The part of tfprov that runs inside a task (`from tfprov import runtime`), packed as code is: by content alone."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import tfprov
from tfprov.delivery.code import Code

MODULES = ("__init__.py", "checkpoint.py", "files.py", "runtime", "wiring.py")
"""`tfprov.runtime` and all that it imports of ours; a test follows the imports."""


@cache
def runtime() -> Code:
    """Return these modules below `tfprov/`: a directory to put on PYTHONPATH.

    The digest is the same on every machine that has this version; no mode or time of an installed file is in it.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in sorted(_files(Path(tfprov.__file__).parent)):
            data = path.read_bytes()
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))
    data = buffer.getvalue()
    return Code("tfprov", f"sha256:{hashlib.sha256(data).hexdigest()}", data)


def _files(package: Path) -> Iterator[tuple[str, Path]]:
    for module in MODULES:
        path = package / module
        for file in path.rglob("*.py") if path.is_dir() else (path,):
            yield f"tfprov/{file.relative_to(package).as_posix()}", file
