"""Values with several spellings, such as `64m` and `65536k`: another spelling restarts no task."""

import pytest

from tests.support.memory_cluster import make_context
from tfprov.planning.reconcile import differences, is_same

LAB = """
all: {vars: {tfprov: {cluster: lab, command: [python], runtime: docker, image: {name: "a:1"}, SETTING}}}
worker: {hosts: {h1: }}
"""


def changes(before: str, after: str) -> list[str]:
    first, second = (make_context(LAB.replace("SETTING", text)).wanted[0].spec for text in (before, after))
    return differences(first, second)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("memory: 64m", "memory: 65536k"),
        ("memory: 1.5g", "memory: 1536M"),
        ("shm_size: 1g", "shm_size: 1024m"),
        ("cpus: 1", "cpus: 1.0"),
        ("devices: [/dev/dri, /dev/kfd]", "devices: [/dev/kfd, /dev/dri]"),
        ("ulimits: {core: 0, stack: 8}", "ulimits: {stack: 8, core: 0}"),
        ("user: 1000", "user: '1000'"),
        ("env: {A: 1}", "env: {A: '1'}"),
        ("flags: {a: 1}", "flags: {a: '1'}"),
        ("mounts: [{source: /a/b, target: /x}]", "mounts: [{source: /a//b/, target: /x/}]"),
        (
            "mounts: [{nfs: {server: s1, path: /a}, target: /x}]",
            "mounts: [{nfs: {server: s1, path: /a/.}, target: //x}]",
        ),
        ("data: {path: /a/b, to: /d}", "data: {path: /a//b/, to: /d/}"),
        ("restart_on: [1, 2]", "restart_on: [2, 1]"),
        ("no_restart_on: [1, 2]", "no_restart_on: [1, 2, 1]"),
        (
            "mounts: [{source: /a, target: /x}, {source: /b, target: /y}]",
            "mounts: [{source: /b, target: /y}, {source: /a, target: /x}]",
        ),
    ],
)
def test_another_spelling_is_no_change(before: str, after: str) -> None:
    assert changes(before, after) == []


def test_another_value_is_a_change() -> None:
    assert changes("memory: 64m", "memory: 65m") == ["memory: 64m -> 65m"]
    assert changes("memory: 64m", "pids: 4096") == ["memory: 64m -> (not set)"]
    assert changes("read_only: true", "pids: 4096") == ["read_only: true -> (not set)"]
    assert changes("devices: [/dev/kfd]", "devices: [/dev/dri]") == ["devices"]
    assert changes("ulimits: {core: 0, stack: 8}", "ulimits: {core: 1}") == [
        "ulimits.core: 0 -> 1",
        "ulimits.stack: 8 -> (not set)",
    ]
    assert changes("mounts: [{source: /a, target: /x}]", "mounts: [{source: /b, target: /x}]") == ["mounts"]
    assert changes("restart_on: [1, 2]", "restart_on: [1]") == ["restart_codes.only"]


@pytest.mark.parametrize("name", ["memory", "mounts", "data.to", "restart_codes.only", "restart_codes.never", "image"])
@pytest.mark.parametrize("value", [None, 5, "nonsense", [1, "a"], {"a": 1}])
def test_a_label_that_tfprov_did_not_write_is_a_change(name: str, value: object) -> None:
    assert not is_same(name, value, "64m")
