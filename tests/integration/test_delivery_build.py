"""Images built by a real engine and brought into the controller's layout; and what is told when that fails."""

import re
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.support.delivery import machine
from tests.support.engine import Engine as PrivateEngine
from tests.support.files import write
from tests.support.images import Images
from tests.support.testhosts import Lab
from tfprov.errors import HostError, Position
from tfprov.hosts.docker.engine import Engine
from tfprov.images.build import LABEL, SHOWN, Recipe, build, export, pack_context
from tfprov.images.oci_layout import Layout

OURS = "build-test"
GREETING = {
    "Dockerfile": """
        ARG BASE
        FROM ${BASE} AS first
        COPY Dockerfile .tfprov* /machine/
        RUN ls /machine && echo "$HTTP_PROXY" >/told
        FROM ${BASE}
        ARG GREETING=nothing
        COPY greeting /
        RUN echo $GREETING >>/greeting && chmod 600 /greeting
        COPY --from=first /told /
    """,
    "greeting": "hello\n",
    "other": "a" * 100,
}


@pytest.fixture
def engine(private_engine: PrivateEngine) -> Iterator[Engine]:
    made = Engine.local("h1", Path(private_engine.socket))
    yield made
    made.close()
    client = private_engine.client
    for image in client.images.list(all=True, filters={"label": f"{LABEL}={OURS}"}):
        with suppress(docker.errors.APIError):  # it went with another one
            client.images.remove(str(image.id), force=True)
    client.images.prune()


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
    found: dict[str, bytes] = {}
    for layer in image.layers:
        with layout.blobs.open(layer) as blob, tarfile.open(fileobj=blob) as files:
            small = (it for it in files if it.isreg() and it.size < 1000)
            found |= {it.name: data.read() for it in small if (data := files.extractfile(it))}
    return found


def test_an_image_is_built_step_by_step_and_exported(engine: Engine, base: str, tmp_path: Path) -> None:
    said: list[str] = []
    secret = {
        "ca_bundle": b"the certificates of this test",
        "pip_conf": b"the index of this test",
        "proxies": {"HTTP_PROXY": "proxy"},
    }
    made = recipe(tmp_path / "context", GREETING, {"BASE": base, "GREETING": "you"}, **secret)
    image_id = build(engine, made, OURS, said.append)
    steps = len(GREETING["Dockerfile"].strip().splitlines())
    assert [line.partition(" : ")[0] for line in said] == [f"Step {n}/{steps + 1}" for n in range(1, steps + 2)]
    assert said[3] == f'Step 4/{steps + 1} : RUN ls /machine && echo "$HTTP_PROXY" >/told'

    layout = Layout(tmp_path / "images")
    image = export(engine, image_id, layout, "built")
    assert (image.id, image.labels) == (image_id, {LABEL: OURS})
    found = contents(layout, "built")
    assert (found["greeting"], found["told"]) == (b"hello\nyou\n", b"proxy\n")
    assert not any(b" of this test" in data for data in found.values()), "the first stage alone sees them"
    assert not any(name.startswith(("machine", "other")) for name in found)
    assert b"proxy" not in layout.blobs.read(image.config)

    said.clear()
    assert build(engine, made, OURS, said.append) == image_id
    assert len(said) == steps + 1


def test_an_image_built_on_a_host_comes_back_over_ssh(lab: Lab, tmp_path: Path) -> None:
    host = lab.hosts[0]
    remote = machine(host)
    files = {"Dockerfile": "FROM scratch\nCOPY data .tfprov/ca.crt /\n", "data": "x" * 400_000}
    image_id = build(remote.engine, recipe(tmp_path / "context", files, ca_bundle=b"cert"), OURS, lambda line: None)
    layout = Layout(tmp_path / "images")
    assert export(remote.engine, image_id, layout, "built").id == image_id
    assert contents(layout, "built") == {"ca.crt": b"cert"}
    remote.close()
    host.client.images.remove(image_id, force=True)


def containers(engine: Engine) -> set[str]:
    with engine.errors():
        return {it["Id"] for it in engine.api.containers(all=True)}


def failing(engine: Engine, directory: Path, files: Mapping[str, str], **args: str) -> str:
    with pytest.raises(HostError) as caught:
        build(engine, recipe(directory, files, args), OURS, lambda line: None)
    assert type(caught.value) is HostError
    return str(caught.value)


def test_a_step_that_fails_is_told_with_what_it_printed(engine: Engine, base: str, tmp_path: Path) -> None:
    program = r"RUN printf 'first\nhalf\rwhole\n\033[31mred\033[0m\ttab \001\nunended'; exit 3"
    before = containers(engine)
    message = failing(engine, tmp_path, {"Dockerfile": f"ARG BASE\nFROM ${{BASE}}\n{program}\n"}, BASE=base)
    first, *lines = message.split("\n")
    assert first == (
        r"h1: the image cannot be built: step 3/4, `RUN printf `first\nhalf\rwhole\n\033[31mred\033[0m\ttab \...`: "
        "exit code 3; correct the Dockerfile"
    )
    said = ["first", "whole", "red     tab \N{REPLACEMENT CHARACTER}", "unended"]
    assert lines == [f"  build | {line}" for line in said]
    assert containers(engine) == before


def test_of_a_long_output_the_end_is_told(engine: Engine, base: str, tmp_path: Path) -> None:
    steps = "RUN echo an earlier step\nRUN for i in $(seq 1000); do echo line $i; done; exit 1"
    message = failing(engine, tmp_path, {"Dockerfile": f"ARG BASE\nFROM ${{BASE}}\n{steps}\n"}, BASE=base)
    assert message.split("\n")[1:] == [f"  build | line {number}" for number in range(1001 - SHOWN, 1001)]


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
def test_what_cannot_be_built_is_one_clear_line(engine: Engine, tmp_path: Path, dockerfile: str, message: str) -> None:
    files = {"Dockerfile": dockerfile, ".dockerignore": "ignored", "ignored": "x"}
    assert re.fullmatch(message, failing(engine, tmp_path, files))


def test_an_image_that_is_not_there_cannot_be_exported(engine: Engine, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images")
    with pytest.raises(HostError, match=r"^h1: the image tfprov-test/none:1 is not there"):
        export(engine, "tfprov-test/none:1", layout, "x")
    assert layout.images() == {}
