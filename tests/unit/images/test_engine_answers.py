"""What an engine answers while it builds and when it is asked for its images, without one."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest

from tests.support.delivery_images import load_image
from tfprov.errors import HostError, Unreachable
from tfprov.hosts.docker.engine_errors import engine_errors
from tfprov.images.archive import saved
from tfprov.images.build import SHOWN, BuildContext, Recipe, build, export
from tfprov.images.engine_images import heeded, held, layers_held, tag, tagged, untag
from tfprov.images.oci_layout import Layout
from tfprov.images.registry_server import remove, repository, tidy

RECIPE = Recipe(
    BuildContext("/lab", "sha256:1", b"archive", "gpu.Dockerfile"), {"A": "1", "B": "2"}, proxies={"A": "0"}
)


class Engine:
    """Stands for an engine on h1 that answers as it is told."""

    host = "h1"

    def __init__(self, **answers: Any) -> None:
        self.api: Any = SimpleNamespace(timeout=60, **answers)

    def errors(self) -> AbstractContextManager[None]:
        return engine_errors(self.host)


def engine(**answers: Any) -> Any:
    return Engine(**answers)


def fails(error: Exception) -> Callable[..., Any]:
    def fail(*_arguments: Any, **_options: Any) -> Any:
        raise error

    return fail


def built(*lines: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the id of what was built, and what was told meanwhile."""
    told: list[str] = []
    return build(engine(build=lambda **_: iter(lines)), RECIPE, "lab", told.append), told


def stream(*texts: str) -> list[dict[str, str]]:
    return [{"stream": text} for text in texts]


# --- a build ---------------------------------------------------------------------------------------------------------


def test_an_engine_is_asked_for_what_the_recipe_says() -> None:
    asked: dict[str, Any] = {}

    def answer(fileobj: Iterator[bytes], **options: Any) -> Iterator[dict[str, Any]]:
        asked.update(options, sent=b"".join(fileobj))
        return iter([{"aux": {"ID": "sha256:7"}}])

    assert build(engine(build=answer), RECIPE, "lab", print) == "sha256:7"
    assert asked == {
        "sent": b"archive",
        "custom_context": True,
        "dockerfile": "gpu.Dockerfile",
        "buildargs": {"A": "1", "B": "2"},
        "labels": {"tfprov.image": "lab"},
        "rm": True,
        "forcerm": True,
        "timeout": 3600,
        "decode": True,
    }


def test_each_step_is_told_as_it_begins_and_the_last_id_counts() -> None:
    image, told = built(
        *stream("Step 1/2 : FROM scratch\n", " ---> 0123\n", "Step 2/", "2 : RUN make\n", "working"),
        {"aux": {"ID": "sha256:1"}},
        *stream(" ---> 4567\n"),
        {"aux": {"ID": "sha256:2"}},
        {"aux": None},
    )
    assert (image, told) == ("sha256:2", ["Step 1/2 : FROM scratch", "Step 2/2 : RUN make"])


def failure(*lines: Mapping[str, Any]) -> str:
    with pytest.raises(HostError) as raised:
        built(*lines, {"aux": {"ID": "sha256:1"}})
    return str(raised.value)


RETURNED = "The command '/bin/sh -c make\nall' returned a non-zero code: 2"


def test_a_step_that_fails_is_told_with_its_last_lines() -> None:
    lines = stream(
        "Step 1/2 : FROM scratch\nnot of this step\n",
        "Step 2/2 : RUN make\n",
        "\x1b[31mred\x1b[0m\n",
        "10 %\r20 %\r30 %\r\n",
        "a\tb\x07  \n",
        "\n",
        " ---> Running in 89ab\n",
        "Removing intermediate container 89ab\n",
        "no newline",
    )
    assert failure(*lines, {"error": RETURNED}) == (
        "h1: the image cannot be built: step 2/2, `RUN make`: exit code 2; correct the Dockerfile\n"
        "  build | red\n  build | 30 %\n  build | a       b\N{REPLACEMENT CHARACTER}\n  build | no newline"
    )


def test_only_the_last_lines_of_a_step_are_told() -> None:
    said = failure(*stream("Step 1/1 : RUN make\n", *(f"{number}\n" for number in range(30))), {"error": RETURNED})
    assert said.splitlines()[1:] == [f"  build | {number}" for number in range(30 - SHOWN, 30)]


def test_what_fails_before_a_step_is_told_as_what_it_is() -> None:
    said = failure({"error": "manifest for nowhere:1 not found"})
    assert said == (
        "h1: the image cannot be built: the image nowhere:1 is in no registry that its engine may read; "
        "correct `image`, or log in there with `docker login`"
    )
    assert failure({"error": "out of luck"}) == "h1: the image cannot be built: out of luck"


def test_an_engine_that_does_not_say_what_it_built_is_an_error() -> None:
    with pytest.raises(HostError, match=r"^h1: its Docker engine did not say what it built; run this again$"):
        built(*stream("Step 1/1 : FROM scratch\n"))


@pytest.mark.parametrize("size", [1, 1000, 10_000_000])
def test_a_built_image_comes_as_a_stream_of_any_pieces(tmp_path: Path, size: int) -> None:
    layout = Layout(tmp_path / "there")
    image = load_image(layout)
    archive = b"".join(saved(layout, image, "tfprov/x:1", image.layers))
    limits = []

    def pieces(name: str, chunk_size: int) -> Iterator[bytes]:
        limits.append((name, chunk_size, there.api.timeout))
        return (archive[start : start + size] for start in range(0, len(archive), size))

    there = engine(inspect_image=lambda _: {"Id": image.id, "Size": 10}, get_image=pieces)
    told: list[tuple[int, int]] = []
    sent = lambda come, whole: told.append((come, whole))  # noqa: E731
    assert export(there, image.id, Layout(tmp_path / "here"), "x", sent).id == image.id
    assert told[0] == (min(size, len(archive)), max(10, told[0][0]))
    assert told[-1] == (len(archive), len(archive)), "more has come than it unpacks to"
    assert limits == [(image.id, 128 * 1024, 3600)]
    assert there.api.timeout == 60, "for everything else it is as it was"


def test_an_image_that_is_gone_cannot_be_brought(tmp_path: Path) -> None:
    there = engine(inspect_image=fails(docker.errors.ImageNotFound("no such image: x")))
    with pytest.raises(HostError, match=r"^h1: the image sha256:7 is not there; build it again$"):
        export(there, "sha256:7", Layout(tmp_path), "x")


def test_a_stream_that_breaks_off_is_told_with_its_host(tmp_path: Path) -> None:
    broken = map(fails(ConnectionResetError("reset by peer")), [0])
    there = engine(inspect_image=lambda _: {}, get_image=lambda *_, **__: broken)
    with pytest.raises(Unreachable, match="h1: its Docker engine closed the connection"):
        export(there, "sha256:7", Layout(tmp_path), "x")


# --- what there is ---------------------------------------------------------------------------------------------------


def test_an_image_is_known_by_its_configuration_or_by_its_manifest(tmp_path: Path) -> None:
    image = load_image(Layout(tmp_path))

    def holding(*names: str) -> Any:
        def inspect(name: str) -> dict[str, str]:
            if name not in names:
                raise docker.errors.ImageNotFound("no such image")
            return {"Id": name}

        return engine(inspect_image=inspect)

    assert held(holding(image.id), image) == {"Id": image.id}
    assert held(holding(image.manifest.digest), image) == {"Id": image.manifest.digest}
    assert held(holding(), image) is None
    with pytest.raises(Unreachable):
        held(engine(inspect_image=fails(ConnectionResetError("reset"))), image)


def test_the_layers_that_another_image_shares_count_from_the_lowest_on() -> None:
    images: dict[str, Any] = {
        "none": {},
        "gone": None,
        "no layers": {"RootFS": {"Layers": None}},
        "other": {"RootFS": {"Layers": ["z", "b", "c"]}},
        "one": {"RootFS": {"Layers": ["a", "x", "c"]}},
        "two": {"RootFS": {"Layers": ["a", "b"]}},
        "more": {"RootFS": {"Layers": ["a", "b", "c", "d"]}},
    }
    asked = []

    def inspect(name: str) -> Any:
        asked.append(name)
        if images[name] is None:
            raise docker.errors.ImageNotFound("no such image")
        return images[name]

    there = engine(images=lambda: [{"Id": name} for name in images], inspect_image=inspect)
    assert layers_held(there, ["a", "b", "c"]) == 3
    asked.clear()
    assert layers_held(there, ["a", "b", "c"], enough=1) == 1
    assert asked == ["none", "gone", "no layers", "other", "one"], "no more is asked about than is needed"
    assert layers_held(there, ["a", "b", "c", "e"]) == 3
    assert layers_held(there, ["y"]) == 0


def test_a_name_is_split_at_its_last_colon() -> None:
    named = []
    tag(engine(tag=lambda *given: named.append(given)), "sha256:7", "127.0.0.1:5000/tfprov/x:1")
    assert named == [("sha256:7", "127.0.0.1:5000/tfprov/x", "1")]


def test_a_name_that_cannot_be_taken_away_stays() -> None:
    asked = []
    untag(engine(remove_image=lambda name, noprune: asked.append((name, noprune))), "x:1")
    assert asked == [("x:1", True)]
    untag(engine(remove_image=fails(docker.errors.APIError("conflict"))), "x:1")
    with pytest.raises(Unreachable):
        untag(engine(remove_image=fails(ConnectionResetError("reset"))), "x:1")


def test_an_engine_that_fails_while_it_works_says_so_at_the_end() -> None:
    heeded(engine(), iter([{"status": "Loading"}, {}]))
    lines = iter([{"error": "no space left on device"}, {"status": "more"}, {"error": "second"}])
    with pytest.raises(HostError, match=r"^h1: ") as raised:
        heeded(engine(), lines)
    assert "second" not in str(raised.value)
    assert list(lines) == []


NEVER = datetime.min.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("facts", "when"),
    [
        ({"Metadata": {"LastTagTime": "2026-01-02T03:04:05+01:00"}}, datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC)),
        ({"Metadata": {"LastTagTime": "2026-01-02T03:04:05"}}, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ({"Metadata": {"LastTagTime": "yesterday"}}, NEVER),
        ({"Metadata": {}}, NEVER),
        ({"Metadata": None}, NEVER),
        ({}, NEVER),
    ],
)
def test_when_an_image_was_named_is_told_by_the_engines_clock(facts: dict[str, Any], when: datetime) -> None:
    assert tagged(engine(inspect_image=lambda _: facts), "x") == when


def test_an_image_that_is_not_there_was_never_named() -> None:
    assert tagged(engine(inspect_image=fails(docker.errors.ImageNotFound("no such image"))), "x") == NEVER


def test_names_of_the_way_are_taken_away_and_others_stay(tmp_path: Path) -> None:
    image = load_image(Layout(tmp_path))
    name = repository()
    own = f"127.0.0.1:5000/{name}@sha256:1"
    old = "127.0.0.1:5000/tfprov/image@sha256:1"  # of an earlier version that was killed
    near = f"127.0.0.10:5000/{name}@sha256:1"
    digests = [own, near, "127.0.0.1:5000/train@sha256:1", f"registry.example.com/{name}@sha256:1", old]
    gone: list[str] = []

    def there(**facts: Any) -> Any:
        def inspect(name: str) -> dict[str, Any]:
            if name not in (image.id, image.manifest.digest):
                raise docker.errors.ImageNotFound("no such image")
            return {"Id": "sha256:7", **facts}

        return engine(inspect_image=inspect, remove_image=lambda name, noprune: gone.append(name))

    tidy(there(RepoDigests=digests), image)
    assert gone == [own, old]
    gone.clear()
    for facts, removed in (
        ({"RepoTags": ["x:1"]}, []),
        ({"RepoTags": [], "RepoDigests": None}, ["sha256:7"]),
        ({"RepoTags": None, "RepoDigests": [own]}, [own, "sha256:7"]),
    ):
        remove(there(**facts), image)
        assert gone == removed
        gone.clear()
    missing = engine(inspect_image=fails(docker.errors.ImageNotFound("no such image")))
    tidy(missing, image)
    remove(missing, image)
