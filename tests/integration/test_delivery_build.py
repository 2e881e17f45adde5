"""Images built by a real engine and copied into the controller's layout, and the errors of failed builds."""

import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.support.delivery import OURS as DELIVERED
from tests.support.delivery import clean, machine, push_image
from tests.support.engine import Engine as PrivateEngine
from tests.support.files import write
from tests.support.images import Images
from tests.support.loopback_machine import LoopbackMachine
from tests.support.testhosts import Lab
from tests.support.waiting import until
from tfprov.errors import HostError, Position
from tfprov.hosts.docker.engine import Engine
from tfprov.images.build import LABEL, MAX_ERROR_LINES, Recipe, build, pack_context
from tfprov.images.exports.export import export
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import OciImage

GREETING = {
    "Dockerfile": """
        ARG BASE
        FROM ${BASE} AS first
        COPY Dockerfile .tfprov* /machine/
        RUN ls /machine && echo "$HTTP_PROXY" >/seen
        FROM ${BASE}
        ARG GREETING=nothing
        COPY greeting /
        RUN echo $GREETING >>/greeting && chmod 600 /greeting
        COPY --from=first /seen /
    """,
    "greeting": "hello\n",
    "other": "a" * 100,
}


def ours() -> str:
    """Return the label of what this process builds: tests of this file with hosts run in another process."""
    return f"build-test-{os.getpid()}"


@pytest.fixture
def builder(private_engine: PrivateEngine) -> Iterator[LoopbackMachine]:
    """The machine that builds."""
    made = LoopbackMachine("h1", private_engine)
    yield made
    made.close()
    client = private_engine.client
    for image in client.images.list(all=True, filters={"label": f"{LABEL}={ours()}"}):
        with suppress(docker.errors.APIError):  # it went with another one
            client.images.remove(str(image.id), force=True)


@pytest.fixture
def engine(builder: LoopbackMachine) -> Engine:
    return builder.engine


@pytest.fixture
def base(images: Images) -> str:
    return images.python()


def recipe(directory: Path, files: Mapping[str, str], args: Mapping[str, str] | None = None, **how: Any) -> Recipe:
    text = {name: re.sub(r"^ +", "", content, flags=re.MULTILINE).lstrip() for name, content in files.items()}
    return Recipe(pack_context(write(directory, text), Position("i.yml", 3, 5)), args or {}, **how)


def contents(layout: Layout, name: str) -> dict[str, bytes]:
    """Return every file of an image's layers, of the upper one where both have it."""
    image = layout.find(name)
    assert image
    result: dict[str, bytes] = {}
    for layer in image.layers:
        with layout.blobs.open(layer) as blob, tarfile.open(fileobj=blob) as files:
            small = (it for it in files if it.isreg() and it.size < 1000)
            result |= {it.name: data.read() for it in small if (data := files.extractfile(it))}
    return result


def test_an_image_is_built_step_by_step_and_exported(builder: LoopbackMachine, base: str, tmp_path: Path) -> None:
    engine = builder.engine
    message_text: list[str] = []
    secret = {
        "ca_bundle": b"the certificates of this test",
        "pip_conf": b"the index of this test",
        "proxies": {"HTTP_PROXY": "proxy"},
    }
    made = recipe(tmp_path / "context", GREETING, {"BASE": base, "GREETING": "you"}, **secret)
    image_id = build(engine, made, ours(), message_text.append)
    steps = len(GREETING["Dockerfile"].strip().splitlines())
    assert [line.partition(" : ")[0] for line in message_text] == [f"Step {n}/{steps + 1}" for n in range(1, steps + 2)]
    assert message_text[3] == f'Step 4/{steps + 1} : RUN ls /machine && echo "$HTTP_PROXY" >/seen'

    layout = Layout(tmp_path / "images")
    image = export(builder, image_id, layout, "built")
    assert (image.id, image.labels) == (image_id, {LABEL: ours()})
    result = contents(layout, "built")
    assert (result["greeting"], result["seen"]) == (b"hello\nyou\n", b"proxy\n")
    assert not any(b" of this test" in data for data in result.values()), "the first stage alone sees them"
    assert not any(name.startswith(("machine", "other")) for name in result)
    assert b"proxy" not in layout.blobs.read(image.config)

    message_text.clear()
    assert build(engine, made, ours(), message_text.append) == image_id
    assert len(message_text) == steps + 1


BUILDKIT = """
    ARG BASE
    FROM ${BASE} AS first
    RUN --mount=type=cache,target=/cache ls .tfprov 2>/dev/null; echo kept >/cache/x && cat /cache/x >/seen
    FROM ${BASE}
    COPY --from=first --chmod=600 /seen /
    COPY .tfprov/ca.crt /
"""


def test_buildkit_builds_what_needs_it_and_reports_a_failed_step(
    builder: LoopbackMachine, base: str, tmp_path: Path
) -> None:
    steps: list[str] = []
    made = recipe(tmp_path / "context", {"Dockerfile": BUILDKIT}, {"BASE": base}, ca_bundle=b"cert")
    image_id = build(builder.engine, made, ours(), steps.append)
    assert [step for step in steps if " FROM " not in step] == [
        "[first 2/2] RUN --mount=type=cache,target=/cache ls .tfpr...",
        "[stage-1 2/3] COPY --from=first --chmod=600 /seen /",
        "[stage-1 3/3] COPY .tfprov/ca.crt /",
    ]
    layout = Layout(tmp_path / "images")
    image = export(builder, image_id, layout, "built")
    assert (image.id, image.labels) == (image_id, {LABEL: ours()})
    assert {"seen": b"kept\n", "ca.crt": b"cert"}.items() <= contents(layout, "built").items()
    assert build(builder.engine, made, ours(), steps.append) == image_id

    run = "RUN --mount=type=cache,target=/x echo first && printf last && exit 5"
    failed = {"Dockerfile": f"ARG BASE\nFROM ${{BASE}}\n{run}\n"}
    assert failing(builder.engine, tmp_path / "failing", failed, BASE=base) == (
        "h1: the image cannot be built: step 2/2, `RUN --mount=type=cache,target=/x echo first && printf las...`: "
        "exit code 5; correct the Dockerfile\n  build | first\n  build | last"
    )


EDITED = "FROM {base}\nRUN seq 100000 >/numbers\nENV A=b&<c>\nCOPY greeting /\nRUN echo {edit} >>/greeting\n"


def test_after_an_edit_of_the_last_step_only_its_layer_is_exported(
    builder: LoopbackMachine, images: Images, lab: Lab, tmp_path: Path
) -> None:
    layout = Layout(tmp_path / "images")
    received: dict[str, int] = {}
    made: dict[str, OciImage] = {}

    def exported(edit: str, layout: Layout) -> OciImage:
        files = {"Dockerfile": EDITED.format(base=images.bulky(), edit=edit), "greeting": "hello\n"}
        image_id = build(builder.engine, recipe(tmp_path / edit, files), ours(), lambda line: None)
        image = export(builder, image_id, layout, edit, lambda size, _: received.update({edit: size}), notes.append)
        assert build(builder.engine, recipe(tmp_path / edit, files), ours(), lambda line: None) == image_id == image.id
        return image

    notes: list[str] = []
    made = {edit: exported(edit, layout) for edit in ("you", "all")}
    assert received["you"] > 28_000_000
    assert received["all"] < 600_000, "a layer, and the first 64 kB of each of the others"
    assert [a == b for a, b in zip(made["you"].layers, made["all"].layers, strict=True)] == [*[True] * 5, False]
    assert exported("all", Layout(tmp_path / "whole")) == made["all"], "as `docker save` has it"
    assert notes == []
    assert layout.verify(made["all"])
    assert list(layout.blobs.incoming.iterdir()) == []
    # Other processes of the tests export images of the same engine meanwhile, and give them such names for that time.
    until(lambda: not _names_for_an_export(builder.engine), "an image loses the name by which it is exported")
    host = lab.hosts[0]
    with closing(machine(host)) as remote:
        push_image(remote, layout, made["all"], "edited")
        assert host.client.containers.run(f"{DELIVERED}:edited", ["cat", "/greeting"], remove=True) == b"hello\nall\n"
    clean(host)


def _names_for_an_export(engine: Engine) -> list[str]:
    with engine.errors():
        names = [name for image in engine.api.images() for name in image["RepoTags"] or ()]
    return [name for name in names if name.startswith("127.0.0.1:")]


def test_an_image_built_on_a_host_comes_back_over_ssh(lab: Lab, tmp_path: Path) -> None:
    host = lab.hosts[0]
    remote = machine(host)
    layout = Layout(tmp_path / "images")
    files = {"Dockerfile": "FROM scratch\nCOPY data .tfprov/ca.crt /\nCOPY edit /\n", "data": "x" * 24_000_000}
    received: list[int] = []
    for edit in ("first", "second"):
        made = recipe(tmp_path / "context", {**files, "edit": edit}, ca_bundle=b"cert")
        image_id = build(remote.engine, made, ours(), lambda line: None)
        received.append(0)
        image = export(remote, image_id, layout, "built", lambda size, _: received.__setitem__(-1, size))
        assert image.id == image_id
        assert contents(layout, "built") == {"ca.crt": b"cert", "edit": edit.encode()}
        host.client.images.remove(image_id, force=True)
    assert received[0] > 24_000_000
    assert received[1] < 10_000
    remote.close()


def containers_of(engine: Engine, text: str) -> list[str]:
    """Return the ids of containers with `text` in their command; other tests use the engine at the same time."""
    with engine.errors():
        return [it["Id"] for it in engine.api.containers(all=True) if text in it["Command"]]


def failing(engine: Engine, directory: Path, files: Mapping[str, str], **args: str) -> str:
    with pytest.raises(HostError) as caught:
        build(engine, recipe(directory, files, args), ours(), lambda line: None)
    assert type(caught.value) is HostError
    return str(caught.value)


def test_a_failed_build_step_is_reported_with_its_output(engine: Engine, base: str, tmp_path: Path) -> None:
    program = r"RUN printf 'first\nhalf\rwhole\n\033[31mred\033[0m\ttab \001\nunended'; exit 3"
    message = failing(engine, tmp_path, {"Dockerfile": f"ARG BASE\nFROM ${{BASE}}\n{program}\n"}, BASE=base)
    first, *lines = message.split("\n")
    assert first == (
        r"h1: the image cannot be built: step 3/4, `RUN printf `first\nhalf\rwhole\n\033[31mred\033[0m\ttab \...`: "
        "exit code 3; correct the Dockerfile"
    )
    message_text = ["first", "whole", "red     tab \N{REPLACEMENT CHARACTER}", "unended"]
    assert lines == [f"  build | {line}" for line in message_text]
    assert containers_of(engine, r"first\nhalf") == []


def test_the_end_of_a_long_output_is_reported(engine: Engine, base: str, tmp_path: Path) -> None:
    steps = "RUN echo an earlier step\nRUN for i in $(seq 1000); do echo line $i; done; exit 1"
    message = failing(engine, tmp_path, {"Dockerfile": f"ARG BASE\nFROM ${{BASE}}\n{steps}\n"}, BASE=base)
    assert message.split("\n")[1:] == [f"  build | line {number}" for number in range(1001 - MAX_ERROR_LINES, 1001)]


@pytest.mark.parametrize(
    ("dockerfile", "message"),
    [
        (
            "FROM tfprov-test/none:1",
            "h1: the image cannot be built: step 1/2, `FROM tfprov-test/none:1`: .*",
        ),
        (
            "FROM scratch\nCOPY nothing /",
            r"h1: the image cannot be built: step 2/3, `COPY nothing /`: COPY failed: .*nothing.*",
        ),
        ("FROM scratch\nCOPY ignored /", r"h1: the image cannot be built: step 2/3, `COPY ignored /`: COPY failed: .*"),
        ("FROM scratch\nFETCH x", "h1: dockerfile parse error line 2: unknown instruction: FETCH"),
        ("# nothing", "h1: failed to parse Dockerfile: file with no instructions"),
    ],
    ids=["base", "file", "ignored file", "instruction", "empty"],
)
def test_an_impossible_build_is_reported_in_one_line(
    engine: Engine, tmp_path: Path, dockerfile: str, message: str
) -> None:
    files = {"Dockerfile": dockerfile, ".dockerignore": "ignored", "ignored": "x"}
    assert re.fullmatch(message, failing(engine, tmp_path, files))


def test_an_image_that_is_not_there_cannot_be_exported(builder: LoopbackMachine, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images")
    with pytest.raises(HostError, match=r"^h1: the image tfprov-test/none:1 is not there"):
        export(builder, "tfprov-test/none:1", layout, "x")
    assert layout.images() == {}
