"""The responses of an engine to builds, exports and queries about images, with a fake engine."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import docker.errors
import pytest

from tests.support.delivery_images import load_image
from tfprov.errors import HostError, Unreachable
from tfprov.hosts.docker.engine_errors import engine_errors
from tfprov.images.archive import stream_archive
from tfprov.images.build import BuildContext, Recipe, build
from tfprov.images.engine_images import (
    Pulled,
    count_shared_layers,
    find_image,
    last_tag_time,
    pull,
    remove_old_tags,
    tag,
    untag,
    untag_others,
    wait_for_stream,
)
from tfprov.images.exports.export import export
from tfprov.images.oci_layout import Layout
from tfprov.images.registry_server import random_repository
from tfprov.images.stages import remove_stage, untag_temporary

RECIPE = Recipe(
    BuildContext("/lab", "sha256:1", b"archive", "gpu.Dockerfile"), {"A": "1", "B": "2"}, proxies={"A": "0"}
)


class Engine:
    """A fake engine on h1 with prepared responses."""

    host = "h1"

    def __init__(self, **answers: Any) -> None:
        self.api: Any = SimpleNamespace(timeout=60, **answers)

    def errors(self) -> AbstractContextManager[None]:
        return engine_errors(self.host)


def engine(**answers: Any) -> Any:
    return Engine(**answers)


def machine(there: Any) -> Any:
    return SimpleNamespace(host=there.host, engine=there)


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_arguments: Any, **_options: Any) -> Any:
        raise error

    return fail


def build_with(*lines: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the id of the built image, and the reported steps."""
    steps: list[str] = []
    return build(engine(build=lambda **_: iter(lines)), RECIPE, "lab", steps.append), steps


def stream(*texts: str) -> list[dict[str, str]]:
    return [{"stream": text} for text in texts]


# --- a build ---------------------------------------------------------------------------------------------------------


def test_a_build_passes_the_recipe_to_the_engine() -> None:
    arguments: dict[str, Any] = {}

    def answer(fileobj: Iterator[bytes], **options: Any) -> Iterator[dict[str, Any]]:
        arguments.update(options, sent=b"".join(fileobj))
        return iter([{"aux": {"ID": "sha256:7"}}])

    assert build(engine(build=answer), RECIPE, "lab", print) == "sha256:7"
    assert arguments == {
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


def test_each_step_is_reported_when_it_begins_and_the_last_id_counts() -> None:
    image, steps = build_with(
        *stream("Step 1/2 : FROM scratch\n", " ---> 0123\n", "Step 2/", "2 : RUN make\n", "working"),
        {"aux": {"ID": "sha256:1"}},
        *stream(" ---> 4567\n"),
        {"aux": {"ID": "sha256:2"}},
        {"aux": None},
    )
    assert (image, steps) == ("sha256:2", ["Step 1/2 : FROM scratch", "Step 2/2 : RUN make"])


def failure(*lines: Mapping[str, Any]) -> str:
    with pytest.raises(HostError) as raised:
        build_with(*lines, {"aux": {"ID": "sha256:1"}})
    return str(raised.value)


RETURNED = "The command '/bin/sh -c make\nall' returned a non-zero code: 2"


def test_a_failed_step_is_reported_with_its_last_lines() -> None:
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


def test_only_the_last_lines_of_a_step_are_reported() -> None:
    message = failure(*stream("Step 1/1 : RUN make\n", *(f"{number}\n" for number in range(30))), {"error": RETURNED})
    assert message.splitlines()[1:] == [f"  build | {number}" for number in range(10, 30)]


def test_a_failure_before_the_first_step_is_reported_without_a_step() -> None:
    message = failure({"error": "manifest for nowhere:1 not found"})
    assert message == (
        "h1: the image cannot be built: the image nowhere:1 is in no registry that its engine may read; "
        "correct `image`, or log in there with `docker login`"
    )
    assert failure({"error": "out of luck"}) == "h1: the image cannot be built: out of luck"


def test_a_build_without_an_image_id_is_an_error() -> None:
    with pytest.raises(HostError, match=r"^h1: its Docker engine returned no image id; run this again$"):
        build_with(*stream("Step 1/1 : FROM scratch\n"))


@pytest.mark.parametrize("size", [1, 1000, 10_000_000])
def test_a_built_image_is_exported_as_a_stream_of_any_chunks(tmp_path: Path, size: int) -> None:
    layout = Layout(tmp_path / "there")
    image = load_image(layout)
    archive = b"".join(stream_archive(layout, image, "tfprov/x:1", image.layers))
    requests = []

    def pieces(name: str, chunk_size: int) -> Iterator[bytes]:
        requests.append((name, chunk_size, source.api.timeout))
        return (archive[start : start + size] for start in range(0, len(archive), size))

    source = engine(inspect_image=lambda _: {"Id": image.id, "Size": 10}, get_image=pieces, info=dict)
    progress: list[tuple[int, int]] = []
    on_progress = lambda come, whole: progress.append((come, whole))  # noqa: E731
    assert export(machine(source), image.id, Layout(tmp_path / "here"), "x", on_progress).id == image.id
    assert progress[0] == (min(size, len(archive)), max(10, progress[0][0]))
    assert progress[-1] == (len(archive), len(archive)), "more has come than it unpacks to"
    assert requests == [(image.id, 128 * 1024, 60)], (
        "the limit of the client is that of other requests at the same time"
    )


def test_a_removed_image_cannot_be_exported(tmp_path: Path) -> None:
    there = engine(inspect_image=raising(docker.errors.ImageNotFound("no such image: x")))
    with pytest.raises(HostError, match=r"^h1: the image sha256:7 is not there; build it again$"):
        export(machine(there), "sha256:7", Layout(tmp_path), "x")


def test_a_broken_stream_is_reported_with_its_host(tmp_path: Path) -> None:
    broken = map(raising(ConnectionResetError("reset by peer")), [0])
    there = engine(inspect_image=lambda _: {}, get_image=lambda *_, **__: broken, info=dict)
    with pytest.raises(Unreachable, match="h1: its Docker engine closed the connection"):
        export(machine(there), "sha256:7", Layout(tmp_path), "x")


# --- the engine's images ---------------------------------------------------------------------------------------------


def test_an_image_is_identified_by_its_configuration_or_its_manifest(tmp_path: Path) -> None:
    image = load_image(Layout(tmp_path))

    def holding(*names: str) -> Any:
        def inspect(name: str) -> dict[str, str]:
            if name not in names:
                raise docker.errors.ImageNotFound("no such image")
            return {"Id": name}

        return engine(inspect_image=inspect)

    assert find_image(holding(image.id), image) == {"Id": image.id}
    assert find_image(holding(image.manifest.digest), image) == {"Id": image.manifest.digest}
    assert find_image(holding(), image) is None
    with pytest.raises(Unreachable):
        find_image(engine(inspect_image=raising(ConnectionResetError("reset"))), image)


def test_shared_layers_are_counted_from_the_lowest_on() -> None:
    images: dict[str, Any] = {
        "none": {},
        "gone": None,
        "no layers": {"RootFS": {"Layers": None}},
        "other": {"RootFS": {"Layers": ["z", "b", "c"]}},
        "one": {"RootFS": {"Layers": ["a", "x", "c"]}},
        "two": {"RootFS": {"Layers": ["a", "b"]}},
        "more": {"RootFS": {"Layers": ["a", "b", "c", "d"]}},
    }
    trips = []

    def inspect(name: str) -> Any:
        if images[name] is None:
            raise docker.errors.ImageNotFound("no such image")
        if images[name] == "damaged":
            raise docker.errors.APIError("a layer is missing")
        return images[name]

    def ask_each(*paths: str) -> list[Any]:
        names = [unquote(path).removeprefix("/images/").removesuffix("/json") for path in paths]
        trips.append(len(names))
        if "damaged" in map(images.get, names):
            raise HostError("h1", "a layer is missing")
        return [images[name] for name in names if images[name] is not None]

    fake_engine = engine(images=lambda: [{"Id": name} for name in images], inspect_image=inspect)
    fake_engine.ask_each = ask_each
    for diff_ids, number in ((["a", "b", "c"], 3), (["a", "b", "c", "e"], 3), (["y"], 0)):
        assert count_shared_layers(fake_engine, diff_ids) == number
    assert trips == [len(images)] * 3, "all are asked about in one trip"
    images |= {f"other {number}": images["other"] for number in range(50)} | {"last": {"RootFS": {"Layers": ["y"]}}}
    trips.clear()
    for enough in (1, 3):
        assert count_shared_layers(fake_engine, ["a", "b", "c"], enough=enough) == 3
    assert trips == [50, 50], "no more is asked about than is needed"
    assert count_shared_layers(fake_engine, ["y"]) == 1
    images["damaged"] = "damaged"
    assert count_shared_layers(fake_engine, ["y"]) == 1
    fake_engine.ask_each = raising(Unreachable("h1", "the connection is lost"))
    with pytest.raises(Unreachable):
        count_shared_layers(fake_engine, ["y"])


def test_a_name_is_split_at_its_last_colon() -> None:
    calls = []
    tag(engine(tag=lambda *names: calls.append(names)), "sha256:7", "127.0.0.1:5000/tfprov/x:1")
    assert calls == [("sha256:7", "127.0.0.1:5000/tfprov/x", "1")]


def test_a_tag_that_cannot_be_removed_stays() -> None:
    calls = []
    untag(engine(remove_image=lambda name, noprune: calls.append((name, noprune))), "x:1")
    assert calls == [("x:1", True)]
    untag(engine(remove_image=raising(docker.errors.APIError("conflict"))), "x:1")
    with pytest.raises(Unreachable):
        untag(engine(remove_image=raising(ConnectionResetError("reset"))), "x:1")


def test_an_error_in_the_progress_stream_is_raised_at_its_end() -> None:
    wait_for_stream(engine(), iter([{"status": "Loading"}, {}]))
    lines = iter([{"error": "no space left on device"}, {"status": "more"}, {"error": "second"}])
    with pytest.raises(HostError, match=r"^h1: ") as raised:
        wait_for_stream(engine(), lines)
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
def test_the_tag_time_is_read_from_the_engine(facts: dict[str, Any], when: datetime) -> None:
    assert last_tag_time(engine(inspect_image=lambda _: facts), "x") == when


def test_a_missing_image_has_no_tag_time() -> None:
    assert last_tag_time(engine(inspect_image=raising(docker.errors.ImageNotFound("no such image"))), "x") == NEVER


def test_temporary_names_are_removed_and_others_stay(tmp_path: Path) -> None:
    image = load_image(Layout(tmp_path))
    name = random_repository()
    own = f"127.0.0.1:5000/{name}@sha256:1"
    old = "127.0.0.1:5000/tfprov/image@sha256:1"  # of an earlier version that was killed
    near = f"127.0.0.10:5000/{name}@sha256:1"
    digests = [own, near, "127.0.0.1:5000/train@sha256:1", f"registry.example.com/{name}@sha256:1", old]
    removed_names: list[str] = []

    def there(**facts: Any) -> Any:
        def inspect(name: str) -> dict[str, Any]:
            if name not in (image.id, image.manifest.digest):
                raise docker.errors.ImageNotFound("no such image")
            return {"Id": "sha256:7", **facts}

        return engine(inspect_image=inspect, remove_image=lambda name, noprune: removed_names.append(name))

    untag_temporary(there(RepoDigests=digests), image)
    assert removed_names == [own, old]
    removed_names.clear()
    for facts, removed in (
        ({"RepoTags": ["x:1"]}, []),
        ({"RepoTags": [], "RepoDigests": None}, ["sha256:7"]),
        ({"RepoTags": None, "RepoDigests": [own]}, [own, "sha256:7"]),
    ):
        remove_stage(there(**facts), image)
        assert removed_names == removed
        removed_names.clear()
    missing = engine(inspect_image=raising(docker.errors.ImageNotFound("no such image")))
    untag_temporary(missing, image)
    remove_stage(missing, image)


def test_of_a_repository_all_tags_but_one_are_removed_unless_they_are_in_use() -> None:
    removed: list[str] = []

    def remove_image(name: str, *, noprune: bool) -> None:
        assert noprune
        if name.endswith(":used"):
            raise docker.errors.APIError("conflict: container 1234 is using its referenced image")
        removed.append(name)

    tags = [[f"tfprov-relay/lab:{name}" for name in names] for names in (["kept"], ["used", "old"], ["older"])]
    listed = [{"Id": f"sha256:{number}", "RepoTags": names} for number, names in enumerate(tags)]
    listed.append({"Id": "sha256:9", "RepoTags": ["tfprov-relay/lab2:old", "other:kept"]})
    there = engine(images=lambda _repository: listed, remove_image=remove_image)
    untag_others(there, "tfprov-relay/lab:kept")
    assert removed == ["tfprov-relay/lab:old", "tfprov-relay/lab:older"]


def test_of_a_repository_the_newest_tags_and_those_in_use_stay() -> None:
    removed: list[str] = []
    repository = "tfprov/lab"
    tags = {"new": 5, "used": 1, "older": 2, "oldest": 0, "same": 2}
    listed = [{"Id": f"sha256:{name}", "RepoTags": [f"{repository}:{name}"]} for name in tags]
    listed.append({"Id": "sha256:x", "RepoTags": ["other:old", "tfprov/lab2:old"]})

    def inspect(name: str) -> dict[str, Any]:
        return {"Metadata": {"LastTagTime": f"2026-01-0{tags[name.removeprefix('sha256:')] + 1}T00:00:00Z"}}

    there = engine(
        images=lambda _repository: listed,
        inspect_image=inspect,
        containers=lambda **options: [{"ImageID": "sha256:used"}] if options == {"all": True} else [],
        remove_image=lambda name, noprune: removed.append(name),
    )
    remove_old_tags(there, repository, keep=5)
    assert removed == []
    remove_old_tags(there, repository, keep=2)
    assert removed == ["tfprov/lab:older", "tfprov/lab:oldest"], "of equal age, the name decides"
    removed.clear()
    remove_old_tags(there, repository, keep=1, spare={"tfprov/lab:oldest", "tfprov/lab:older", "tfprov/other:same"})
    assert removed == ["tfprov/lab:same"], "those to spare do not count"


# --- a pull ----------------------------------------------------------------------------------------------------------


class Registry:
    """A fake engine that has the image `name` once it is pulled: with `facts`, unless the pull fails."""

    def __init__(self, *lines: Mapping[str, str], there: bool = False, facts: Mapping[str, Any] | None = None) -> None:
        self.facts, self.there, self.lines = {"Id": "sha256:7", **(facts or {})}, there, lines
        self.pulled: list[str] = []
        self.tagged: list[tuple[str, ...]] = []
        self.engine = engine(inspect_image=self.inspect, pull=self.pull, tag=lambda *names: self.tagged.append(names))

    def inspect(self, _name: str) -> Mapping[str, Any]:
        if not self.there:
            raise docker.errors.ImageNotFound("no such image")
        return self.facts

    def pull(self, name: str, *, stream: bool, decode: bool) -> Iterator[Mapping[str, str]]:
        assert stream
        assert decode
        self.pulled.append(name)
        self.there = not any("error" in line for line in self.lines)
        return iter(self.lines)


def test_an_image_is_pulled_once_and_named_by_its_digest() -> None:
    others = ["other@sha256:1", "docker.io/library/tensorflow@sha256:2", "tensorflow@sha256:3"]
    registry = Registry({"status": "Pulling"}, {}, facts={"RepoDigests": others})
    notes: list[str] = []
    for _ in range(2):
        assert pull(registry.engine, "tensorflow:2.16", "tfprov/lab:1", notes.append) == Pulled(
            "sha256:7", "docker.io/library/tensorflow@sha256:2",
        )  # fmt: skip
    assert (registry.pulled, notes) == (["tensorflow:2.16"], ["pulling tensorflow:2.16"])
    assert registry.tagged == [("sha256:7", "tfprov/lab", "1")] * 2


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("host:5000/lab/train", "host:5000/lab/train"),
        ("host:5000/lab/train:1", "host:5000/lab/train"),
        ("train@sha256:9", "library/train"),
        ("docker.io/lab/train:2", "lab/train"),
    ],
)
def test_the_digest_is_that_of_the_same_repository(name: str, repository: str) -> None:
    registry = Registry(there=True, facts={"RepoDigests": ["x@sha256:1", f"{repository}@sha256:9"]})
    assert pull(registry.engine, name, "x:1", print) == Pulled("sha256:7", f"{repository}@sha256:9")
    assert not registry.pulled


@pytest.mark.parametrize(("there", "certain"), [(True, False), (False, True)])
def test_a_digest_that_is_the_images_id_is_certain_once_it_was_pulled(there: bool, certain: bool) -> None:
    """An engine with containerd's store has such a name for every image, also for one that was built or loaded."""
    registry = Registry(there=there, facts={"RepoDigests": ["train@sha256:7"]})
    pulled = pull(registry.engine, "train:1", "x:1", lambda _: None)
    assert pulled == Pulled("sha256:7", "train@sha256:7", is_certain=certain)


@pytest.mark.parametrize("facts", [{}, {"RepoDigests": None}, {"RepoDigests": ["other@sha256:1"]}])
def test_an_image_without_a_registry_has_no_digest(facts: Mapping[str, Any]) -> None:
    assert pull(Registry(there=True, facts=facts).engine, "train:1", "x:1", print) == Pulled("sha256:7", None)


def pull_error(name: str, *lines: Mapping[str, str]) -> str:
    with pytest.raises(HostError) as raised:
        pull(Registry(*lines).engine, name, "x:1", lambda _: None)
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        (
            "r.example.com:5000/a:1", "unauthorized: x",
            ("h1: the registry refuses access to r.example.com:5000/a:1, or has no such image; "
            "correct `image`, or log in on this machine: `docker login r.example.com:5000`"),
        ),
        (
            "localhost/a", "no basic auth credentials",
            ("h1: the registry refuses access to localhost/a, or has no such image; "
            "correct `image`, or log in on this machine: `docker login localhost`"),
        ),
        ("lab/a:1", "Manifest Unknown", "h1: the registry has no image lab/a:1; correct `image`"),
        ("a", "name unknown", "h1: the registry has no image a; correct `image`"),
        (
            "a:1", "no matching manifest for linux/arm64",
            "h1: the image a:1 has no variant for this host's platform; build one, or take the host out of the cluster",
        ),
        (
            "lab/a:1", "dial tcp: lookup registry",
            ("h1: its engine does not reach the registry docker.io; check the host's network, its DNS and its proxy, "
            "or deliver the image from here with `image: {build: …}`"),
        ),
        (
            "r.example.com/a", "x509: unknown authority",
            "h1: its engine does not trust the registry r.example.com; add its certificate below /etc/docker/certs.d there",
        ),
    ],
)  # fmt: skip
def test_an_error_of_a_pull_is_reported_with_its_fix(name: str, error: str, message: str) -> None:
    assert pull_error(name, {"status": "Pulling"}, {"error": error}, {"error": "second"}) == message
    explained = docker.errors.APIError("500", explanation=error)
    refusing = engine(inspect_image=raising(docker.errors.ImageNotFound("no such image")), pull=raising(explained))
    with pytest.raises(HostError) as raised:
        pull(refusing, name, "x:1", lambda _: None)
    assert str(raised.value) == message


def test_a_pull_that_is_broken_off_or_leaves_no_image_is_an_error() -> None:
    missing = raising(docker.errors.ImageNotFound("no such image"))
    with pytest.raises(Unreachable):
        pull(engine(inspect_image=missing, pull=raising(ConnectionResetError("reset"))), "a", "x:1", lambda _: None)
    nothing = engine(inspect_image=missing, pull=lambda *_, **__: iter([{"status": "done"}]))
    with pytest.raises(HostError) as raised:
        pull(nothing, "a\nb", "x:1", lambda _: None)
    assert str(raised.value) == "h1: its engine pulled a\\nb and does not have it; run this again"
