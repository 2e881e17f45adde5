"""Configurations put together from an engine's answers, byte for byte."""

import json
from typing import Any

import pytest

from tfprov.images.exports.engine_config import UNKNOWN, engine_config
from tfprov.images.oci_spec import digest_of

CONFIG = {"Hostname": "", "Env": ["A=b&<c>", 'B=\u2028\u00e9"\\'], "Cmd": None, "Labels": {"a": "1", "b": "2"}}
STEPS: list[dict[str, Any]] = [
    {"created": "2026-11-01T01:02:03.1Z", "created_by": "ADD file:1 in /"},
    {"created": "2026-11-01T01:02:04.2Z", "created_by": 'CMD ["bash"]', "empty_layer": True},
    {"created": "2026-11-25T13:47:50Z", "author": "me", "created_by": "RUN a && b >c", "comment": "by hand"},
    {"created": "2026-11-25T13:47:54.601289331Z", "created_by": "LABEL x", "empty_layer": True},
]


def document(steps: list[dict[str, Any]], **more: Any) -> bytes:
    """Return a configuration as an engine stores it."""
    layers = [f"sha256:{number}" for number, step in enumerate(steps) if not step.get("empty_layer")]
    fields = {
        "architecture": "amd64", "config": CONFIG, "container": "8e33", "container_config": {**CONFIG, "Cmd": ["sh"]},
        "created": steps[-1]["created"], "docker_version": "20.10.24", "history": steps, "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": layers}, **more,
    }  # fmt: skip
    text = json.dumps(dict(sorted(fields.items())), separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()


def answers(data: bytes, known: int) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
    """Return an engine's facts, history, and facts on its steps; it knows the images of those from `known` on."""
    config = json.loads(data)
    facts = {
        "Id": digest_of(data), "Comment": "", "Author": "", "Created": config["created"], "Config": config["config"],
        "Container": config["container"], "ContainerConfig": config["container_config"],
        "DockerVersion": config["docker_version"],
        "Architecture": "amd64", "Os": "linux", "RootFS": {"Type": "layers", "Layers": config["rootfs"]["diff_ids"]},
    }  # fmt: skip
    history, steps, layers = [], {}, 0
    for number, step in enumerate(config["history"]):
        layers += not step.get("empty_layer")
        is_last = number == len(config["history"]) - 1
        name = digest_of(data) if is_last else f"step{number}" if number >= known else UNKNOWN
        history.append({"Id": name, "CreatedBy": step.get("created_by", "")})
        rootfs = {"Layers": config["rootfs"]["diff_ids"][:layers]}
        created = {"Created": step["created"], "Author": step.get("author", ""), "Comment": step.get("comment", "")}
        if name.startswith("step"):
            steps[name] = {"Id": name, "RootFS": rootfs, **created}
    return facts, history, steps


def test_an_image_of_this_engine_alone_is_put_together_from_its_answers() -> None:
    data = document(STEPS)
    assert engine_config(*answers(data, 0), []) == data


def test_a_later_engine_leaves_order_and_image_of_the_settings_out() -> None:
    ordered = {
        "Hostname": "",
        "Env": ["A=b"],
        "Cmd": ["x"],
        "Image": "sha256:parent",
        "Labels": {"a": "1"},
        "Shell": ["sh"],
    }
    last = {
        **{key: ordered[key] for key in ordered if key != "Shell"},
        "Hostname": "8e33",
        "Cmd": ["sh", "-c", "#(nop)"],
    }
    data = document(STEPS, config=ordered, container_config=last)
    facts, history, steps = answers(data, 0)
    answered = dict(sorted({**ordered, "Image": ""}.items()))
    assert engine_config({**facts, "Config": answered}, history, steps, []) == data
    assert engine_config({**facts, "Config": answered, "ContainerConfig": None}, history, steps, []) is None
    assert engine_config({**facts, "Config": None}, history, steps, []) is None


@pytest.mark.parametrize("known", [1, 2])
def test_the_times_of_a_base_from_a_registry_come_from_another_image(known: int) -> None:
    data = document(STEPS)
    other = document([*STEPS[:2], {"created": "2026-11-24T00:00:00Z", "created_by": "RUN other"}])
    assert engine_config(*answers(data, known), []) is None
    assert engine_config(*answers(data, known), [b'{"history": null}', other]) == data


def test_a_step_that_was_run_again_has_its_new_time() -> None:
    data = document(STEPS)
    earlier = document([*STEPS[:2], {**STEPS[2], "created": "2026-11-20T00:00:00Z"}, STEPS[3]])
    assert engine_config(*answers(data, 1), [earlier]) == data


@pytest.mark.parametrize("more", [{"moby.buildkit.buildinfo.v1": "e30="}, {"created": "2026"}, {"variant": "v8"}])
def test_a_configuration_with_another_digest_is_no_answer(more: dict[str, Any]) -> None:
    facts, history, steps = answers(document(STEPS, **more), 0)
    assert engine_config({**facts, "Created": STEPS[-1]["created"]}, history, steps, []) is None


def test_all_that_an_engine_tells_of_an_image_is_in_its_configuration() -> None:
    created, created_by = STEPS[3]["created"], STEPS[3]["created_by"]
    last = {"created": created, "author": "me", "created_by": created_by, "comment": "the last", "empty_layer": True}
    more = {"author": "me", "comment": "the last", "os.version": "10.0", "variant": "v8"}
    data = document([*STEPS[:3], last], **more)
    facts, history, steps = answers(data, 0)
    named = {"Author": "me", "Comment": "the last", "OsVersion": "10.0", "Variant": "v8"}
    assert engine_config({**facts, **named}, history, steps, []) == data
    for name in named:
        assert engine_config({**facts, **named, name: ""}, history, steps, []) is None


def test_a_step_that_is_gone_is_no_answer() -> None:
    facts, history, steps = answers(document(STEPS), 0)
    assert engine_config(facts, history, {}, []) is None
    assert engine_config(facts, history, {name: step | {"RootFS": None} for name, step in steps.items()}, []) is None
