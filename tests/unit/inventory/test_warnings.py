"""Warnings about an inventory are one line on the standard error, and the command goes on."""

from pathlib import Path

import pytest

from tests.support.command_output import SMALLEST, CommandResult, run_command, write_files
from tfprov.errors import InvalidInput, Problem
from tfprov.settings.load import load, load_inventory

SKIPPED = "warning: skipped, because it is not an inventory"
ROLE = "put them into `worker` if they are to train"
ELSEWHERE = "move it elsewhere"
CONF = f"{ELSEWHERE}, or set `inventory_ignore_extensions = .conf` in an ansible.cfg"
ONLY = "tfprov reads only `vault_password_file` and `inventory_ignore_extensions` of it, not"
VARIABLES = "give what hosts need as variables, such as `ansible_user`"
ENCRYPT = "put there what `ansible-vault encrypt_string` prints, or remove `!vault`"
WARNED = {
    "a stray file": (
        {"inv/i.yml": SMALLEST, "inv/nginx.conf": "server {\n"},
        [f"inv/nginx.conf: {SKIPPED} (line 1: `{{` is not a variable of a host); {CONF}"],
    ),
    "a README": (
        {"inv/i.yml": SMALLEST, "inv/README": "All hosts of ours.\n"},
        [f"inv/README: {SKIPPED} (line 1: `hosts` is not a variable of a host); {ELSEWHERE}"],
    ),
    "a README that begins like YAML": (
        {"inv/i.yml": SMALLEST, "inv/README": "Note: this: is ours\n"},
        [f"inv/README: {SKIPPED} (line 1: a second `: ` on one line); {ELSEWHERE}"],
    ),
    "YAML without an extension": ({"inv/i.yml": SMALLEST, "inv/more": "spare: {}\n"}, []),
    "a playbook": (
        {"inv/i.yml": SMALLEST, "inv/site.yml": "- hosts: all\n"},
        [f"inv/site.yml: {SKIPPED} (no mapping of groups); {ELSEWHERE}"],
    ),
    "a text that is not encrypted": (
        {"inv/i.yml": SMALLEST + "  hosts: {localhost: {a: !vault x}}\n"},
        [f"inv/i.yml:7:26: warning: marked as encrypted, and does not begin with `$ANSIBLE_VAULT;`; {ENCRYPT}"],
    ),
    "a group workers": (
        {"inv/i.yml": SMALLEST + "    workers: {hosts: {h1: , h2: , localhost: }}\n"},
        [f"inv/i.yml:7:5: warning: the group `workers` is not a role, and h1 and 1 more of its hosts have none; {ROLE}"],
    ),
    "a group that begins with a role": (
        {"inv/i.yml": SMALLEST + "    Worker2: {hosts: {h1: }}\n"},
        [f"inv/i.yml:7:5: warning: the group `Worker2` is not a role, and h1 has none; {ROLE}"],
    ),
    "an ansible.cfg beside a directory": (
        {"inv/i.yml": SMALLEST, "ansible.cfg": "[defaults]\nforks = 5\nb = 1\nc = 1\n[ssh_connection]\nretries = 2\n"},
        [f"ansible.cfg: warning: {ONLY} `forks`, `b`, `c`, `retries`; {VARIABLES}"],
    ),
    "an ansible.cfg with many settings": (
        {"inv/i.yml": SMALLEST, "inv/ansible.cfg": "[defaults]\n" + "".join(f"{key} = 1\n" for key in "abcdef")},
        [f"inv/ansible.cfg: warning: {ONLY} `a`, `b`, `c`, `d` and 2 more; {VARIABLES}"],
    ),
    "an ansible.cfg that is none": (
        {"inv/i.yml": SMALLEST, "ansible.cfg": "\nforks = 5\n"},
        ["ansible.cfg:2:1: warning: ignored: this line is neither a `[section]` nor a setting of one; correct it"],
    ),
    "an ansible.cfg with a line that sets nothing": (
        {"inv/i.yml": SMALLEST, "ansible.cfg": "[defaults]\nforks = 5\nforks\ngather\n"},
        ["ansible.cfg:3:1: warning: ignored: this line is neither a `[section]` nor a setting of one; correct it"],
    ),
    "an ansible.cfg that says what counts": (
        {"inv/i.yml": SMALLEST, "inv/a.x": "[", "ansible.cfg": "[defaults]\ninventory_ignore_extensions='.x', \".cfg\"\n"},
        [],
    ),
    "an ansible.cfg that says it by its other name": (
        {"inv/i.yml": SMALLEST, "inv/a.x": "[", "ansible.cfg": "[inventory]\nignore_extensions=.x\n"},
        [],
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.mark.parametrize(("files", "lines"), WARNED.values(), ids=WARNED)
def test_a_warning_is_printed_once(files: dict[str, str], lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    write_files(files)
    result = run_command(capsys, "plan", "-i", "inv")
    assert (result.code, list(result.lines)) == (0, lines)
    assert "start" in result.out


def test_a_warning_comes_before_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    write_files({"inv/README": "All hosts of ours.\n", "inv/i.yml": "worker: {hosts: {h1: 5}}\n"})
    result = run_command(capsys, "plan", "-i", "inv")
    assert [line.split(": ")[:2] for line in result.lines] == [["inv/README", "warning"], ["inv/i.yml:1:22", "error"]]


@pytest.mark.parametrize(
    "command", [["render", "compose"], ["inventory", "graph"], ["inventory", "explain", "localhost"]]
)
def test_every_command_that_reads_an_inventory_warns(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    write_files(
        {"inv/i.yml": SMALLEST.replace("command", "image: {name: x:1}, command"), "inv/README": "Not a host.\n"}
    )
    result = run_command(capsys, *command, "-i", "inv")
    assert [line.split(":")[:2] for line in result.lines] == [["inv/README", " warning"]]


def test_an_unencrypted_vault_value_is_an_error_only_if_used(capsys: pytest.CaptureFixture[str]) -> None:
    write_files({"i.yml": SMALLEST + "  hosts: {localhost: {ansible_password: !vault x}}\n"})
    result = run_command(capsys, "plan", "-i", "i.yml")
    what = f"marked as encrypted, and does not begin with `$ANSIBLE_VAULT;`; {ENCRYPT}"
    assert result == CommandResult(2, (f"i.yml:7:41: warning: {what}", f"i.yml:7:41: error: {what}"))


BROKEN = {
    "YAML that is no YAML": ("more.yml", "worker: {hosts: [\n"),
    "a group with a mistake": ("more.yml", "worker: {host: {h1: }}\n"),
    "settings of a plugin": ("aws_ec2.yml", "plugin: amazon.aws.aws_ec2\nregions: [a]\n"),
    "an ini with a section": ("more", "[worker]\nh1 a\n"),
    "an ini that is called so": ("more.ini", "[worker\nh1\n[ps]\n"),
    "YAML without an extension": ("more", "worker:\n  hosts: {h1\n"),
    "TOML": ("more.toml", "[worker.hosts]\n"),
    "a role as a list": ("more.yml", "worker: [h1]\n"),
}


def test_an_invalid_inventory_in_a_directory_is_never_skipped() -> None:
    skipped = []
    for name, (file, text) in BROKEN.items():
        write_files({f"{name}/i.yml": SMALLEST, f"{name}/{file}": text})
        try:
            load_inventory([name])
        except InvalidInput:
            continue
        skipped.append(name)
    assert skipped == []


def test_a_skipped_file_adds_no_hosts() -> None:
    write_files(
        {"inv/i.yml": SMALLEST, "inv/notes.log": "[web]\nh1\nps\n[ps:vars]\na=1\n[worker:children]\nweb\nno = x\n"}
    )
    inventory = load_inventory(["inv"])
    assert (list(inventory.hosts), list(inventory.groups)) == (["localhost"], ["all", "ungrouped", "ps", "worker"])
    assert list(inventory.variables("localhost")) == ["tfprov"]
    assert inventory.groups["worker"].children == ()


def test_a_directory_with_stray_files_can_be_edited(capsys: pytest.CaptureFixture[str]) -> None:
    write_files({"inv/i.yml": SMALLEST, "inv/README": "Note: this: is ours\n", "inv/site.yml": "- hosts: all\n"})
    assert run_command(capsys, "inventory", "set", "-i", "inv", "tfprov.port", "3000").code == 0
    assert "port: 3000" in Path("inv/i.yml").read_text()


def test_an_ansible_cfg_that_everybody_can_write_is_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    write_files({"inv/i.yml": SMALLEST, "inv/ansible.cfg": "[defaults]\nvault_password_file = x\n"})
    Path("inv").chmod(0o777)
    result = run_command(capsys, "inventory", "graph", "-i", "inv")
    assert result.lines == (
        "inv/ansible.cfg: warning: ignored: everybody can write into its directory; run `chmod o-w` on it",
    )


def test_an_ansible_cfg_that_cannot_be_looked_at_is_ignored() -> None:
    write_files({"inv/i.yml": SMALLEST})
    Path("inv/ansible.cfg").symlink_to("x" * 300)  # for root, too, the system refuses to look
    assert list(load_inventory(["inv"]).hosts) == ["localhost"]


def test_a_password_file_below_the_home_of_nobody_is_not_needed_to_read_an_inventory() -> None:
    write_files({"inv/i.yml": SMALLEST, "inv/ansible.cfg": "[defaults]\nvault_password_file = ~nobody-here/pw\n"})
    assert list(load_inventory(["inv"]).hosts) == ["localhost"]


def test_a_tag_that_moves_is_a_warning_at_its_line() -> None:
    warnings: list[Problem] = []
    Path("i.yml").write_text(SMALLEST.replace("command:", "image: {name: registry.example.com:5000/train}, command:"))
    load(Path("i.yml"), warn=warnings.append)
    (warning,) = warnings
    assert (str(warning.at), warning.what, warning.fix) == (
        "i.yml:3:39",
        "the tag `latest` of `image.name` moves, and it is the one without a tag",
        "name a version, or a digest (`@sha256:…`), so that all hosts run the same",
    )


MOVING = ("train:latest", "train:latest-gpu", "train:nightly", "tf:nightly-jupyter", "a/b:devel-gpu", "train:2-latest")
FIXED = (
    "train:1.0",
    "train:2.18.0-gpu",
    "train:latest@sha256:" + 64 * "0",
    "train:main2",
    "train:20260101",
    "r:5000/a:v1",
)


def test_tags_that_move_are_known_by_their_names() -> None:
    def warned(name: str) -> bool:
        Path("i.yml").write_text(SMALLEST.replace("command:", f"image: {{name: '{name}'}}, command:"))
        warnings: list[Problem] = []
        load(Path("i.yml"), warn=warnings.append)
        return bool(warnings)

    assert [name for name in (*MOVING, *FIXED) if warned(name)] == list(MOVING)


RUNTIME = """
all: {vars: {tfprov: {cluster: c, strategy: single, command: [python, x.py], image: {name: "a/b:1"}}}}
worker: {hosts: {n1: }}
serving: {hosts: {n1: }}
notebook: {hosts: {n1: }}
tensorboard: {hosts: {n1: }}
"""


@pytest.mark.parametrize(
    ("changed", "users"),
    [
        (("", ""), ["the program of serving", "the program of notebook"]),
        (("command:", "code: ., command:"), []),
        (("name: ", "build: "), []),
        (("serving: {hosts: {n1: }}", "serving: {hosts: {n1: }, vars: {tfprov: {serving: {server: tensorflow_serving}}}}"),
         ["the program of notebook"]),
        (("serving: {hosts: {n1: }}", "serving: {hosts: {n1: }, vars: {tfprov: {command: [serve]}}}"),
         ["the program of notebook"]),
        (("command:", "checkpoints: {dir: 's3://b/run'}, command:"),
         ["`checkpoints.dir`", "the program of serving", "the program of notebook"]),
    ],
)  # fmt: skip
def test_tfprovs_own_programs_in_an_image_by_name_are_a_warning(changed: tuple[str, str], users: list[str]) -> None:
    warnings: list[Problem] = []
    Path("b").mkdir(exist_ok=True)
    Path("i.yml").write_text(RUNTIME.replace(*changed))
    load(Path("i.yml"), warn=warnings.append)
    assert [it.what.removesuffix(" is part of tfprov, which this image may lack") for it in warnings] == users
    fix = "set `code`, with which it is delivered, or add `pip install tfprov` to the image"
    at = f"i.yml:2:{Path('i.yml').read_text().splitlines()[1].find('name:') + 1}"
    assert all((str(it.at), it.fix) == (at, fix) for it in warnings)


@pytest.mark.parametrize(
    ("path", "kind", "count"), [("s3://b/x", "name", 1), ("s3://b/x", "build", 0), ("/x", "name", 0)]
)
def test_remote_data_in_an_image_by_name_is_a_warning(path: str, kind: str, count: int) -> None:
    warnings: list[Problem] = []
    Path("b").mkdir(exist_ok=True)
    image = f"data: {{path: '{path}'}}, code: ., image: {{{kind}: '{'a/b:1' if kind == 'name' else 'b'}'}}, command:"
    Path("i.yml").write_text(SMALLEST.replace("command:", image))
    load(Path("i.yml"), warn=warnings.append)
    what = f"{path} is copied by a part of tfprov, which this image may lack"
    fix = "add `pip install tfprov` and the client to the image, or use `image: {build: …}`"
    at = f"i.yml:3:{Path('i.yml').read_text().splitlines()[2].find('name:') + 1}"
    assert [(str(it.at), it.what, it.fix) for it in warnings] == [(at, what, fix)] * count
