"""Compose and Swarm: the rendered services, compared with those of the reference."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given

from tests.support.command_output import run_command
from tests.support.examples import examples
from tests.support.fast_yaml import read_yaml
from tests.support.inventory_strategies import inventories
from tests.support.kubernetes_objects import cluster_of, files_of
from tests.support.rendered_wiring import IMAGE, assert_wiring, by_service, services
from tests.support.vaults import encrypt, value
from tfprov.errors import InvalidInput, Usage

ECOSYSTEM = """
all:
  vars:
    tfprov:
      cluster: mnist
      image: {name: "img:v1"}
      command: [python, mnist.py]
      flags: {data_dir: "hdfs://namenode/data_dir", train_dir: "hdfs://namenode/train_dir"}
      port: 5000
  children:
    ps: {hosts: {a: }}
    worker: {hosts: {"b[1:2]": }}
    tensorboard:
      hosts: {b1: }
      vars: {tfprov: {command: [tensorboard, "--logdir=hdfs://namenode/train_dir"], port: 6006}}
"""
"""The defaults of the reference's template for Swarm."""
TARGETS = ("compose", "swarm")
each = pytest.mark.parametrize("target", TARGETS)


def with_setting(text: str) -> str:
    """Return the inventory with one more setting for all."""
    return ECOSYSTEM.replace("      port: 5000", f"      port: 5000\n      {text}")


@each
def test_the_references_defaults_are_four_services(target: str) -> None:
    rendered = services(files_of(ECOSYSTEM, target))
    assert list(rendered) == ["ps-0", "worker-0", "worker-1", "tensorboard-0"]
    assert rendered["worker-1"]["image"] == "img:v1"
    assert rendered["worker-1"]["entrypoint"] == [
        "python", "mnist.py", "--job_name=worker", "--task_index=1", "--ps_hosts=ps-0:5000",
        "--worker_hosts=worker-0:5000,worker-1:5000", "--data_dir=hdfs://namenode/data_dir",
        "--train_dir=hdfs://namenode/train_dir",
    ]  # fmt: skip
    assert rendered["tensorboard-0"]["entrypoint"][0] == "tensorboard"


@each
def test_without_a_tensorboard_there_are_three(target: str) -> None:
    inventory = ECOSYSTEM[: ECOSYSTEM.index("    tensorboard:")]
    assert list(services(files_of(inventory, target))) == ["ps-0", "worker-0", "worker-1"]


@each
def test_the_images_entrypoint_is_replaced(target: str) -> None:
    # The reference set `command`, which an image with an ENTRYPOINT takes as arguments.
    for service in services(files_of(ECOSYSTEM, target)).values():
        assert service["entrypoint"]
        assert "command" not in service


@each
def test_an_empty_image_is_refused_at_its_line(target: str) -> None:
    # The reference rendered null.
    with pytest.raises(InvalidInput, match=r"inventory.yml:6:15: error: `image.name` must not be empty"):
        files_of(ECOSYSTEM.replace("img:v1", ""), target)


@each
def test_no_port_of_a_server_is_published(target: str) -> None:
    for name, service in services(files_of(ECOSYSTEM, target)).items():
        if name != "tensorboard-0":
            assert "ports" not in service


def test_a_tensorboard_is_published_on_this_machine_only() -> None:
    rendered = services(files_of(ECOSYSTEM, "compose"))
    assert rendered["tensorboard-0"]["ports"] == ["127.0.0.1:6006:6006"]
    assert "ports" not in services(files_of(ECOSYSTEM, "swarm"))["tensorboard-0"]
    published = services(files_of(ECOSYSTEM, "swarm", "publish=8006"))["tensorboard-0"]["ports"]
    assert published == [{"target": 6006, "published": 8006, "protocol": "tcp", "mode": "host"}]


def test_a_task_that_succeeded_is_not_restarted() -> None:
    for service in services(files_of(ECOSYSTEM, "swarm")).values():
        assert service["deploy"]["restart_policy"] == {"condition": "on-failure", "max_attempts": 3}
        assert service["deploy"]["endpoint_mode"] == "dnsrr"
    for service in services(files_of(ECOSYSTEM, "compose")).values():
        assert service["restart"] == "on-failure:3"
    never = with_setting("restart: never")
    assert services(files_of(never, "compose"))["ps-0"]["restart"] == "no"
    assert services(files_of(never, "swarm"))["ps-0"]["deploy"]["restart_policy"] == {"condition": "none"}


def test_the_chief_depends_on_all_other_services() -> None:
    rendered = services(files_of(ECOSYSTEM, "compose"))
    assert {name: service.get("depends_on") for name, service in rendered.items() if service.get("depends_on")} == {
        "worker-0": ["ps-0", "worker-1", "tensorboard-0"]
    }


@each
def test_readers_of_the_chiefs_files_share_its_volume(target: str) -> None:
    def volumes(service: dict[str, Any]) -> list[str]:
        return [volume["source"] for volume in service["volumes"]]

    (text,) = files_of(ECOSYSTEM, target).values()
    volumes_by_service = {name: volumes(service) for name, service in read_yaml(text)["services"].items()}
    assert volumes_by_service == {
        "ps-0": ["checkpoints"], "worker-0": ["checkpoints"], "worker-1": ["worker-1"], "tensorboard-0": ["checkpoints"],
    }  # fmt: skip
    assert read_yaml(text)["volumes"] == {"checkpoints": {}, "worker-1": {}}


def test_the_chief_and_readers_of_its_files_are_placed_on_one_node() -> None:
    def places(*settings: str) -> dict[str, list[str]]:
        stack = services(files_of(ECOSYSTEM, "swarm", *settings))
        return {name: service["deploy"].get("placement", {}).get("constraints", []) for name, service in stack.items()}

    manager, named = ["node.role == manager"], ["node.hostname == big"]
    assert places() == {"ps-0": [], "worker-0": manager, "worker-1": [], "tensorboard-0": manager}
    assert places("node=big") == {"ps-0": [], "worker-0": named, "worker-1": [], "tensorboard-0": named}
    assert places("place=hosts")["worker-1"] == ["node.hostname == b2"]


def test_tasks_that_are_published_have_different_ports() -> None:
    readers = "    serving: {hosts: {b1: }}\n    notebook: {hosts: {b1: }}\n"
    rendered = services(files_of(f"{ECOSYSTEM}{readers}".replace(", port: 6006", ""), "compose"))
    published = [rendered[name]["ports"] for name in ("tensorboard-0", "serving-0", "notebook-0")]
    assert published == [[f"127.0.0.1:{number}:{number}"] for number in (5000, 5001, 5002)]
    assert "--rest_api_port=5001" in rendered["serving-0"]["entrypoint"]
    assert "--ps_hosts=ps-0:5000" in rendered["ps-0"]["entrypoint"]


ULIMITS = "ulimits: {memlock: -1, stack: 67108864}"


def test_limits_and_gpus_are_rendered() -> None:
    inventory = with_setting(
        "memory: 1.5g\n      shm_size: 1g\n      cpus: 2.5\n      gpus: 2\n      pids: 100\n      read_only: true"
    )
    rendered = services(files_of(inventory, "compose"))
    assert (rendered["ps-0"]["mem_limit"], rendered["ps-0"]["cpus"], rendered["ps-0"]["pids_limit"]) == (
        "1536m",
        2.5,
        100,
    )
    assert rendered["ps-0"]["shm_size"] == "1g"
    shared = {"type": "tmpfs", "target": "/dev/shm", "tmpfs": {"size": 2**30}}
    assert services(files_of(inventory, "swarm"))["ps-0"]["volumes"][-1] == shared
    for target in ("compose", "swarm"):
        read_only = services(files_of(inventory, target))["worker-0"]
        assert (read_only["read_only"], read_only["tmpfs"]) == (True, ["/tmp"])
        assert read_only["environment"]["HOME"] == "/tmp"
        own = services(
            files_of(inventory.replace("read_only: true", "read_only: true\n      env: {HOME: /data}"), target)
        )
        assert own["worker-0"]["environment"]["HOME"] == "/data"
    devices = rendered["worker-0"]["deploy"]["resources"]["reservations"]["devices"]
    assert devices == [{"driver": "nvidia", "count": 2, "capabilities": ["gpu"]}]
    assert "deploy" not in rendered["ps-0"]
    of_host = services(files_of(with_setting(f"devices: [/dev/kfd, /dev/dri]\n      {ULIMITS}"), "compose"))
    assert of_host["worker-0"]["devices"] == ["/dev/kfd:/dev/kfd", "/dev/dri:/dev/dri"]
    assert "devices" not in of_host["ps-0"]
    stacked = services(files_of(with_setting(ULIMITS), "swarm"))
    for service in (of_host["worker-0"], of_host["ps-0"], stacked["worker-0"]):
        assert service["ulimits"] == {"memlock": -1, "stack": 67108864}
    stack = services(files_of(inventory, "swarm"))["worker-0"]["deploy"]["resources"]
    assert stack["limits"] == {"cpus": "2.5", "memory": "1536m"}
    assert stack["reservations"]["generic_resources"] == [
        {"discrete_resource_spec": {"kind": "NVIDIA-GPU", "value": 2}}
    ]
    with pytest.raises(InvalidInput, match=r"yml:10:\d+: error: `gpus: all`: a swarm counts GPUs"):
        files_of(with_setting("gpus: all"), "swarm")


@each
def test_a_dollar_is_not_interpolated(target: str) -> None:
    hard = '$HOME ${X:-y} $$ it\'s "q" \\ #: é'
    inventory = with_setting(f"env: {{HARD: {yaml.dump(hard, default_style=chr(39)).strip()}}}")
    inventory = inventory.replace("hdfs://namenode/data_dir", "$(id) $HOME {{ '{{ x }}' }}")
    for task in by_service(files_of(inventory, target)):
        assert task.env.get("HARD") == (None if task.task == "tensorboard/0" else hard)
    (worker,) = (task for task in by_service(files_of(inventory, target)) if task.task == "worker/0")
    assert "--data_dir=$(id) $HOME {{ x }}" in worker.argv


@pytest.mark.parametrize("target", [*TARGETS, "slurm"])
def test_a_secret_is_read_from_the_environment(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (ciphertext,) = encrypt("tell-nobody")
    Path("password").write_text("open sesame")
    Path("inventory.yml").write_text(with_setting(f"env:\n        TOKEN: {value(ciphertext, 10)}"))
    result = run_command(capsys, "render", target, "--vault-password-file", "password")
    assert result.code == 0
    assert "${TOKEN:?is secret and not in this file}" in result.out
    assert "tell-nobody" not in result.out
    refused = run_command(
        capsys, "render", "marathon", "--vault-password-file", "password", "--set", "checkpoints=/shared"
    )
    assert refused.code == 2
    assert "`env.TOKEN` is secret, and others can read the rendered files" in refused.lines[0]


def test_compose_mounts_code_from_this_machine() -> None:
    inventory = with_setting("code: ./program")
    service = services(files_of(inventory, "compose"))["worker-0"]
    assert service["working_dir"] == "/code"
    assert service["environment"]["PYTHONPATH"] == "/tfprov"
    bound = {volume["target"]: volume for volume in service["volumes"] if volume["type"] == "bind"}
    assert set(bound) == {"/code", "/tfprov/tfprov"}
    assert all(volume["read_only"] for volume in bound.values())
    own = with_setting("code: ./program\n      env: {PYTHONPATH: /mine}")
    assert services(files_of(own, "compose"))["worker-0"]["environment"]["PYTHONPATH"] == "/tfprov:/mine"
    with pytest.raises(InvalidInput, match="swarm does not deliver `code` to its tasks"):
        files_of(inventory, "swarm")
    assert "volumes" in services(files_of(inventory, "swarm", "code=image"))["worker-0"]


def test_compose_builds_images() -> None:
    built = ECOSYSTEM.replace('{name: "img:v1"}', '{build: ./image, build_args: {PACKAGES: "a==1 $b"}}')
    (text,) = files_of(built, "compose").values()
    service = read_yaml(text)["services"]["ps-0"]
    assert service["image"] == "tfprov-compose/mnist"
    assert service["build"]["context"] == str(Path("image").absolute())
    assert service["build"]["args"] == {"PACKAGES": "a==1 $$b"}
    with pytest.raises(InvalidInput, match=r"`image\.build` is not in a registry: swarm has to pull it"):
        files_of(built, "swarm")
    assert services(files_of(built, "compose", "image=other:1"))["ps-0"]["image"] == "other:1"


WRONG: list[tuple[str, str, list[str], str]] = [
    ("swarm", "data: {path: data}", [], "`data.path` must be an absolute path: it is one of"),
    ("compose", 'command: [python, "a\\nb"]', [], "must be one line"),
    ("swarm", 'mounts: [{source: /d, target: "/x\\ny"}]', [], "must be one line"),
]


@pytest.mark.parametrize(("target", "setting", "settings", "message"), WRONG, ids=[one[1] for one in WRONG])
def test_settings_that_cannot_be_rendered_are_refused(
    target: str, setting: str, settings: list[str], message: str
) -> None:
    inventory = (
        ECOSYSTEM.replace("      command: [python, mnist.py]\n", "") if setting.startswith("command") else ECOSYSTEM
    )
    inventory = inventory.replace("      port: 5000", f"      port: 5000\n      {setting}")
    with pytest.raises(InvalidInput, match=message):
        files_of(inventory, target, *settings)


def test_the_longest_cluster_name_fits_into_a_stacks_dns_names() -> None:
    longest = ECOSYSTEM.replace("cluster: mnist", f"cluster: {'a' * 40}")
    assert services(files_of(longest, "swarm"))


@pytest.mark.parametrize(
    ("target", "setting", "message"),
    [
        (
            "compose",
            "publish=everywhere",
            "`--set publish` must be an IPv4 address, such as 127.0.0.1, not `everywhere`",
        ),
        ("swarm", "publish=0", "`--set publish` must be a whole number from 1 to 65535, not `0`"),
        ("swarm", "node=a b", "`--set node` must be the host name of a node, not `a b`"),
        ("swarm", "node=big\n", "`--set node` must be the host name of a node"),
    ],
)
def test_invalid_options_are_refused(target: str, setting: str, message: str) -> None:
    with pytest.raises(Usage, match=message):
        files_of(ECOSYSTEM, target, setting)


@each
@examples(15)
@given(inventory=inventories())
def test_every_compose_task_reads_its_wiring(target: str, inventory: str) -> None:
    options = [IMAGE, "code=image"] if target == "swarm" else [IMAGE]
    cluster = cluster_of(inventory, target, *options)
    assert_wiring(inventory, cluster, list(by_service(files_of(inventory, target, *options))))


def test_the_command_line_renders_a_compose_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("inventory.yml").write_text(ECOSYSTEM)
    assert run_command(capsys, "render", "compose", "-o", "compose.yml").code == 0
    assert read_yaml(Path("compose.yml").read_text())["services"]
