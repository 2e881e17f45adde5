"""The Docker engine of a host, over the host's SSH connection or a unix socket: questions, and the docker SDK.

Over SSH, every HTTP connection is a channel to its socket, or one that runs `docker system dial-stdio` on the host.
Idle channels are reused, and closed when another user of the connection needs a session.
"""

import re
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfprov.hosts import bounds
from tfprov.hosts.base import Changes
from tfprov.hosts.docker.engine_api.answers import error_message, parse_answer
from tfprov.hosts.docker.engine_api.archive import ArchiveAnswer
from tfprov.hosts.docker.engine_api.dial import EngineStream, EngineTimeouts, connect_unix
from tfprov.hosts.docker.engine_api.events import EngineChanges, events_path
from tfprov.hosts.docker.engine_api.host_dial import DOCKER, HostDial
from tfprov.hosts.docker.engine_api.paths import archive_path, program_path
from tfprov.hosts.docker.engine_api.pipeline import Answer, Pipeline
from tfprov.hosts.docker.engine_api.program import Poster, Program
from tfprov.hosts.docker.engine_errors import MIN_API, NOT_FOUND, Refused, engine_errors, too_old_error, version_numbers
from tfprov.hosts.ssh.connection import MAX_SESSIONS
from tfprov.hosts.ssh.host import SSHHost

if TYPE_CHECKING:
    import docker

    from tfprov.hosts.docker.engine_api.adapter import Adapter

_LOCAL_FOLLOWERS = 1000
"""Concurrent followed logs on this machine's own engine: far more than a host has tasks."""
LOCAL = Path("/var/run/docker.sock")


class Engine:
    """The engine of `host`, connected on first use: `ask` for questions, `start_program`, `api` for everything else.

    Use `api` inside `with engine.errors():`. `followers` limits the requests that may occupy a connection for as long as a
    training; others poll, holding `poll_lock` during each request.
    """

    def __init__(
        self,
        host: str,
        dial: Callable[[], Any],
        user: Callable[[], str] = str,
        timeouts: EngineTimeouts | None = None,
        followers: int = _LOCAL_FOLLOWERS,
    ) -> None:
        self.host = host
        self._dial, self._user, self._timeouts = dial, user, timeouts or EngineTimeouts()
        self.followers, self.poll_lock = threading.Semaphore(followers), threading.Lock()
        self._lock = threading.Lock()
        self._pipeline = Pipeline(host, dial, self._timeouts)
        self._version = ""
        self._adapter: Adapter | None = None
        self._api: docker.APIClient | None = None

    @classmethod
    def over(cls, ssh: SSHHost, command: Sequence[str] = DOCKER, timeout: float = bounds.ACTION_TIMEOUT) -> "Engine":
        """Return the engine that `command` finds on the host; with sudo if the target has `become`."""
        engine = cls(
            ssh.host,
            HostDial(ssh, command),
            lambda: ssh.user,
            EngineTimeouts(timeout),
            followers=MAX_SESSIONS // 2,
        )
        ssh.on_shortage(engine.close_idle)
        return engine

    @classmethod
    def local(cls, host: str, path: Path = LOCAL, timeout: float = bounds.ACTION_TIMEOUT) -> "Engine":
        """Return the engine at a unix socket of this machine; `timeout` limits its silence, in seconds."""
        timeouts = EngineTimeouts(timeout)
        return cls.from_dial(host, lambda: connect_unix(path, timeouts.query), timeouts)

    @classmethod
    def from_dial(cls, host: str, dial: Callable[[], Any], timeouts: EngineTimeouts) -> "Engine":
        """Return the engine to which each socket of `dial` is connected."""
        return cls(host, dial, timeouts=timeouts)

    def ask(self, *paths: str, newest: str = "") -> list[Any]:
        """Return the checked answers to GET requests for `paths`, sent at once. Raises HostError.

        `newest` is the last version of the API in which the engine is to answer, for what later ones leave out.
        """
        with self.errors():
            return [self._value(answer) for answer in self._ask(paths, newest)]

    def ask_each(self, *paths: str) -> list[Any]:
        """Return the answers like `ask`, without those for what is not there, such as a container removed meanwhile."""
        with self.errors():
            return [self._value(answer) for answer in self._ask(paths) if answer.status != NOT_FOUND]

    def _ask(self, paths: Sequence[str], newest: str = "") -> list[Answer]:
        """Return the answers by the engine's own version of the API, like the SDK's.

        An engine of unknown version is asked for it at the same time, and takes paths without one for its own. Later
        engines may not: they are asked again.
        """
        if self._version:
            is_later = newest and version_numbers(newest) < version_numbers(self._version)
            return self._pipeline.ask([f"/v{newest if is_later else self._version}{path}" for path in paths])
        if newest:
            self._set_version(self._value(self._pipeline.ask(["/version"])[0]))
            return self._ask(paths, newest)
        version, *answers = self._pipeline.ask(["/version", *paths])
        self._set_version(self._value(version))
        return self._ask(paths) if any(answer.status in (400, NOT_FOUND) for answer in answers) else answers

    def _set_version(self, facts: Any) -> None:
        version = str(facts.get("ApiVersion"))
        if not re.fullmatch(r"\d+\.\d+", version) or version_numbers(version) < version_numbers(MIN_API):
            raise too_old_error(self.host, version)
        self._version = version

    def _value(self, answer: Answer) -> Any:
        self._check(answer)
        return parse_answer("GET", answer.path, answer.body)

    def _check(self, answer: Answer) -> None:
        if answer.status >= 400:
            raise Refused(self.host, answer.status, error_message(answer.body), self._user())

    def archive(self, container: str, path: str) -> ArchiveAnswer:
        """Request a file or directory of a container as an archive. Raises Refused and HostError."""
        with self.errors():
            if not self._version:
                self.ask()
            asked = f"/v{self._version}{archive_path(container, path)}"
            answer = ArchiveAnswer(self.host, self._connect, asked, self._timeouts, self._pipeline.keep)
            if answer.error is not None:
                answer.close()
                self._check(answer.error)
            return answer

    def start_program(self, container: str, argv: Sequence[str], **options: Any) -> Program:
        """Start a program in a running container; `options` are further ones of the Engine API, such as `Tty`.

        Raises Refused if there is no such program or container, and HostError.
        """
        options = {"AttachStdout": True, "AttachStderr": True, "Cmd": list(argv), **options}
        with self.errors():
            if not self._version:
                self.ask()
            poster = Poster(self.host, self._connect, self._timeouts)
            return Program(poster, f"/v{self._version}", container, options, self._check)

    def resize_program(self, program: str, rows: int, columns: int) -> None:
        """Change the size of a program's terminal. Raises Refused while it starts, and HostError."""
        with self.errors():
            poster = Poster(self.host, self._connect, self._timeouts)
            try:
                self._check(poster.post(f"/v{self._version}{program_path(program, 'resize')}?h={rows}&w={columns}"))
            finally:
                poster.sock.close()

    def changes(self, *labels: str) -> Changes:
        """Begin to report changes of the containers with all `labels`. Raises HostError."""
        with self.errors():
            if not self._version:
                self.ask()
            path = f"/v{self._version}{events_path(labels)}"
            return EngineChanges(self.host, self._dial(), path, self._timeouts)

    @property
    def api(self) -> "docker.APIClient":
        """Return the SDK's client, which speaks the engine's own version of the API. Raises HostError."""
        with self._lock, self.errors():
            if self._api is None:
                # Imported here: the SDK takes 0.1 s, and questions need none of it.
                from tfprov.hosts.docker.engine_api.adapter import Adapter  # noqa: PLC0415
                from tfprov.hosts.docker.engine_api.client import Client  # noqa: PLC0415

                adapter = self._adapter = self._adapter or Adapter(self._connect, self._timeouts.action)
                if not self._version:
                    first = Client(adapter, MIN_API, self._timeouts, self.host)
                    self._set_version(first.version(api_version=False))
                self._api = Client(adapter, self._version, self._timeouts, self.host)
            return self._api

    def _connect(self) -> Any:
        """Return a connection: the idle one of earlier questions, or a new one."""
        kept = self._pipeline.take()
        if isinstance(kept, EngineStream) and kept.is_open:
            return kept
        if kept is not None:
            kept.close()
        return self._dial()

    def errors(self) -> AbstractContextManager[None]:
        """Return the context for using `api` and its streams: it turns their errors into HostError."""
        return engine_errors(self.host, self._user())

    def close_attached(self, attached: Any) -> None:
        """Close the result of `api.attach_socket` or `exec_start(socket=True)`: its own close() keeps the connection."""
        connection = getattr(attached, "sock", None) or getattr(attached, "_sock", None)
        attached.close()
        if connection is not None:
            connection.close()

    def close_idle(self) -> None:
        """Close the connections that no request uses."""
        self._pipeline.close()
        if self._adapter is not None:
            self._adapter.close_idle()

    def close(self) -> None:
        """Close all channels or sockets; the SSH connection stays open."""
        self._pipeline.close()
        if self._adapter is not None:
            self._adapter.close()
