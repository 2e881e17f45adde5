"""A directory on a remote file system, through fsspec: list, read, write and remove, with errors in one line."""

from __future__ import annotations

import importlib
import json
import os
import re
import socket
import threading
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from tfprov.filesystems.urls import SCHEMES, Scheme, scheme_of

CHUNK = 4 << 20
"""Bytes of a file held in memory, besides the client's own buffer of a part."""
_PART = 8 << 20
_MAX_PARTS = 9000
"""S3 takes 10,000 parts of an object."""
_CONNECT_TIMEOUT = 10
"""Seconds until a server that cannot be reached counts as lost."""
TIME_LIMIT = 60.0
"""Seconds until a server that does not answer counts as lost: the default of the clients of S3 and of Hadoop's
`dfs.client.socket-timeout`."""
_MAX_REASON = 300
_QUERY = re.compile(r"(?<=://)([^\s?\"]*)\?[^\s\"]*")
_ENVIRONMENT = threading.Lock()
_HADOOP = ("HADOOP_USER_NAME", "HADOOP_CONF_DIR", "HADOOP_HOME", "KRB5CCNAME")


class RemoteError(Exception):
    """A remote file system refused something or cannot be reached; `fix` is empty where only waiting helps."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


class ClientMissing(RemoteError):
    """The package with the client of a scheme is not installed."""

    def __init__(self, scheme: Scheme) -> None:
        super().__init__(f"{scheme.name}:// needs the Python package {scheme.package}, which is not installed")
        self.scheme = scheme


class RemoteDir:
    """The directory `path` of an fsspec file system; `url` names it in messages. Paths are relative to it."""

    def __init__(self, url: str, fs: Any, path: str, reach: Callable[[], None] = lambda: None) -> None:
        """`reach` is called before each request; it raises OSError for a server that cannot be reached."""
        self.url, self.fs, self.path, self._reach = url.rstrip("/"), fs, path.rstrip("/"), reach

    def files(self, below: str = "") -> dict[str, int]:
        """Return the sizes of all files below a directory, by path; nothing for a directory that does not exist."""
        top = f"{self.path}/{below}".rstrip("/")
        with self._errors("cannot be listed"):
            try:
                listed = self.fs.find(top, detail=True)
            except FileNotFoundError:
                return {}
        files = ((self._relative(str(path)), entry) for path, entry in listed.items())
        return {name: int(entry["size"]) for name, entry in files if name and entry["type"] == "file"}

    def _relative(self, path: str) -> str:
        start = f"{self.path.strip('/')}/"
        bare = path.partition("://")[2] if "://" in path else path
        bare = bare.lstrip("/")
        return bare[len(start) :] if bare.startswith(start) else ""

    def read(self, name: str, limit: int) -> bytes:
        """Return a small file. Raises RemoteError, also for one of more than `limit` bytes."""
        data = b""
        for piece in self.chunks(name):
            data += piece
            if len(data) > limit:
                raise RemoteError(f"{self.url}/{name} is larger than {limit} bytes")
        return data

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file."""
        with self._errors(f"{name} cannot be read"), self._open(name, "rb") as file:
            while piece := file.read(CHUNK):
                yield bytes(piece)

    def write(self, name: str, chunks: Iterable[bytes], size: int = 0) -> None:
        """Replace a file of about `size` bytes. One that fails to arrive whole must be taken for damaged.

        Raises RemoteError, and what `chunks` raises.
        """
        with self._errors(f"{name} cannot be written"):
            file = self._open(name, "wb", max(_PART, size // _MAX_PARTS + 1))
            try:
                for piece in _from_source(chunks):
                    file.write(piece)
                file.close()
            except BaseException:
                _discard(file)
                raise

    def _open(self, name: str, mode: str, part: int = _PART) -> BinaryIO:
        # For HDFS the block size is a property of the file, which the cluster decides.
        options = {} if scheme_of(self.url) == "hdfs" else {"block_size": part}
        file: BinaryIO = self.fs.open(f"{self.path}/{name}", mode, **options)
        return file

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that are gone already do not matter."""
        for name in names:
            with self._errors(f"{name} cannot be removed"), suppress(FileNotFoundError):
                self.fs.rm_file(f"{self.path}/{name}")

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Turn every error of a client into RemoteError: each has its own tree, and some raise plain exceptions."""
        try:
            self._reach()
            yield
        except (RemoteError, FileExistsError):
            raise
        except _SourceError as error:
            raise error.reason from None
        except Exception as error:
            raise RemoteError(f"{self.url}: {what}: {describe_error(error)}", _fix(error)) from error


class _SourceError(Exception):
    """Carries what the source of an upload raised past the errors of the file system."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(reason)
        self.reason = reason


def _from_source(chunks: Iterable[bytes]) -> Iterator[bytes]:
    try:
        yield from chunks
    except Exception as error:
        raise _SourceError(error) from error


def _discard(file: Any) -> None:
    """Abort an upload instead of finishing it, as `close` would do."""
    with suppress(Exception):
        if hasattr(file, "discard"):
            file.discard()
        file.closed = True


def describe_error(error: BaseException) -> str:
    """Return an error in one line of bounded length."""
    if isinstance(error, PermissionError):
        return f"permission denied ({_one_line(error)})"
    if _is_timeout(error):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return "its name has no address"
    return _one_line(error) or type(error).__name__


def _is_timeout(error: BaseException) -> bool:
    """Whether nothing came in time: sockets and asyncio have errors of their own for it before Python 3.11."""
    import asyncio  # noqa: PLC0415  after an error alone

    return isinstance(error, (TimeoutError, socket.timeout, asyncio.TimeoutError))


def _one_line(error: BaseException) -> str:
    text = str(error).partition("\n\tat ")[0]  # the NameNode's errors bring their stack
    text = "".join(char if char.isprintable() else " " for char in text)
    text = _QUERY.sub(r"\1", text)  # of a request, which may be signed
    return " ".join(text.split())[:_MAX_REASON]


def _fix(error: BaseException) -> str:
    text = f"{type(error).__name__} {error}".lower()
    if "nosuchbucket" in text or "bucket does not exist" in text:
        return "create the bucket"
    if any(word in text for word in ("credential", "forbidden", "accessdenied", "signature", "permission", "403")):
        return "check the credentials in `env`, and the rights that they give"
    return ""


OpenRemote = typing.Callable[[str, typing.Mapping[str, str]], RemoteDir]
"""Opens a remote directory from its URL and an environment, as `open_remote` does."""


def open_remote(url: str, env: Mapping[str, str], limit: float = TIME_LIMIT) -> RemoteDir:
    """Return the remote directory at `url`, with the credentials and the endpoint in `env`. Contacts no server.

    Requests to S3 and HDFS fail when nothing has come for `limit` seconds; gcsfs has limits of its own. Raises
    ClientMissing without the client's package, and RemoteError for credentials that the client does not take.
    """
    scheme = SCHEMES[scheme_of(url) or ""]
    try:
        client = importlib.import_module(scheme.module)
    except ImportError as error:
        if error.name is None or not error.name.startswith((scheme.module, "fsspec")):
            raise RemoteError(f"{scheme.package} cannot be imported: {describe_error(error)}") from None
        raise ClientMissing(scheme) from None
    return open_through(client, url, env, limit)


def open_through(client: Any, url: str, env: Mapping[str, str], limit: float = TIME_LIMIT) -> RemoteDir:
    """Return the remote directory at `url` through a client's module. See `open_remote`."""
    name, parts = scheme_of(url), urlsplit(url)
    if name == "hdfs":
        fs = _hdfs(client, parts.netloc, env, limit)
        return RemoteDir(url, fs, parts.path, lambda: _reach(parts.hostname, parts.port))
    try:
        fs = _s3(env, limit) if name == "s3" else _gs(client, env)
    except Exception as error:
        what = f"{url}: the credentials cannot be used: {_unusable(error)}"
        raise RemoteError(what, "look at the credentials in `env`") from None
    return RemoteDir(url, fs, f"{parts.netloc}{parts.path}")


def _unusable(error: Exception) -> str:
    """Return why a client does not take credentials, never with its own text: that may quote them."""
    if isinstance(error, FileNotFoundError):
        return "a file that they name is not here"
    if isinstance(error, OSError) and error.strerror:
        return f"a file that they name cannot be read: {error.strerror}"
    return "they are not JSON" if isinstance(error, json.JSONDecodeError) else type(error).__name__


def _s3(env: Mapping[str, str], limit: float) -> Any:
    from tfprov.filesystems.s3 import connect  # noqa: PLC0415  needs the client

    return connect(env, limit)


def _hdfs(client: Any, netloc: str, env: Mapping[str, str], limit: float) -> Any:
    from tfprov.filesystems.hdfs import HdfsFiles  # noqa: PLC0415  needs fsspec, which comes with the clients

    def connect() -> Any:
        with _hadoop_environment(env):
            return client.AsyncClient(f"hdfs://{netloc}")

    options = client.WriteOptions()
    options.overwrite = True
    return HdfsFiles(connect, options, limit)


@contextmanager
def _hadoop_environment(env: Mapping[str, str]) -> Iterator[None]:
    """The client takes user and configuration from the environment of the process, and only while it is made."""
    with _ENVIRONMENT:
        before = dict(os.environ)
        os.environ.update({name: env[name] for name in _HADOOP if name in env})
        try:
            yield
        finally:
            for name in _HADOOP:
                os.environ.pop(name, None)
            os.environ.update({name: before[name] for name in _HADOOP if name in before})


def _reach(host: str | None, port: int | None) -> None:
    """Connect to the NameNode of a URL with a port: the client tries for minutes to reach one that is down.

    A name without a port may be a name service, which only the client's configuration explains.
    """
    if host is not None and port is not None:
        socket.create_connection((host, port), _CONNECT_TIMEOUT).close()


def _gs(client: Any, env: Mapping[str, str]) -> Any:
    """`GOOGLE_CREDENTIALS` is the content of a key, `GOOGLE_APPLICATION_CREDENTIALS` the path of one."""
    key = env.get("GOOGLE_CREDENTIALS")
    token: Any = json.loads(key) if key else env.get("GOOGLE_APPLICATION_CREDENTIALS")
    endpoint = env.get("STORAGE_EMULATOR_HOST")
    if endpoint and token is None:
        token = "anon"  # noqa: S105  an emulator asks for none
    return client.GCSFileSystem(
        project=env.get("GOOGLE_CLOUD_PROJECT"),
        token=token,
        endpoint_url=endpoint,
        use_listings_cache=False,
        skip_instance_cache=True,
    )
