"""Which Dockerfiles need BuildKit, and what its messages say."""

import base64
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tfprov.errors import HostError
from tfprov.hosts.docker.engine_api.answers import MalformedAnswer
from tfprov.hosts.docker.engine_errors import engine_errors
from tfprov.images.build import BuildContext, Recipe, build
from tfprov.images.buildkit import BuildKitProgress, needs_buildkit


@pytest.mark.parametrize(
    "line",
    [
        "RUN --mount=type=cache,target=/root/.cache/pip pip install x",
        "run --network=none --mount=type=bind,target=/src true",
        "RUN --security=insecure true",
        "ONBUILD RUN --mount=type=cache,target=/x true",
        "COPY --chmod=755 a /a",
        "COPY --from=one --link /a /a",
        "ADD --checksum=sha256:1 https://example.org/x /x",
        "COPY --exclude=*.md . /src",
        "RUN <<EOF\npip install x\nEOF",
        "RUN cat <<-'end' >/x\nend",
        "COPY <<a.txt <<b.txt /x/\na.txt\nb.txt",
        "ARG TARGETARCH",
        "ARG BUILDPLATFORM=linux/amd64",
        "FROM --platform=$BUILDPLATFORM python:3.11",
        "RUN \\\n    # why\n    --mount=type=cache,target=/x \\\n    true",
    ],
)
def test_a_dockerfile_that_needs_buildkit(line: str) -> None:
    assert needs_buildkit(f"FROM x\n{line}\nCOPY a /a\n")


@pytest.mark.parametrize(
    "line",
    [
        "# RUN --mount=type=cache,target=/x true",
        "# syntax=docker/dockerfile:1",
        "RUN pip install --mount=x y",
        "RUN echo COPY --chmod=755 a /a",
        "RUN echo $((1<<2)) && cat <<<word",
        "COPY --from=one --chown=1:1 /a /a",
        "ARG TARGET",
        "FROM --platform=linux/amd64 python:3.11",
        "LABEL x='RUN --mount=type=cache'",
        "",
    ],
)
def test_a_dockerfile_for_the_classic_builder(line: str) -> None:
    assert not needs_buildkit(f"FROM x\n{line}\nCOPY a /a\n")


def number(value: int) -> bytes:
    """Encode a varint."""
    return bytes([value & 127 | (128 if value > 127 else 0)]) + (number(value >> 7) if value > 127 else b"")


def message(*values: tuple[int, bytes | str]) -> bytes:
    """Encode a message of texts and messages."""
    contents = [(at, value.encode() if isinstance(value, str) else value) for at, value in values]
    return b"".join(number(at << 3 | 2) + number(len(content)) + content for at, content in contents)


def trace(*parts: tuple[int, bytes]) -> dict[str, Any]:
    return {"id": "moby.buildkit.trace", "aux": base64.b64encode(message(*parts)).decode()}


def vertex(digest: str, name: str, *more: tuple[int, str]) -> tuple[int, bytes]:
    return 1, message((1, digest), (2, "sha256:input"), (3, name), *more)


def log(digest: str, text: str | bytes) -> tuple[int, bytes]:
    return 3, message((1, digest), (2, ""), (4, text))


STARTED = (5, "")
METADATA = "[internal] load metadata for docker.io/library/python:3.11"


def progress(*lines: Mapping[str, Any], most: int = 20) -> tuple[BuildKitProgress, list[str]]:
    steps: list[str] = []
    made = BuildKitProgress("h1", steps.append, str.rstrip, most)
    for line in lines:
        made.take(line)
    return made, steps


def failure(*lines: Mapping[str, Any], most: int = 20) -> str:
    made, _ = progress(*lines, most=most)
    assert made.failure is not None
    return str(made.failure)


def test_each_step_is_reported_once_when_it_begins() -> None:
    made, steps = progress(
        trace(vertex("1", "[internal] load remote build context", STARTED), vertex("2", "copy /context /", STARTED)),
        trace(vertex("3", "[stage-0 1/2] FROM x"), vertex("4", "[stage-0 2/2] RUN true")),
        trace(vertex("3", "[stage-0 1/2] FROM x", STARTED)),
        trace(vertex("3", "[stage-0 1/2] FROM x", STARTED, (6, "")), vertex("4", "[stage-0 2/2] RUN true", STARTED)),
        {"id": "moby.image.id", "aux": {"ID": "sha256:7"}},
        {"stream": "Successfully tagged x\n"},
        {"aux": None},
    )
    assert steps == ["[stage-0 1/2] FROM x", "[stage-0 2/2] RUN true"]
    assert (made.image, made.failure, made.wanted) == ("sha256:7", None, None)


@pytest.mark.parametrize(
    "error", ["executor failed running [/bin/sh -c x]: exit code: 3", 'process "x" did not complete: exit code: 3\n']
)
def test_a_failed_step_is_named_with_the_end_of_its_output(error: str) -> None:
    assert failure(
        trace(vertex("1", "[stage-0 1/2] FROM x", STARTED), vertex("2", "[one 2/2] RUN x", STARTED)),
        trace(log("1", "another's\n"), log("2", "a\nb"), log("2", "b\n\nc\n"), log("2", b"unended \xff")),
        trace(vertex("1", "[stage-0 1/2] FROM x", STARTED, (7, "context canceled"))),
        trace(vertex("2", "[one 2/2] RUN x", STARTED, (7, error))),
        {"error": f"failed to solve: {error}"},
        most=3,
    ) == (
        "h1: the image cannot be built: step one 2/2, `RUN x`: exit code 3; correct the Dockerfile"
        "\n  build | bb\n  build | c\n  build | unended \N{REPLACEMENT CHARACTER}"
    )


@pytest.mark.parametrize(
    "text",
    [
        'failed to compute cache key: failed to calculate checksum of ref 1::2: "/z": not found',
        'failed to compute cache key: "/z" not found: not found',
        "failed to walk /data/tmp/buildkit-mount23/z: lstat /data/tmp/buildkit-mount23/z: no such file or directory",
    ],
)
def test_a_failed_step_of_the_only_stage_has_its_number_alone(text: str) -> None:
    failed = vertex("1", "[stage-0 2/3] COPY z /", STARTED, (7, "failed"))
    assert failure(trace(failed), {"error": text}) == (
        "h1: the image cannot be built: step 2/3, `COPY z /`: /z is not in the build context; add it, or correct "
        ".dockerignore"
    )


def test_a_fault_of_the_dockerfile_has_no_step() -> None:
    wrapped = (
        "failed to solve with frontend dockerfile.v0: failed to create LLB definition: dockerfile parse error line 2: x"
    )
    assert failure({"error": wrapped}) == "h1: the image cannot be built: dockerfile parse error line 2: x"
    assert "no space left on its disk" in failure({"error": "write /x: no space left on device"})


def test_an_image_that_needs_a_login_is_named() -> None:
    error = "docker.io/library/python:3.11: failed to resolve source metadata for it: no active sessions"
    made, _ = progress(trace(vertex("1", METADATA, STARTED, (7, error))), {"error": error})
    assert made.wanted == "docker.io/library/python:3.11"
    frontend = vertex("1", "resolve image config for docker-image://docker.io/docker/dockerfile:1", (7, "x"))
    made, _ = progress(trace(frontend), {"error": "no active session"})
    assert made.wanted == "docker.io/docker/dockerfile:1"
    secret = vertex("1", "[stage-0 2/2] RUN --mount=type=secret,id=x true", STARTED, (7, "no active sessions"))
    made, _ = progress(trace(secret), {"error": "no active sessions"})
    assert made.wanted is None
    assert (
        "step 2/2, `RUN --mount=type=secret,id=x true`: it needs a secret, an SSH agent or a login; tfprov passes "
        in str(made.failure)
    )


def test_an_image_that_cannot_be_looked_up_has_the_fix_of_a_pull() -> None:
    refused = vertex("1", METADATA, STARTED, (7, "dial tcp: lookup registry-1.docker.io: no such host"))
    assert failure(
        trace(refused), {"error": "failed to solve: dial tcp: lookup registry-1.docker.io: no such host"}
    ).endswith("its engine does not reach the registry docker.io; check the host's network, its DNS and its proxy")
    assert failure(trace(refused), {"error": "failed to solve: manifest unknown"}).endswith(
        "the registry has no image docker.io/library/python:3.11; correct the Dockerfile"
    )


def test_an_engine_that_cannot_read_the_context_is_too_old() -> None:
    text = 'failed to read downloaded context: Get "http://build-context-3j3": dial tcp: lookup build-context-3j3: no'
    assert "BuildKit there cannot read a build context; update its Docker to 28 or newer, or" in failure(
        {"error": text}
    )


def test_the_words_of_a_failed_command_are_not_taken_for_the_cause() -> None:
    text = 'process "/bin/sh -c echo \'"/z": not found\'" did not complete successfully: exit code: 1'
    assert failure({"error": text}) == "h1: the image cannot be built: exit code 1; correct the Dockerfile"


def test_what_is_kept_of_a_build_is_bounded() -> None:
    steps = [vertex(str(number), "x") for number in range(10_001)]
    assert progress(trace(*steps[1:]))
    with pytest.raises(MalformedAnswer, match="a build of more than 10,000 steps"):
        progress(trace(*steps))
    failed = trace(log("1", "x" * 70_000), vertex("1", "[1/1] RUN x", STARTED, (7, "failed")))
    assert failure(failed, {"error": "failed"}).count("x") == 65_536 + len("x")


def test_a_step_that_has_not_begun_is_not_reported() -> None:
    assert progress(trace(vertex("1", "[1/2] FROM x"), vertex("2", "[2/2] RUN true")))[1] == []


@pytest.mark.parametrize("extra", ["not base64!", "!", base64.b64encode(b"\x0a\xff").decode(), "\u00e4"])
def test_a_message_that_is_not_one_of_buildkit_is_malformed(extra: str) -> None:
    with pytest.raises(MalformedAnswer, match="a message that is not one of BuildKit"):
        progress({"aux": extra})


class Builder:
    """A fake engine with BuildKit, to which the images in `unknown` are unknown until they are pulled."""

    def __init__(self, *unknown: str, refuses: bool = False) -> None:
        self.unknown, self.refuses = list(unknown), refuses
        self.requests: list[tuple[bytes, dict[str, str]]] = []
        self.pulled: list[str] = []
        api = SimpleNamespace(build_with_buildkit=self.build, pull=self.pull)
        self.engine: Any = SimpleNamespace(host="h1", api=api, errors=lambda: engine_errors("h1"))

    def build(self, context: Any, params: dict[str, str], timeout: float) -> list[dict[str, Any]]:
        assert timeout
        self.requests.append((b"".join(context), params))
        if self.unknown:
            failed = vertex("1", f"[internal] load metadata for {self.unknown[0]}", STARTED, (7, "no active sessions"))
            return [trace(failed), {"error": f"{self.unknown[0]}: no active sessions"}]
        return [{"aux": {"ID": "sha256:7"}}]

    def pull(self, name: str, **_options: Any) -> list[dict[str, str]]:
        self.pulled.append(name)
        if self.refuses:
            return [{"error": "manifest unknown"}] if "none" in name else []
        self.unknown.remove(name)
        return []


def recipe() -> Recipe:
    context = BuildContext("x", "sha256:1", b"context", "Dockerfile", needs_buildkit=True)
    return Recipe(context, {"A": "b"}, proxies={"HTTP_PROXY": "p"})


def test_images_that_need_a_login_are_pulled_before_the_build_goes_on() -> None:
    builder, steps = Builder("docker.io/library/a:1", "docker.io/library/b:1"), list[str]()
    assert build(builder.engine, recipe(), "key", steps.append) == "sha256:7"
    assert builder.pulled == ["docker.io/library/a:1", "docker.io/library/b:1"]
    assert steps == [f"pulling {name}" for name in builder.pulled]
    contents = {content for content, _ in builder.requests}
    assert len(builder.requests) == 3
    assert contents == {recipe().context.archive}
    assert builder.requests[0][1] == {
        "dockerfile": "Dockerfile",
        "buildargs": '{"HTTP_PROXY": "p", "A": "b"}',
        "labels": '{"tfprov.image": "key"}',
    }


def test_an_image_that_stays_unknown_is_pulled_once() -> None:
    builder = Builder("docker.io/library/a:1", refuses=True)
    with pytest.raises(HostError, match="needs a secret, an SSH agent or a login"):
        build(builder.engine, recipe(), "key", lambda _: None)
    assert builder.pulled == ["docker.io/library/a:1"]
    with pytest.raises(HostError, match=r"h1: the registry has no image none:1; correct the Dockerfile$"):
        build(Builder("none:1", refuses=True).engine, recipe(), "key", lambda _: None)
