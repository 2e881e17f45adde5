"""An image's configuration out of an engine's answers, which lack only its exact bytes.

Engines hand out the bytes with a whole image alone. An image's id is their digest, so bytes that were put together
wrongly are never taken for the configuration.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfprov.images.oci_spec import digest_of

WITH_CONTAINER_CONFIG = "1.44"
"""The last version of the API whose answers have `ContainerConfig`, which is a part of the configuration."""
UNKNOWN = "<missing>"
"""The id, in an engine's history, of a step that another engine has built."""
_FIELDS = {
    "architecture": "Architecture",
    "author": "Author",
    "comment": "Comment",
    "config": "Config",
    "container": "Container",
    "container_config": "ContainerConfig",
    "created": "Created",
    "docker_version": "DockerVersion",
    "os": "Os",
    "os.version": "OsVersion",
    "variant": "Variant",
}
"""The configuration's fields and those of the engine's answer."""
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
"""What Go's JSON encoder escapes in a stored configuration, and not in the engine's answers."""

Facts = Mapping[str, Any]


def engine_config(
    facts: Facts, history: Sequence[Facts], steps: Mapping[str, Facts], stored: Sequence[bytes]
) -> bytes | None:
    """Return the configuration of the image with the engine's `facts`; None when it cannot be put together.

    `history` is the engine's, the oldest step first; `steps` are the facts on the images of its steps, by id, and
    `stored` the configurations of other images, which tell the times of steps that another engine has built.
    """
    known = [entries for document in stored if (entries := _stored_history(document))]
    for settings in _settings(facts):
        for entries in _histories(facts, history, steps, known):
            document = _encode(settings, entries)
            if digest_of(document) == facts["Id"]:
                return document
    return None


def _settings(facts: Facts) -> Iterator[Facts]:
    """Yield the facts with the possible values of `Config`: as answered, and as Docker 28 has left it before.

    It answers with the keys in the order of the alphabet and without the image of the last step, both of which
    `ContainerConfig` still has.
    """
    yield facts
    config, last = facts.get("Config") or {}, facts.get("ContainerConfig") or {}
    if list(config) != list(last):
        keys = sorted(config, key=lambda key: [*last, key].index(key))
        yield {**facts, "Config": {key: last[key] if key == "Image" and key in last else config[key] for key in keys}}


def _histories(
    facts: Facts, history: Sequence[Facts], steps: Mapping[str, Facts], known: Sequence[Sequence[Facts]]
) -> Iterator[list[Facts]]:
    """Yield the possible histories of the image: each begins like one that is known, and goes on as the engine tells."""
    for entries in [(), *known]:
        for number in sorted({0, _base(history), _shared(history, entries)}):
            if number <= _shared(history, entries):
                later = _later(
                    facts, history[number:], steps, sum(not it.get("empty_layer") for it in entries[:number])
                )
                if later is not None:
                    yield [*entries[:number], *later]


def _base(history: Sequence[Facts]) -> int:
    """Return how many steps belong to the image that another engine has built: the last of them has an id."""
    unknown = [number for number, step in enumerate(history) if step.get("Id") == UNKNOWN]
    return min(unknown[-1] + 2, len(history)) if unknown else 0


def _shared(history: Sequence[Facts], entries: Sequence[Facts]) -> int:
    number = 0
    for step, entry in zip(history, entries, strict=False):
        if (step.get("CreatedBy") or "") != entry.get("created_by", ""):
            break
        number += 1
    return number


def _later(
    facts: Facts, history: Sequence[Facts], steps: Mapping[str, Facts], layers: int
) -> list[dict[str, Any]] | None:
    """Return the entries of the steps that this engine has built, above `layers` layers; None if one is unknown."""
    entries = []
    for step in history:
        image = facts if step.get("Id") == facts["Id"] else steps.get(str(step.get("Id")))
        if image is None:
            return None
        number = len((image.get("RootFS") or {}).get("Layers") or ())
        entry = {
            "created": image.get("Created"),
            "author": image.get("Author"),
            "created_by": step.get("CreatedBy"),
            "comment": image.get("Comment"),
            "empty_layer": number == layers,
        }
        entries.append({name: value for name, value in entry.items() if value})
        layers = number
    return entries


def _encode(facts: Facts, history: Sequence[Facts]) -> bytes:
    """Write the configuration as the engine does: its fields sorted, those within them in the order of its answer."""
    fields = {name: facts[source] for name, source in _FIELDS.items() if facts.get(source)}
    fields["history"] = list(history)
    fields["rootfs"] = {"type": "layers", "diff_ids": list(facts["RootFS"]["Layers"])}
    document = json.dumps(dict(sorted(fields.items())), separators=(",", ":"), ensure_ascii=False)
    return document.translate(_ESCAPES).encode("utf-8", "replace")


def _stored_history(document: bytes) -> list[Facts]:
    entries = json.loads(document).get("history")
    return entries if isinstance(entries, list) and all(isinstance(it, dict) for it in entries) else []
