"""Names of images in registries, by the grammar that Docker has for them: `[registry/]repository[:tag][@digest]`."""

import re

from tfprov.errors import shown
from tfprov.model.checks import Wrong

LONGEST = 255
"""Characters of registry and repository together."""

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY = re.compile(rf"(\[[0-9a-fA-F:]+\]|{_LABEL}(\.{_LABEL})*)(:[0-9]{{1,5}})?")
_PART = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_IMAGE_ID = re.compile(r"(sha256:)?[0-9a-f]{64}")
PATTERN = (
    rf"^(?!{_IMAGE_ID.pattern}$)(?:{_REGISTRY.pattern}/)?{_PART.pattern}(?:/{_PART.pattern})*"
    rf"(?::{_TAG.pattern})?(?:@(?:{_DIGEST.pattern}))?$"
)
"""What every name of an image matches, for editors; `reference` knows more."""


def reference(value: str) -> str:
    """Check the name of an image in a registry. Raises Wrong with what is amiss."""
    if not value.strip():
        raise Wrong("must not be empty")
    given = f"`{shown(value)}`"
    if "://" in value:
        raise Wrong(f"must be the name of an image, not the URL {given}", "leave out what ends in `://`")
    if value.startswith((".", "/", "~")):
        raise Wrong(
            f"must be the name of an image, not the path {given}", "use `build` for a directory, `archive` for a file"
        )
    if _IMAGE_ID.fullmatch(value):
        raise Wrong("must be the name of an image in a registry, not the id of an image")
    rest, at, digest = value.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise Wrong(f"{given} has a digest that is not `sha256:` and 64 hexadecimal digits in lower case")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:  # that colon belongs to the registry's port
        name, tag = rest, "latest"
    if not _TAG.fullmatch(tag):
        fix = "use letters, digits, `_`, `.` and `-`, at most 128 of them"
        raise Wrong(f"{given} has {f'the tag `{shown(tag)}`' if tag else 'no tag behind its `:`'}", fix)
    if reason := _wrong_repository(name):
        raise Wrong(reason.format(given=given))
    return value


def _wrong_repository(name: str) -> str | None:
    first, slash, path = name.partition("/")
    in_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    if in_registry and not _REGISTRY.fullmatch(first):
        return "{given} has a registry that is not `host` or `host:port`"
    path = path if in_registry else name
    if path != path.lower():
        return "must be in lower case up to the tag, not {given}"
    if not all(map(_PART.fullmatch, path.split("/"))):
        return "must be the name of an image in a registry, not {given}"
    return f"must be at most {LONGEST} characters long" if len(name) > LONGEST else None
