"""Builds with BuildKit, by the same request as with the classic builder, and without a session.

Dockerfiles with cache mounts, heredocs or `COPY --chmod` need BuildKit. A session, as `docker build` opens one, would carry
secrets, an SSH agent and logins. Without it BuildKit fails at an image of a registry that asks for a token, as most do: the
engine then pulls the image itself, with the logins of this machine, and BuildKit uses what the engine has.
"""

import base64
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tfprov.errors import HostError, one_line, printable
from tfprov.formats.protobuf import fields
from tfprov.hosts.docker.engine_api.answers import MalformedAnswer
from tfprov.hosts.docker.engine_errors import explain
from tfprov.images.engine_images import explain_pull_error

_COMMENT = re.compile(r"^[ \t]*#.*\n?", re.MULTILINE)
_CONTINUED = re.compile(r"\\[ \t]*\n")
_FEATURE = re.compile(
    r"""[ \t]*(?:ONBUILD[ \t]+)?(?:
        RUN[ \t]+(?:--\S+[ \t]+)*--(?:mount|network|security|device)=
        |(?:COPY|ADD)[ \t]+(?:--\S+[ \t]+)*--(?:chmod|link|parents|exclude|checksum|keep-git-dir|unpack)\b
        |(?:RUN|COPY|ADD)[ \t](?:.*[ \t])?[0-9]*<<-?["']?[A-Za-z_]
        |ARG[ \t]+(?:BUILD|TARGET)(?:PLATFORM|OS|ARCH|VARIANT|STAGE)\b
        |FROM[ \t]+--platform=\S*\$
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""An instruction that the classic builder refuses, or takes for something else: see Docker's reference of Dockerfiles."""

# Fields of StatusResponse, Vertex and VertexLog in moby/buildkit/api/services/control/control.proto.
_VERTEX, _LOG = 1, 3
_DIGEST, _NAME, _STARTED, _ERROR = 1, 3, 5, 7
_LOG_VERTEX, _LOG_TEXT = 1, 4

_MOST_STEPS, _LONGEST_LINE = 10_000, 64 * 1024
"""What is kept of an engine's messages: a Dockerfile has hundreds of steps at most, and a progress bar is one line."""
IN_DOCKERFILE = "the Dockerfile"
"""Where the name of a base image is corrected."""
_INTERNAL = "[internal] "
_LOOKED_UP = re.compile(
    r"(?:\[internal\] load metadata for|resolve image config for) (?:docker-image://)?(?P<name>\S+)"
)
"""A step for an image of `FROM`, or for the one that `# syntax=` names."""
_STEP = re.compile(r"\[(?:stage-0 )?(?P<number>[^]]*)\] (?P<instruction>.*)", re.DOTALL)
_EXIT_CODE = re.compile(r"exit code: (?P<code>[0-9]+)\s*\Z")
_WRAPPED = re.compile(r"(?:failed to solve(?: with frontend \S+)?|failed to create LLB definition): ")
_MISSING = re.compile(r'"(?P<path>/[^"]*)":? not found|lstat \S*/buildkit-mount[0-9]+(?P<older>/\S+): no such file')
_NO_SESSION = re.compile(r"no active sessions?\b")
_NO_CONTEXT = re.compile(r'Get "http://build-context-')
"""An engine that stores images in containerd looks the name of the context up in DNS: seen with 26.1, and not with 28.5."""
_CONTEXT_FIX = "update its Docker to 28 or newer, or build the image with `docker build` and name it in `image`"
_SESSION_FIX = (
    "tfprov passes on no secrets and no SSH agent: build it with `docker build`, and name it in `image`, or save it and "
    "set `image: {archive: …}`"
)


def needs_buildkit(dockerfile: str) -> bool:
    """Whether the classic builder cannot build it.

    Without need BuildKit is not used: an engine with a store of its own exports all of what it builds.
    """
    lines = _CONTINUED.sub(" ", _COMMENT.sub("", dockerfile)).splitlines()
    return any(_FEATURE.match(line) for line in lines)


@dataclass
class _Vertex:
    """A step of BuildKit's graph, with its last lines of output."""

    output: deque[str]
    name: str = ""
    is_reported: bool = False
    error: str = ""
    rest: str = ""


class BuildKitProgress:
    """The progress messages of a build; `say` is called with each step when it begins: `[2/5] RUN …`.

    `clean` makes a line of output printable, and the last `most` lines of a failed step are in its error.
    """

    def __init__(self, host: str, say: Callable[[str], None], clean: Callable[[str], str], most: int) -> None:
        self.image: str | None = None
        self.failure: HostError | None = None
        self.wanted: str | None = None
        """The image that BuildKit could not look up in its registry for want of a session."""
        self._host, self._say, self._clean, self._most = host, say, clean, most
        self._vertices: dict[bytes, _Vertex] = {}

    def take(self, line: Mapping[str, Any]) -> None:
        """Process the next message."""
        extra = line.get("aux")
        if isinstance(extra, str):
            try:
                self._trace(base64.b64decode(extra, validate=True))
            except MalformedAnswer:
                raise
            except ValueError:
                raise MalformedAnswer("a message that is not one of BuildKit") from None
        elif extra:
            self.image = extra.get("ID") or self.image
        if "error" in line:
            self.failure = self._failure(str(line["error"]))

    def _trace(self, message: bytes) -> None:
        for key, _, content in fields(message):
            if key >> 3 == _VERTEX:
                self._vertex(_read(content))
            elif key >> 3 == _LOG:
                self._log(_read(content))

    def _vertex(self, values: Mapping[int, bytes]) -> None:
        vertex = self._find(values.get(_DIGEST, b""))
        vertex.name = _text(values.get(_NAME)) or vertex.name
        vertex.error = _text(values.get(_ERROR)) or vertex.error
        is_step = vertex.name.startswith("[") and not vertex.name.startswith(_INTERNAL)
        if _STARTED in values and is_step and not vertex.is_reported:
            vertex.is_reported = True
            self._say(printable(one_line(vertex.name)))

    def _log(self, values: Mapping[int, bytes]) -> None:
        vertex = self._find(values.get(_LOG_VERTEX, b""))
        *whole, rest = (vertex.rest + _text(values.get(_LOG_TEXT))).split("\n")
        vertex.rest = rest[-_LONGEST_LINE:]
        vertex.output.extend(filter(None, map(self._clean, whole)))

    def _find(self, digest: bytes) -> _Vertex:
        if digest not in self._vertices and len(self._vertices) >= _MOST_STEPS:
            raise MalformedAnswer(f"a build of more than {_MOST_STEPS:,} steps")
        return self._vertices.setdefault(digest, _Vertex(deque(maxlen=self._most)))

    def _failure(self, error: str) -> HostError:
        failed = next((it for it in self._vertices.values() if it.error and "context canceled" not in it.error), None)
        step = _STEP.match(failed.name) if failed and not failed.name.startswith(_INTERNAL) else None
        text, image = _WRAPPED.sub("", error), _LOOKED_UP.match(failed.name) if failed else None
        if _NO_SESSION.search(text):
            self.wanted = image["name"] if image else None
            how, fix = "it needs a secret, an SSH agent or a login", _SESSION_FIX
        elif _NO_CONTEXT.search(text):
            how, fix = "BuildKit there cannot read a build context", _CONTEXT_FIX
        elif code := _EXIT_CODE.search(text):
            how, fix = f"exit code {code['code']}", "correct the Dockerfile"
        elif image:
            how, fix = explain_pull_error(image["name"], text, IN_DOCKERFILE)
        elif missing := _MISSING.search(text):
            how, fix = (
                f"{printable(missing['path'] or missing['older'])} is not in the build context",
                "add it, or correct .dockerignore",
            )
        else:
            how, fix = explain(text)
        lines = [*failed.output, *filter(None, [self._clean(failed.rest)])] if failed else []
        at = (step["number"], step["instruction"]) if step else None
        return build_error(self._host, at, (how, fix), lines[-self._most :])


def build_error(host: str, step: tuple[str, str] | None, cause: tuple[str, str], output: Iterable[str]) -> HostError:
    """Return the error of a build that failed at a step, by its number and instruction, or before the first of them.

    `cause` is what failed and the fix; `output` are the last lines of the step.
    """
    at = f"step {step[0]}, `{printable(one_line(step[1]))}`: " if step else ""
    what = "; ".join(filter(None, (f"the image cannot be built: {at}{cause[0]}", cause[1])))
    return HostError(host, what + "".join(f"\n  build | {line}" for line in output))


def _read(message: bytes) -> dict[int, bytes]:
    """Return the content of a message's fields by number: of several with one number, the last."""
    return {key >> 3: content for key, _, content in fields(message)}


def _text(content: bytes | None) -> str:
    return (content or b"").decode("utf-8", errors="replace")
