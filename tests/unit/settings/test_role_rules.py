"""The settings of containers, and validators at their limits."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.support.inventories import inventory, roles
from tfprov.errors import InvalidInput, Position, Problem, printable
from tfprov.model import validators
from tfprov.model.field_types import (
    check_checkpoint_dir,
    check_data_path,
    check_endpoint,
    check_image_name,
    check_user,
)
from tfprov.model.sections import Image, MountSetting, Span, span_seconds
from tfprov.model.settings import Settings
from tfprov.model.validators import InvalidValue, check_one_line, parse_size
from tfprov.model.yaml_node import Items
from tfprov.planning.tasks import assign_tasks
from tfprov.settings.pydantic_errors import to_flow_yaml
from tfprov.settings.resolve import resolve

FULL = """\
all:
  vars:
    tfprov:
      cluster: linear
      image:
        build: ../images/train
        dockerfile: gpu.Dockerfile
        build_args: {TENSORFLOW: 2.18.0, CUDA: 12, DEBUG: false}
        build_on: builder
        ca_bundle: /etc/ssl/certs/proxy.pem
        pip_conf: ~/pip.conf
      command: [python, linear.py]
      memory: 4g
      cpus: 2
      gpus: all
      pids: 512
      mounts:
        - {source: /data/mnist, target: /data}
        - {source: /scratch, target: /scratch, read_only: false}
  children:
    ps: {hosts: {node1: }, vars: {tfprov: {memory: 512m, cpus: 0.5, mounts: []}}}
    worker: {hosts: {node2: {tfprov: {bind: 10.0.0.2}}, node3: {tfprov: {gpus: 2}}}}
  hosts: {builder: }
"""


LIMITS: Mapping[str, tuple[Callable[[Any], object], Sequence[Any], Sequence[Any]]] = {
    "address": (validators.check_address, ["a" * 253], ["a" * 254]),
    "endpoint": (check_endpoint, ["h:1", "h:65535"], ["h:0", "h:65536"]),
    "image's tag": (check_image_name, ["a:" + "t" * 128], ["a:" + "t" * 129]),
    "image's name": (check_image_name, ["a" * 255], ["a" * 256]),
    "user": (check_user, [0, 65534], [-1, 65535]),
    "user's name": (check_user, ["a" * 32, "9" * 10], ["a" * 33, "9" * 11]),
    "memory": (validators.check_memory, ["6m", "1048576g"], ["5.999m", "1048577g"]),
    "gpus": (validators.check_gpus, [0, 1024, "all"], [-1, 1025, True, "none"]),
    "file's name": (validators.check_file_name, ["n" * 200, "ü" * 100], ["n" * 201, "ü" * 101]),
    "sum": (validators.check_sha256, ["a" * 64], ["a" * 63, "a" * 65]),
    "URL's port": (validators.check_url, ["http://h:1/", "http://h:65535/"], ["http://h:0/", "http://h:65536/"]),
}
"""Of each check what it accepts at its limits, and what it refuses beyond them."""


def test_a_limit_is_accepted_and_what_is_beyond_it_is_not() -> None:
    def is_accepted(check: Callable[[Any], object], value: object) -> bool:
        try:
            check(value)
        except InvalidValue:
            return False
        return True

    verdicts = {name: ([is_accepted(check, one) for one in good], [is_accepted(check, one) for one in bad])
                for name, (check, good, bad) in LIMITS.items()}  # fmt: skip
    assert verdicts == {name: ([True] * len(good), [False] * len(bad)) for name, (_, good, bad) in LIMITS.items()}


@pytest.mark.parametrize(
    ("value", "example"), [(1, "1s"), (999999, "999999s"), (1000000, "10m"), (0, "10m"), (1.5, "10m")]
)
def test_a_span_without_a_unit_is_refused_with_an_example(value: float, example: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Span).validate_python(value)
    (error,) = caught.value.errors()
    assert error["msg"] == f"Value error, must be a number and `s`, `m`, `h` or `d`, such as `{example}`, not {value}"


def settings_of(settings: str, *extra: str, host: str = "node1") -> Settings:
    """Return the settings of one worker."""
    tfprov = f"{{cluster: linear, command: [python], {settings}}}"
    return roles(f"all: {{vars: {{tfprov: {tfprov}}}}}\nworker: {{hosts: {{{host}: }}}}", *extra)[0].values


def test_every_container_setting_is_read() -> None:
    ps, worker, other = (role.values for role in roles(FULL))
    assert worker.image == Image(
        build="../images/train",
        dockerfile="gpu.Dockerfile",
        build_args={"TENSORFLOW": "2.18.0", "CUDA": 12, "DEBUG": False},
        build_on="builder",
        ca_bundle="/etc/ssl/certs/proxy.pem",
        pip_conf="~/pip.conf",
    )
    assert (worker.image.kind, worker.runtime) == ("build", "docker")
    assert (worker.memory, worker.cpus, worker.gpus, worker.pids, worker.bind) == ("4g", 2, "all", 512, "10.0.0.2")
    assert worker.mounts == [
        MountSetting(source="/data/mnist", target="/data", read_only=True),
        MountSetting(source="/scratch", target="/scratch", read_only=False),
    ]
    assert (ps.memory, ps.cpus, ps.gpus, ps.mounts, ps.bind) == ("512m", 0.5, 0, [], None)
    assert (other.gpus, other.bind) == (2, None)


def test_limits_are_off_by_default() -> None:
    values = settings_of("image: {name: train}")
    assert (values.memory, values.cpus, values.gpus, values.pids) == (None, None, 0, 4096)
    assert (values.mounts, values.bind, values.allow_insecure_network) == ([], None, False)
    assert values.image is not None
    assert (values.image.dockerfile, values.image.build_args, values.image.build_on) == ("Dockerfile", {}, None)
    assert (values.image.ca_bundle, values.image.pip_conf) == (None, None)


@pytest.mark.parametrize(
    ("settings", "extra", "runtime", "kind"),
    [
        ("port: 1", (), "process", None),
        ("image: ", (), "process", None),
        ("runtime: process", (), "process", None),
        ("image: {name: train}", (), "docker", "name"),
        ("image: {build: .}", (), "docker", "build"),
        ("image: {archive: train.tar}", (), "docker", "archive"),
        ("image: {name: train}, runtime: docker", (), "docker", "name"),
        ("image: {name: train, build: null}", (), "docker", "name"),
        ("image: {build: .}", ("tfprov.image='{build: null, name: train}'",), "docker", "name"),
        ("image: {build: .}", ("tfprov.image=null", "tfprov.runtime=process"), "process", None),
        ("port: 1", ("tfprov.image.name='train:2'",), "docker", "name"),
        ('image: {name: "train:{{ 1 + 1 }}"}', (), "docker", "name"),
    ],
)
def test_the_runtime_follows_from_an_image(
    settings: str, extra: tuple[str, ...], runtime: str, kind: str | None
) -> None:
    values = settings_of(settings, *extra, host="localhost")
    assert (values.runtime, values.image and values.image.kind) == (runtime, kind)


GPUS = """\
all:
  vars: {{tfprov: {{cluster: linear, image: {{name: train}}, command: [python], {all}}}}}
  children:
    rack: {{hosts: {{node1: {{tfprov: {{{host}}}}}}}, vars: {{tfprov: {{{rack}}}}}}}
    ps: {{hosts: {{node1: }}, vars: {{tfprov: {{{ps}}}}}}}
    worker: {{hosts: {{node1: }}}}
"""


@pytest.mark.parametrize(
    ("settings", "extra", "ps", "worker"),
    [
        ({}, (), 0, 0),
        ({"all": "gpus: 1"}, (), 0, 1),
        ({"rack": "gpus: all"}, (), 0, "all"),
        ({}, ("tfprov.gpus=1",), 0, 1),
        ({"all": "gpus: 1", "ps": "gpus: 2"}, (), 2, 1),
        ({"ps": "gpus: 2"}, (), 2, 0),
        ({"ps": "gpus: 0", "all": "gpus: 1"}, (), 0, 1),
        ({"all": "gpus: 1", "host": "gpus: 2"}, (), 2, 2),
        ({"ps": "gpus: 2"}, ("tfprov.gpus=3",), 3, 3),
    ],
)
def test_a_ps_has_gpus_only_from_its_own_group_or_host(
    settings: Mapping[str, str], extra: tuple[str, ...], ps: int, worker: int | str
) -> None:
    text = GPUS.format(**({"all": "port: 1", "rack": "", "ps": "", "host": ""} | dict(settings)))
    assert [role.values.gpus for role in roles(text, *extra)] == [ps, worker]


def test_a_ps_has_devices_only_from_its_own_group_or_host() -> None:
    others = {"all": "port: 1", "rack": "", "ps": "", "host": ""}
    for group, ps in (("all", []), ("rack", []), ("ps", ["/dev/dri"]), ("host", ["/dev/dri"])):
        text = GPUS.format(**(others | {group: "devices: [/dev/dri]"}))
        assert roles(text)[0].values.devices == ps, group


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("6m", 6 << 20), ("512M", 512 << 20), ("4g", 4 << 30), ("1.5g", 3 << 29), ("8388608b", 8 << 20), ("0.1k", 102),
        ("10240K", 10 << 20),
    ],
)  # fmt: skip
def test_a_size_in_dockers_units(text: str, amount: int) -> None:
    assert parse_size(text) == amount


@pytest.mark.parametrize("text", ["", "4", "4gb", "g", " 4g", "4 g", "-4g", "+4g", "1e3m", "٤g", "4.g", ".5g", "4g\n"])
def test_an_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "name",
    [
        "train", "train:1.0", "library/train", "tensorflow/tensorflow:2.18.0-gpu", f"train@{DIGEST}", f"a/b:c@{DIGEST}",
        "localhost/train", "localhost:5000/train:latest", "127.0.0.1:5000/a/b/c", "registry.example.com/team_a/train-gpu",
        "ghcr.io/o/r__x.y-z", "Registry.Example.com:443/train", "[fe80::1]:5000/train", "a--b", "train:_x", "0",
        f"train@sha512:{'ab' * 64}", "a" * 255,
    ],
)  # fmt: skip
def test_a_name_that_docker_takes(name: str) -> None:
    assert check_image_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "", " ", "Train", "train:", "train:.x", f"train:{'x' * 129}", "train@", "train@sha256:ab", f"@{DIGEST}", ":1.0",
        "a/", "/a", "a//b", "-a", "a-", "a_", "a___b", "a..b", "a b", "http://a/b", "a.b:x/c", "a.b:/c", "a/b:c/d:e",
        DIGEST, DIGEST.removeprefix("sha256:"), DIGEST.upper(), f"train@{DIGEST.upper()}", "train:1:2", "ä", "a\n", "./a",
        "~/a", "[::1/a", "UPPER/train", "a" * 256,
    ],
)  # fmt: skip
def test_a_name_that_docker_refuses(name: str) -> None:
    with pytest.raises(InvalidValue):
        check_image_name(name)


@pytest.mark.parametrize(
    "settings",
    [
        "image: {name: train}, bind: 0.0.0.0, allow_insecure_network: true",
        "image: {name: train}, address: 127.0.0.1",
        "image: {name: train}, bind: 127.0.0.1",
        "image: {name: train}, mounts: [{source: /a, target: /data}, {source: /b, target: /data/b}]",
        "image: {name: train}, mounts: [{source: /a, target: /codes}, {source: /a, target: /checkpoints2}]",
        "image: {name: train}, mounts: [{source: /, target: /host, read_only: true}]",
        "image: {name: train}, pids: 64, cpus: 0.01, memory: 6m",
        "image: {build: ., build_on: node1}",
        "gpus: 0, mounts: [], allow_insecure_network: false",
        "memory: null, cpus: null, bind: null",
        "checkpoints: {dir: /code}",
    ],
)
def test_unusual_settings_are_accepted(settings: str) -> None:
    assert settings_of(settings)


def test_a_user_does_not_end_in_a_line_break() -> None:
    assert check_user("1000:1000") == "1000:1000"
    with pytest.raises(InvalidValue, match="must be a number or a name"):
        check_user("1000\n")


def test_a_tensorboard_may_be_alone_on_its_machine() -> None:
    text = """\
all:
  vars: {tfprov: {cluster: linear, image: {name: train}, command: [python]}}
  children:
    worker: {hosts: {localhost: {tfprov: {address: 127.0.0.1}}}}
    tensorboard: {hosts: {localhost: }, vars: {tfprov: {bind: 127.0.0.1}}}
"""
    assert [role.address for role in roles(text)] == ["127.0.0.1", "127.0.0.1"]


def test_behind_different_gateways_one_address_means_different_machines() -> None:
    text = """\
all: {vars: {tfprov: {cluster: linear, image: {name: train}, command: [python]}}}
worker:
  vars: {ansible_host: 192.168.0.2}
  hosts:
    node1: {ansible_ssh_common_args: -J site1, tfprov: {address: node1.site1}}
    node2: {ansible_ssh_common_args: -J site2, tfprov: {address: node2.site2}}
"""
    assert [role.connection.proxy_jump for role in roles(text)] == ["site1", "site2"]


@pytest.mark.parametrize(
    ("settings", "saves"),
    [("port: 1", True), ("checkpoints: none", False), ("strategy: standalone", False)],
)
def test_a_program_is_expected_to_save_unless_its_settings_say_otherwise(settings: str, saves: bool) -> None:
    assert settings_of(settings).saves is saves


def test_the_position_of_an_image_is_kept() -> None:
    role = roles(FULL)[1]
    assert (role.at("image", "build").line, role.at("image", "pip_conf").line) == (6, 11)
    assert isinstance(role.node.get("mounts"), Items)


def test_a_broken_inventory_reports_no_consequential_problems() -> None:
    settings = "{cluster: linear, command: [python], gpus: 1, runtime: docker, bind: 0.0.0.0}"
    read = inventory(f"all: {{vars: {{tfprov: {settings}}}}}\nworker: {{hosts: {{node1: }}}}")
    with pytest.raises(InvalidInput) as caught:
        resolve(read, [Problem(Position("-e"), "`a` is not a variable", "")])
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    "setting",
    [
        "deliver: {compress: always}", "memory: 1g", "shm_size: 1g", "cpus: 1", "gpus: 1", "devices: [/dev/fuse]",
        "pids: 100", "ulimits: {memlock: -1}", "user: '7'", "read_only: true", "mounts: [{source: /a, target: /b}]",
        "network: host", "bind: 0.0.0.0", "allow_insecure_network: true",
    ],
)  # fmt: skip
def test_a_setting_of_containers_is_refused_for_processes(setting: str) -> None:
    text = f"{{cluster: linear, command: [python], {setting}}}"
    with pytest.raises(InvalidInput) as raised:
        resolve(inventory(f"all: {{vars: {{tfprov: {text}}}}}\nworker: {{hosts: {{node1: }}}}"))
    assert [(it.what, it.fix) for it in raised.value.problems if "runtime: docker" in it.what] == [
        (f"`{setting.partition(':')[0]}` is for `runtime: docker`", "give an `image`, or remove it")
    ]


def test_the_models_convert_no_types() -> None:
    wrong: list[dict[str, Any]] = [
        {"cpus": True},
        {"gpus": True},
        {"memory": 4},
        {"mounts": ({},)},
        {"image": {"x": 1}},
    ]
    for values in wrong:
        with pytest.raises(ValidationError):
            Settings.model_validate({"cluster": "linear", **values})


@pytest.mark.parametrize("half", [0xD800, 0xDABC, 0xDFFF])
def test_a_lone_surrogate_is_refused_in_a_command(half: int) -> None:
    with pytest.raises(InvalidValue, match="must be text that UTF-8 can hold"):
        check_one_line(f"a{chr(half)}b")
    assert check_one_line("\ud7ff\ue000") == "\ud7ff\ue000", (
        "the characters before the first and behind the last of them"
    )


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("args", "command"), ("cmd", "command"), ("count", "tasks_per_host"), ("entrypoint", "command"),
        ("environment", "env"), ("gpu_count", "gpus"), ("mem_limit", "memory"), ("name", "cluster"),
        ("replicas", "tasks_per_host"), ("stop_grace_period", "stop_grace"), ("volumes", "mounts"),
        ("workers", "tasks_per_host"),
    ],
)  # fmt: skip
def test_other_tools_names_of_a_setting_are_suggested(name: str, suggestion: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        resolve(inventory(f"{SMALL_ONE}  {name}: 1\nworker: {{hosts: {{localhost: }}}}\n"))
    [problem] = [error for error in raised.value.problems if f"`{name}`" in error.what]
    assert problem.fix == f"did you mean `{suggestion}`?"


def test_other_tools_name_of_a_directory_is_suggested_in_a_section() -> None:
    with pytest.raises(InvalidInput) as raised:
        resolve(inventory(f"{SMALL_ONE}  checkpoints: {{directory: /srv}}\nworker: {{hosts: {{localhost: }}}}\n"))
    assert [problem.fix for problem in raised.value.problems if "directory" in problem.what] == ["did you mean `dir`?"]


SMALL_ONE = "all:\n vars:\n  tfprov:\n   cluster: lab\n   command: [a]\n "


def test_the_runtime_follows_from_the_image_and_the_ports_are_tensorflows_own() -> None:
    text = (
        f"{SMALL_ONE}{{}}worker: {{{{hosts: {{{{localhost: }}}}}}}}\ntensorboard: {{{{hosts: {{{{localhost: }}}}}}}}\n"
    )
    for settings, runtime in (("  restart: never\n", "process"), ("  image: {name: x}\n", "docker")):
        roles = resolve(inventory(text.format(settings)))
        assert {role.values.runtime for role in roles} == {runtime}
        assert {task.name: task.port for task in assign_tasks(roles).tasks} == {"worker/0": 2222, "tensorboard/0": 6006}


@pytest.mark.parametrize(
    ("example", "text"),
    [
        ("x", "x"), ("2", '"2"'), ("0.5", '"0.5"'), ("1.2.3", "1.2.3"), (2, "2"), (True, "true"), (None, "null"),
        (["a", 1], "[a, 1]"), ({"a": "x", "b": ["1"]}, '{a: x, b: ["1"]}'),
    ],
)  # fmt: skip
def test_an_example_is_printed_as_yaml(example: Any, text: str) -> None:
    assert to_flow_yaml(example) == text


@pytest.mark.parametrize(
    ("settings", "repeated"),
    [("strategy: single", False), ("strategy: between_graph", True), ("wiring: tf_config", False), ("gpus: 0", True)],
)
def test_a_flag_of_the_wiring_is_reported_with_other_errors_where_it_is_one(settings: str, repeated: bool) -> None:
    text = f"{SMALL_ONE}  port: x\n   {settings}\n   flags: {{job_name: a}}\nworker: {{hosts: {{localhost: }}}}\n"
    with pytest.raises(InvalidInput) as raised:
        resolve(inventory(text))
    whats = [error.what for error in raised.value.problems if "port" not in error.what]
    assert whats == ["`flags.job_name` is set by tfprov for every task"] * repeated


def test_a_key_without_a_name_is_quoted_in_its_error() -> None:
    with pytest.raises(InvalidInput) as raised:
        resolve(inventory(f"{SMALL_ONE}  env: {{'': a}}\nworker: {{hosts: {{localhost: }}}}\n"))
    assert [error.what for error in raised.value.problems] == ["`env.''` is not the name of an environment variable"]


@pytest.mark.parametrize(("strategy", "job"), [("multi_worker_mirrored", "worker"), ("parameter_server", "chief")])
def test_templates_of_a_chief_are_checked_as_those_of_its_job(strategy: str, job: str) -> None:
    template = f"{{{{ {{'{job}': 1}}[task.job] }}}}"
    text = f'{SMALL_ONE}  strategy: {strategy}\n   flags: {{a: "{template}"}}\nchief: {{hosts: {{localhost: }}}}\n'
    assert [role.role for role in resolve(inventory(text))] == ["chief"]


def test_templates_of_single_tasks_are_checked_with_all_others() -> None:
    text = f"{SMALL_ONE}  port: x\n   flags: {{a: '{{{{ nowhere }}}}'}}\nworker: {{hosts: {{localhost: }}}}\n"
    with pytest.raises(InvalidInput) as raised:
        resolve(inventory(text))
    assert [(error.at.line, "nowhere" in error.what) for error in raised.value.problems] == [
        (6, False),
        (7, True),
    ]


@pytest.mark.parametrize("name", ["stopGrace", "stop-grace", "StopGrace", "stop_grace_period", "stopGracePeriod"])
def test_a_setting_in_another_notation_is_suggested(name: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        resolve(inventory(f"{SMALL_ONE}  {name}: 1\nworker: {{hosts: {{localhost: }}}}\n"))
    assert [error.fix for error in raised.value.problems] == ["did you mean `stop_grace`?"]


OF_THE_SYSTEM = ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "sbin", "sys")
OF_ALL = ("home", "media", "mnt", "opt", "root", "run", "srv", "tmp", "usr", "var")


@pytest.mark.parametrize(
    "name",
    [
        "/", "//", "/.", *(f"/{name}" for name in (*OF_THE_SYSTEM, *OF_ALL)), *(f"/{name}/x" for name in OF_THE_SYSTEM),
        *(f"//./{name}/." for name in OF_ALL),
    ],
)  # fmt: skip
def test_a_system_directory_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        validators.check_directory(name)
    assert str(raised.value) == f"must not be the system's own directory `{name}`"


@pytest.mark.parametrize("name", [*(f"/{name}/x" for name in OF_ALL), "/x", "/binary", "/x/etc"])
def test_a_directory_below_a_shared_one_is_accepted(name: str) -> None:
    assert validators.check_directory(name) == name


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (validators.check_memory, "6m"), (validators.check_memory, "6291456b"),
        (validators.check_memory, "1048576g"), (validators.check_gpus, 0),
        (validators.check_gpus, 1024), (validators.check_gpus, "all"), (validators.address_error, "a" * 253),
        (validators.check_file_name, "é" * 100), (validators.check_file_name, "a" * 200), (validators.check_path, "~"),
        (validators.check_path, "~/x"), (validators.check_path, "x~"),
        (validators.check_data_path, "x/../y"), (validators.check_data_path, "/x"), (validators.check_url, "https://h:65535/a%20b?c#d"),
        (validators.check_url, "http://[::1]:1"), (validators.check_sha256, "ab" * 32), (validators.check_ipv4, "0.0.0.0"),
        (validators.check_ipv4, "127.0.0.1"), (validators.check_dockerfile, "a/b"), (validators.check_host_path, "/a/..b"),
        (validators.refuse_fraction, 2.0), (validators.require_unit, "4"), (validators.check_wiring, "flags"),
        (validators.check_wiring, {}),
    ],
)  # fmt: skip
def test_a_value_at_the_limit_of_its_setting_is_accepted(check: Callable[[Any], object], value: object) -> None:
    assert check(value) in (value, None)


SUM = "take what `sha256sum FILE` prints"


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (validators.check_memory, "6291455b", "must be at least 6m, not `6291455b`; "),
        (validators.check_memory, "1048577g", "must be at most 1048576g, not `1048577g`; "),
        (validators.check_memory, "4", "must be a number and one of the units b, k, m and g, not `4`; "),
        (validators.require_unit, 4, "must be a number and one of the units b, k, m and g, not `4`; "),
        (validators.check_gpus, 1025, "must be `all` or a number from 0 to 1024, not `1025`; "),
        (validators.check_gpus, -1, "must be `all` or a number from 0 to 1024, not `-1`; "),
        (validators.check_gpus, True, "must be `all` or a number from 0 to 1024, not `true`; "),
        (validators.check_gpus, "1", 'must be `all` or a number from 0 to 1024, not the text "1"; '),
        (validators.check_gpus, [], "must be `all` or a number from 0 to 1024, not a list; "),
        (validators.check_gpus, {}, "must be `all` or a number from 0 to 1024, not a mapping; "),
        (validators.check_gpus, None, "must be `all` or a number from 0 to 1024, not nothing; "),
        (validators.check_gpus, "", "must be `all` or a number from 0 to 1024, not an empty text; "),
        (validators.check_address, "a" * 254, f"must be a host name or an IPv4 address, not `{'a' * 57}...`; "),
        (validators.check_address, "300.1.1.1", "must be a host name or an IPv4 address, not `300.1.1.1`; "),
        (validators.check_address, "0.0.0.0", "must be an address that other hosts can reach, not `0.0.0.0`; "),
        (validators.check_address, "224.0.0.1", "must be an address that other hosts can reach, not `224.0.0.1`; "),
        (validators.check_address, "240.0.0.1", "must be an address that other hosts can reach, not `240.0.0.1`; "),
        (validators.check_ipv4, "h1", "must be an IPv4 address of the host, not `h1`; "),
        (validators.check_ipv4, "224.0.0.1", "must be an address that a host can have, not `224.0.0.1`; "),
        (validators.check_ipv4, "240.0.0.1", "must be an address that a host can have, not `240.0.0.1`; "),
        (validators.check_file_name, "é" * 100 + "a", "must not be longer than 200 bytes; "),
        (validators.check_file_name, ".a", "must be a name that does not begin with a dot, not `.a`; "),
        (validators.check_file_name, " ", "must be a name that does not begin with a dot, not ` `; "),
        (validators.check_file_name, "a/b", "must be a name without `/`, not `a/b`; "),
        (validators.check_file_name, "a\tb", "must be printable; "),
        (validators.check_path, "~x/y", "must not begin with another user's home directory, as in `~x/y`; "),
        (validators.check_path, " ", "must not be empty; "),
        (validators.check_data_path, "/.", "must not be the whole file system; "),
        (validators.check_data_path, "/a/../b", "must not contain `..`; "),
        (validators.check_directory, "/a/../b", "must not contain `..`; "),
        (validators.check_directory, "a", "must be an absolute path, not `a`; "),
        (validators.check_host_path, "a", "must be an absolute path, not `a`; "),
        (validators.check_host_path, "/a/..", "must not contain `..`; "),
        (validators.check_dockerfile, "/a", "must be a path inside the directory that `build` names, not `/a`; "),
        (validators.check_dockerfile, "~/a", "must be a path inside the directory that `build` names, not `~/a`; "),
        (validators.check_dockerfile, "a/../b", "must be a path inside the directory that `build` names, not `a/../b`; "),
        (validators.check_dockerfile, " ", "must not be empty; "),
        (validators.check_sha256, "sha256: " + "AB" * 32,
         f"must be the 64 hex digits alone; write `sha256: {'ab' * 32}`"),
        *((validators.check_sha256, "a" * digits,
           f"must be 64 hex digits, not `{printable('a' * digits)}`, which looks like {what}; {SUM}")
          for digits, what in ((32, "an MD5 sum"), (40, "a SHA-1 sum"), (56, "a SHA-224 sum"), (96, "a SHA-384 sum"),
                               (128, "a SHA-512 sum"))),
        (validators.check_sha256, "a" * 33, f"must be 64 hex digits, not `{'a' * 33}`; {SUM}"),
        (validators.check_sha256, "x" * 32, f"must be 64 hex digits, not `{'x' * 32}`; {SUM}"),
        (validators.check_url, "http://me:pw@h/x",
         "must not hold a user or a password; give a `url` that needs none: an inventory is no safe"),
        (validators.check_url, "ftp://h", "must begin with http:// or https://, not `ftp://h`; "),
        (validators.check_url, "http://h/a b",
         "must be plain ASCII without blanks; write other characters as %XX, such as %20 for a blank"),
        (validators.check_url, "http://h/é",
         "must be plain ASCII without blanks; write other characters as %XX, such as %20 for a blank"),
        (validators.check_url, "http://", "must name a host, and a port that can be, not `http://`; "),
        (validators.check_url, "http://h:0", "must name a host, and a port that can be, not `http://h:0`; "),
        (validators.check_url, "http://h:65536", "must name a host, and a port that can be, not `http://h:65536`; "),
        (validators.refuse_short_data, "https://h/x",
         "must be a mapping, not `https://h/x`; write `data: {fetch: [{url: …, sha256: …}]}`"),
        (validators.refuse_short_data, "/x", "must be a mapping, not `/x`; write `data: {path: /x}`"),
        (validators.refuse_short_source, "http://h",
         "must be a mapping, not `http://h`; write `{url: http://h, sha256: …}`"),
        (validators.refuse_single_source, "x", "must be a list, not `x`; write `fetch: [{url: …, sha256: …}]`"),
        (validators.refuse_single_source, {}, "must be a list, not a mapping; write `fetch: [{url: …, sha256: …}]`"),
        (validators.refuse_short_image, "x:1", "must be a mapping, not `x:1`; write `image: {name: x:1}`"),
        (validators.refuse_short_image, "./x", "must be a mapping, not `./x`; write `image: {build: ./x}`"),
        (validators.refuse_short_mount, "/a:/b", ("must be a mapping, not `/a:/b`; "
         "write `{source: /a, target: /b, read_only: false}`")),
        (validators.refuse_short_mount, "/a:/b:ro", "must be a mapping, not `/a:/b:ro`; write `{source: /a, target: /b}`"),
        (check_checkpoint_dir, "https://h/x", "`https://h/x`: https:// cannot hold it; use s3://, hdfs:// or gs://"),
        (check_checkpoint_dir, "s3://", "`s3://`: a URL needs a bucket; for example s3://bucket/run"),
        (check_data_path, "s3://me:pw@b/x",
         "`s3://b/x`: a URL must not hold a user or a password; set them as secret variables in `env`"),
        *((check_data_path, f"{scheme}://h/x",
           f"`{scheme}://h/x`: {scheme}:// cannot hold it; use `fetch` with the `url` and `sha256` of each file")
          for scheme in ("http", "https", "ftp")),
        (validators.check_wiring, "both", "must be `flags`, `tf_config` or a mapping, not `both`; "),
        (validators.check_wiring, None, "must be `flags`, `tf_config` or a mapping, not nothing; "),
        (validators.refuse_fraction, 2.5, "must be a whole number, not 2.5; "),
        (validators.check_command, [" "], "must begin with a program; "),
        (validators.check_one_line, "a\0", "must not hold a null byte; remove it"),
        (validators.check_one_line, "a\rb", "must be one line; remove the line break"),
        (validators.check_one_line, "\ud800", "must be text that UTF-8 can hold; "),
    ],
)  # fmt: skip
def test_an_invalid_value_is_reported_in_full(check: Callable[[Any], object], value: object, message: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        check(value)
    assert f"{raised.value}; {raised.value.fix}" == message


def test_a_cluster_without_a_ps_is_reported_at_the_last_group_that_trains() -> None:
    text = "all: {vars: {tfprov: {cluster: lab, command: [x]}}}\nchief: {hosts: {h1: }}\nworker: {hosts: {h2: }}\n"
    with pytest.raises(InvalidInput) as caught:
        assign_tasks(roles(text))
    assert str(caught.value).startswith(
        "i.yml:3:1: error: the default `strategy: between_graph` with 2 tasks that train "
    )


def test_the_error_of_a_url_with_a_password_does_not_show_it() -> None:
    text = "all: {vars: {tfprov: {cluster: lab, command: [x], checkpoints: {dir: URL}}}}\nworker: {hosts: {h1: }}\n"
    for url, shown in (
        ("s3://me:hunter2@bucket/run@2", "s3://bucket/run@2"),
        ("hdfs://me@node:8020/run", "hdfs://node:8020/run"),
        ("ftp://me:hunter2@h/x", "ftp://h/x"),
    ):
        with pytest.raises(InvalidInput) as caught:
            roles(text.replace("URL", url))
        assert f"`{shown}`: " in str(caught.value)
        assert "hunter2" not in str(caught.value)


def test_the_seconds_of_a_time_are_those_of_its_unit() -> None:
    spans = {"1s": 1, "90s": 90, "15m": 900, "12h": 43_200, "30d": 2_592_000}
    assert {span: span_seconds(span) for span in spans} == spans
