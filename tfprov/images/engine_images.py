"""The images of a host's engine: looked up by name or id, compared by layers, tagged, pulled."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from tfprov.errors import HostError, Unreachable, printable
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_errors import explain
from tfprov.images.oci_spec import Image


def inspected(engine: Engine, name: str) -> dict[str, Any] | None:
    """Return what `engine` says of the image `name`, a name or an id; None when it has none of that name."""
    with engine.errors():
        api = engine.api
    try:
        with engine.errors():
            facts: dict[str, Any] = api.inspect_image(name)  # type: ignore[no-untyped-call]
    except Unreachable:
        raise
    except HostError:  # what else may be wrong with the engine shows in the next call
        return None
    return facts


def held(engine: Engine, image: Image) -> dict[str, Any] | None:
    """Return what `engine` says of `image`; None when it does not have it.

    Engines know an image by its configuration, and those that keep images in containerd by its manifest.
    """
    return inspected(engine, image.id) or inspected(engine, image.manifest.digest)


def layers_held(engine: Engine, diff_ids: Sequence[str], enough: int | None = None) -> int:
    """Return how many layers, from the lowest on, of an image with `diff_ids` the engine has.

    An engine finds a layer by all that lies below it, so what counts is the longest beginning that another image shares.
    With `enough` of them found, it is not asked about more images: it may have more layers than that.
    """
    with engine.errors():
        listed = engine.api.images()
    most, enough = 0, len(diff_ids) if enough is None else enough
    for it in listed:
        most = max(most, _in_common(_layers(engine, it["Id"]), diff_ids))
        if most >= enough:
            break
    return most


def _layers(engine: Engine, image_id: str) -> Sequence[str]:
    facts = inspected(engine, image_id) or {}  # it may have been removed since it was listed
    return (facts.get("RootFS") or {}).get("Layers") or ()


def _in_common(one: Sequence[str], other: Sequence[str]) -> int:
    number = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        number += 1
    return number


def tag(engine: Engine, image_id: str, reference: str) -> None:
    """Give an image the name `reference`, `repository:tag`, which may have meant another image."""
    repository, _, name = reference.rpartition(":")
    with engine.errors():
        engine.api.tag(image_id, repository, name)


def untag(engine: Engine, name: str) -> None:
    """Take a name away, and the image with its last one, unless a container uses it; what it was built on stays."""
    try:
        with engine.errors():
            engine.api.remove_image(name, noprune=True)
    except Unreachable:
        raise
    except HostError:  # it is in use, or gone already
        return


def heeded(engine: Engine, lines: Iterator[Mapping[str, Any]]) -> None:
    """Follow what the engine says while it works, to the end. HostError when it says that it failed."""
    with engine.errors():
        errors = [str(line["error"]) for line in lines if "error" in line]
    if errors:
        raise HostError(engine.host, *explain(errors[0]))


def tagged(engine: Engine, image_id: str) -> datetime:
    """Return when an image was last given a name, by the engine's own clock."""
    text = ((inspected(engine, image_id) or {}).get("Metadata") or {}).get("LastTagTime") or ""
    with suppress(ValueError):
        tagged_at = datetime.fromisoformat(text)
        return tagged_at if tagged_at.tzinfo else tagged_at.replace(tzinfo=UTC)
    return datetime.min.replace(tzinfo=UTC)


_REASONS: tuple[tuple[str, str, str], ...] = (
    (
        r"unauthorized|authentication required|no basic auth credentials|denied: |docker login",
        "the registry does not let us read {name}, or has no such image",
        "correct `image`, or log in on this machine: `docker login {registry}`",
    ),
    (
        r"manifest unknown|manifest for .* not found|not found: manifest|name unknown",
        "the registry has no image {name}",
        "correct `image`",
    ),
    (
        r"no matching manifest",
        "the image {name} is not there for this kind of machine",
        "make one for it, or take the host out of the cluster",
    ),
    (
        r"dial tcp|no such host|lookup |i/o timeout|timeout exceeded|handshake timeout|connection refused|request canceled",
        "its engine does not reach the registry {registry}",
        "look at the host's network, its DNS and its proxy, or deliver the image from here with `image: {{build: …}}`",
    ),
    (
        r"server gave HTTP response to HTTPS client|x509|certificate",
        "its engine does not trust the registry {registry}",
        "add its certificate below /etc/docker/certs.d there",
    ),
)
"""What an engine says when it cannot pull, what that means, and how to mend it. The first that is found decides."""


def pull(engine: Engine, name: str, reference: str, say: Callable[[str], None]) -> tuple[str, str | None]:
    """Make `engine` pull the image `name`, unless it has it, and name it `reference` (`repository:tag`) there.

    `name` may have a tag or a digest (`repository@sha256:…`). Return the image's id, and the digest form by which other
    hosts get the same image, or None for an image that came from no registry. `say` is told that a pull begins. The logins
    of this machine are handed on, as Docker's own client does.
    """
    facts = inspected(engine, name)
    if facts is None:
        say(f"pulling {name}")
        _pull(engine, name)
        facts = inspected(engine, name)
    if facts is None:
        raise HostError(engine.host, f"its engine pulled {printable(name)} and does not have it", "run this again")
    tag(engine, facts["Id"], reference)
    repository = _familiar(_repository(name))
    digests = [it for it in facts.get("RepoDigests") or () if _familiar(it.partition("@")[0]) == repository]
    return str(facts["Id"]), digests[0] if digests else None


def _pull(engine: Engine, name: str) -> None:
    try:
        with engine.errors():
            lines = engine.api.pull(name, stream=True, decode=True)
            errors = [str(line["error"]) for line in lines if "error" in line]
    except HostError as error:  # said at once, before there is a stream
        errors = [getattr(error.__cause__, "explanation", None) or ""]
        if not errors[0]:
            raise
    if errors:
        raise HostError(engine.host, *meaning(name, errors[0]))


def meaning(name: str, text: str) -> tuple[str, str]:
    """Return what an engine's words mean and how to mend it."""
    facts = {"name": printable(name), "registry": _registry(name)}
    for pattern, what, fix in _REASONS:
        if re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            return what.format(**facts), fix.format(**facts)
    return explain(text)


def _repository(name: str) -> str:
    bare = name.partition("@")[0]
    return bare.rpartition(":")[0] if ":" in bare.rpartition("/")[2] else bare


def _registry(name: str) -> str:
    first, slash, _ = name.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"


def _familiar(repository: str) -> str:
    return repository.removeprefix("docker.io/").removeprefix("library/")
