"""URLs of directories on remote file systems: which schemes there are, and what is wrong with a URL.

Standard library only: settings are checked with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Scheme:
    """A scheme that works: the `package` with its client, and the extra of tfprov that installs it."""

    name: str
    package: str
    module: str
    extra: str


SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("s3", "s3fs", "s3fs", "s3"),
        Scheme("hdfs", "hdfs-native", "hdfs_native", "hdfs"),
        Scheme("gs", "gcsfs", "gcsfs", "gs"),
    )
}
"""The schemes that work, by name."""
_SUGGESTIONS = {
    "s3a": "write `s3://`, with the endpoint in AWS_ENDPOINT_URL",
    "s3n": "write `s3://`, with the endpoint in AWS_ENDPOINT_URL",
    "gcs": "write `gs://`",
    "webhdfs": "write `hdfs://` with the port of the NameNode's RPC, such as 8020",
    "viewfs": "write `hdfs://` with the name node that has the directory",
    "file": "write the path alone",
    "nfs": "mount it as a volume: `mounts: [{nfs: {server: …, path: …}, target: …}]`",
}
_DEFAULT_SUGGESTION = "use s3://, hdfs:// or gs://"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_MAX_URL = 1000
PATTERN = r"(?:(?:s3|gs)://[A-Za-z0-9._-]+/|hdfs://[A-Za-z0-9._-]*(?::[0-9]{1,5})?/)(?![\s\S]*[?#\\])[\s\S]*[^/]"
"""Matches every URL that `url_problem` accepts, for editors."""


def scheme_of(value: str) -> str | None:
    """Return the scheme of a URL in lower case; None for a path."""
    scheme, separator, _ = value.partition("://")
    return scheme.lower() if separator and _NAME.fullmatch(scheme) else None


def url_problem(url: str) -> tuple[str, str] | None:
    """Return what is wrong with the URL of a remote directory, and the fix; None for a good one."""
    name = scheme_of(url) or ""
    if name not in SCHEMES:
        return f"{name}:// cannot hold it", _SUGGESTIONS.get(name, _DEFAULT_SUGGESTION)
    if "@" in url.partition("//")[2].partition("/")[0]:
        return "a URL must not hold a user or a password", "set them as secret variables in `env`"
    if not url.isprintable() or " " in url or "\\" in url or len(url) > _MAX_URL:
        return "a URL must be printable, without blanks", "choose another directory"
    if "?" in url or "#" in url:
        return "a URL must not have `?` or `#`", "set options as variables in `env`, such as AWS_ENDPOINT_URL"
    return _place_problem(name, url)


def without_user(url: str) -> str:
    """Return the URL for a message: without a user and a password, which do not belong into one."""
    name, separator, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return f"{name}{separator}{place.rpartition('@')[2]}{slash}{path}"


def _place_problem(name: str, url: str) -> tuple[str, str] | None:
    example = f"for example {name}://{'namenode:8020' if name == 'hdfs' else 'bucket'}/run"
    try:
        parts = urlsplit(url)
        has_port = parts.port is not None
        has_host = name == "hdfs" or (bool(parts.hostname) and not has_port)
    except ValueError:  # a port beyond 65535
        return "a URL must have a valid port", example
    if not has_host or not url.startswith(f"{name}://"):
        return f"a URL needs {'a bucket' if name != 'hdfs' else 'a name node'}", example
    steps = [step for step in parts.path.split("/") if step]
    if not steps:
        return "a URL needs a directory", example
    if any(step in (".", "..") for step in steps) or "//" in parts.path:
        return "a URL must not contain `.`, `..` or empty names", "write the whole path"
    return None
