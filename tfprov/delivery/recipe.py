"""What an image is built from, and the key by which two builds are told to be the same. No effects."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfprov.delivery.context import BuildContext

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")


@dataclass(frozen=True)
class Recipe:
    """What an image is built from: a context and build arguments.

    `ca_bundle` (certificates in PEM) and `pip_conf` are in the context as `.tfprov/ca.crt` and `.tfprov/pip.conf`;
    `proxies` are arguments that every build may use, and that engines leave out of the image.
    """

    context: BuildContext
    args: Mapping[str, str]
    ca_bundle: bytes | None = None
    pip_conf: bytes | None = None
    proxies: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The sha256, in hex, of what decides the image's content: equal keys need no second build."""
        return hashlib.sha256(_encoded([self.context.digest, self.context.dockerfile, dict(self.args)])).hexdigest()


def proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the proxy settings of an environment, in capitals and in small letters, as build arguments."""
    names = [name for pair in zip(_PROXIES, map(str.lower, _PROXIES), strict=True) for name in pair]
    return {name: environ[name] for name in names if environ.get(name)}


def _encoded(parts: Any) -> bytes:
    return json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()
