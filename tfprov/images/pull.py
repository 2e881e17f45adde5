"""An image that a registry has, pulled by a host's own engine: `image: {name: …}`."""

import re
from collections.abc import Callable

from tfprov.errors import HostError, shown
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_errors import explain
from tfprov.images.engine_images import inspected, tag

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
        raise HostError(engine.host, f"its engine pulled {shown(name)} and does not have it", "run this again")
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
    facts = {"name": shown(name), "registry": _registry(name)}
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
