"""Code and runtime in a ConfigMap: what the image lacks comes with the manifests, up to what Kubernetes takes."""

import base64
import gzip
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tfprov.delivery.code import Code
from tfprov.delivery.layer import DIRECTORY, RUNTIME_DIRECTORY
from tfprov.delivery.runtime import runtime

MOST = 900_000
"""Bytes of all archives together: a ConfigMap holds 1 MiB."""
MOUNTED = "/tfprov-archives"
"""Where the ConfigMap is in the container that unpacks it."""

_UNPACK = (
    "import sys, tarfile\n"
    "for name, directory in zip(sys.argv[1::2], sys.argv[2::2]): tarfile.open(name).extractall(directory)"
)


@dataclass(frozen=True)
class Bundle:
    """The archives of a cluster; `files` are their bytes by name, in base64, and `key` changes with any of them."""

    key: str
    files: Mapping[str, str]

    def unpack(self, code: Code | None) -> list[str]:
        """Return the command that unpacks the runtime, and `code`."""
        archives = [f"{MOUNTED}/{_name(runtime())}", RUNTIME_DIRECTORY]
        archives += [f"{MOUNTED}/{_name(code)}", DIRECTORY] if code else []
        return ["python3", "-c", _UNPACK, *archives]


def bundle(codes: Iterable[Code]) -> Bundle:
    """Return the runtime and `codes`, packed."""
    found = {_name(code): _packed(code) for code in (runtime(), *codes)}
    key = "-".join(sorted(name.removesuffix(".tar.gz")[:8] for name in found))
    return Bundle(_short(key), found)


def size(codes: Iterable[Code]) -> int:
    """Return how many bytes the ConfigMap would hold, before base64."""
    return sum(len(_packed(code)) * 3 // 4 for code in {code.digest: code for code in (runtime(), *codes)}.values())


def _name(code: Code) -> str:
    return f"{code.digest.removeprefix('sha256:')[:16]}.tar.gz"


def _packed(code: Code) -> str:
    return base64.b64encode(gzip.compress(code.archive, mtime=0)).decode()


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
