"""The images of a host's engine: looked up by name or id, compared by layers, tagged, pulled."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tfprov.errors import HostError, Unreachable, printable
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.paths import image_path
from tfprov.hosts.docker.engine_errors import explain
from tfprov.images.oci_spec import OciImage

_AT_ONCE = 50
"""Images of an engine that are asked about together: a host of many builds has hundreds."""


def inspect_image(engine: Engine, name: str) -> dict[str, Any] | None:
    """Return the engine's facts on the image with this name or id; None when it has no such image."""
    with engine.errors():
        api = engine.api
    try:
        with engine.errors():
            facts: dict[str, Any] = api.inspect_image(name)  # type: ignore[no-untyped-call]
    except Unreachable:
        raise
    except HostError:  # any other fault of the engine shows in the next call
        return None
    return facts


def find_image(engine: Engine, image: OciImage) -> dict[str, Any] | None:
    """Return the engine's facts on `image`; None when it does not have it.

    The image id is the configuration's digest, or the manifest's where the engine keeps images in containerd.
    """
    return inspect_image(engine, image.id) or inspect_image(engine, image.manifest.digest)


def count_shared_layers(engine: Engine, diff_ids: Sequence[str], enough: int | None = None) -> int:
    """Return how many of the lowest layers of an image with `diff_ids` the engine has.

    An engine identifies a layer by the chain of layers below it, so the longest common prefix with another image counts.
    The search ends once it has `enough` layers.
    """
    with engine.errors():
        images = [str(image["Id"]) for image in engine.api.images()]
    longest, enough = 0, len(diff_ids) if enough is None else enough
    for number in range(0, len(images), _AT_ONCE):
        layers = _layers(engine, images[number : number + _AT_ONCE])
        longest = max([longest, *(_common_prefix(one, diff_ids) for one in layers)])
        if longest >= enough:
            break
    return longest


def _layers(engine: Engine, images: Sequence[str]) -> list[Sequence[str]]:
    """Return the layers of those of the `images` that have not been removed since they were listed, in one trip."""
    try:
        facts = engine.ask_each(*map(image_path, images))
    except Unreachable:
        raise
    except HostError:  # the engine cannot describe one of them, such as a damaged one: all others count
        facts = [inspect_image(engine, image) or {} for image in images]
    return [(one.get("RootFS") or {}).get("Layers") or () for one in facts]


def _common_prefix(first: Sequence[str], second: Sequence[str]) -> int:
    number = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        number += 1
    return number


def tag(engine: Engine, image_id: str, reference: str) -> None:
    """Tag an image as `reference` (`repository:tag`), moving the tag if another image has it."""
    repository, _, name = reference.rpartition(":")
    with engine.errors():
        engine.api.tag(image_id, repository, name)


def untag(engine: Engine, name: str) -> None:
    """Remove a tag, and the image with its last tag, unless a container uses it; its parent images stay."""
    try:
        with engine.errors():
            engine.api.remove_image(name, noprune=True)
    except Unreachable:
        raise
    except HostError:  # it is in use, or gone already
        return


def wait_for_stream(engine: Engine, lines: Iterator[Mapping[str, Any]]) -> None:
    """Read the engine's progress messages to the end; HostError with the first error among them."""
    with engine.errors():
        errors = [str(line["error"]) for line in lines if "error" in line]
    if errors:
        raise HostError(engine.host, *explain(errors[0]))


def last_tag_time(engine: Engine, image_id: str) -> datetime:
    """Return when an image was last tagged, by the engine's clock; datetime.min when unknown."""
    metadata = (inspect_image(engine, image_id) or {}).get("Metadata") or {}
    with suppress(ValueError):
        tagged_at = datetime.fromisoformat(str(metadata.get("LastTagTime")))
        return tagged_at if tagged_at.tzinfo else tagged_at.replace(tzinfo=UTC)
    return datetime.min.replace(tzinfo=UTC)


def list_tags(engine: Engine, repository: str) -> dict[str, str]:
    """Return the image ids of `repository` in `engine`, by tag."""
    with engine.errors():
        images = engine.api.images(repository)
    names = ((name.rpartition(":"), it["Id"]) for it in images for name in it.get("RepoTags") or ())
    return {tag: image_id for (repo, _, tag), image_id in names if repo == repository}


def untag_others(engine: Engine, reference: str) -> None:
    """Remove the tags of the repository of `reference` but that one, unless a container uses their images."""
    repository, _, kept = reference.rpartition(":")
    for name in list_tags(engine, repository):
        if name != kept:
            untag(engine, f"{repository}:{name}")


def remove_old_tags(engine: Engine, repository: str, keep: int, spare: Collection[str] = ()) -> None:
    """Remove the tags of `repository`, but not the `keep` newest, the names to `spare`, and those of used images."""
    tags = {tag: it for tag, it in list_tags(engine, repository).items() if f"{repository}:{tag}" not in spare}
    if len(tags) <= keep:
        return
    with engine.errors():
        used = {it.get("ImageID") for it in engine.api.containers(all=True)}
    ages = {image_id: last_tag_time(engine, image_id) for image_id in set(tags.values())}
    for name in sorted(tags, key=lambda name: (ages[tags[name]], name), reverse=True)[keep:]:
        if tags[name] not in used:
            untag(engine, f"{repository}:{name}")


_PULL_ERRORS: tuple[tuple[str, str, str], ...] = (
    (
        r"unauthorized|authentication required|no basic auth|denied: |access denied|docker login|authorization failed",
        "the registry refuses access to {name}, or has no such image",
        "correct {where}, or log in on this machine: `docker login {registry}`",
    ),
    (
        r"no matching manifest|no match for platform",
        "the image {name} has no variant for this host's platform",
        "build one, or take the host out of the cluster",
    ),
    (
        r"manifest unknown|manifest for .* not found|not found: manifest|name unknown|resolve reference .*: not found",
        "the registry has no image {name}",
        "correct {where}",
    ),
    (
        r"dial tcp|no such host|lookup |i/o timeout|timeout exceeded|handshake timeout|connection refused|request canceled",
        "its engine does not reach the registry {registry}",
        "check the host's network, its DNS and its proxy{instead}",
    ),
    (
        r"server gave HTTP response to HTTPS client|x509|certificate",
        "its engine does not trust the registry {registry}",
        "add its certificate below /etc/docker/certs.d there",
    ),
)
"""Pattern of an engine's pull error, the message and the fix; the first match decides. An engine that stores images in
containerd has words of its own, which come last in a pattern."""


class Pulled(NamedTuple):
    """A pulled image: its id in the engine, and its name by digest, with which other hosts pull the same one.

    `digest` is None for an image without a registry. It is certain unless it may be of no registry.
    """

    image_id: str
    digest: str | None
    is_certain: bool = True


def pull(engine: Engine, name: str, reference: str, say: Callable[[str], None]) -> Pulled:
    """Make `engine` pull the image `name`, unless it has it, and tag it as `reference` (`repository:tag`).

    `name` may have a tag or a digest (`repository@sha256:…`). `say` is called when a pull begins. The registry logins of
    this machine are passed on, as the Docker client does.
    """
    present = inspect_image(engine, name)
    if present is None:
        say(f"pulling {name}")
        pull_image(engine, name)
    facts = present or inspect_image(engine, name)
    if facts is None:
        raise HostError(engine.host, f"its engine pulled {printable(name)} and does not have it", "run this again")
    tag(engine, facts["Id"], reference)
    return pulled_image(facts, name, is_new=present is None)


def pulled_image(facts: Mapping[str, Any], name: str, *, is_new: bool = False) -> Pulled:
    """Return the image `name` with an engine's `facts`; it `is_new` when it has just come from a registry.

    An engine with containerd's store names every image by its id, wherever it is from; elsewhere an id is another digest.
    """
    image_id, digest = str(facts["Id"]), _name_by_digest(facts, name)
    is_own = digest is not None and digest.endswith(f"@{image_id}")
    return Pulled(image_id, digest, is_certain=is_new or not is_own)


def _name_by_digest(facts: Mapping[str, Any], name: str) -> str | None:
    """Return the digest, as `repository@sha256:…`, of the image `name` with an engine's `facts`; None without a registry.

    An image may have digests of several repositories, such as `app` and `myapp`.
    """
    repository = _short_name(_repository(name))
    digests = (it for it in facts.get("RepoDigests") or () if _short_name(it.partition("@")[0]) == repository)
    return next(digests, None)


_SETTING = "`image`"
_INSTEAD = ", or deliver the image from here with `image: {build: …}`"


def pull_image(engine: Engine, name: str, where: str = _SETTING) -> None:
    """Make `engine` pull the image `name`, which is written `where`, with the registry logins of this machine.

    Raises HostError.
    """
    try:
        with engine.errors():
            lines = engine.api.pull(name, stream=True, decode=True)
            errors = [str(line["error"]) for line in lines if "error" in line]
    except HostError as error:  # reported at once, before the stream begins
        errors = [getattr(error.__cause__, "explanation", None) or ""]
        if not errors[0]:
            raise
    if errors:
        raise HostError(engine.host, *explain_pull_error(name, errors[0], where))


def explain_pull_error(name: str, text: str, where: str = _SETTING) -> tuple[str, str]:
    """Return the message and the fix for an engine's error on pulling `name`, which is written `where`."""
    facts = {"name": printable(name), "registry": _registry(name), "where": where}
    facts["instead"] = _INSTEAD if where == _SETTING else ""
    for pattern, what, fix in _PULL_ERRORS:
        if re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            return what.format(**facts), fix.format(**facts)
    return explain(text)


def _repository(name: str) -> str:
    bare = name.partition("@")[0]
    return bare.rpartition(":")[0] if ":" in bare.rpartition("/")[2] else bare


def _registry(name: str) -> str:
    first, slash, _ = name.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"


def _short_name(repository: str) -> str:
    return repository.removeprefix("docker.io/").removeprefix("library/")
