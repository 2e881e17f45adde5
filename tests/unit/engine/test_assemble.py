"""From an inventory to what a verb works with: what is packed, and which connections are begun while other things load."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.files import write
from tfprov.engine.assemble import Options, assemble
from tfprov.engine.context import Definition
from tfprov.engine.events import Quiet
from tfprov.errors import HostError, InvalidInput, mask_secrets
from tfprov.vault.decrypt import Vault
from tfprov.vault.passwords import Passwords


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(120)
        yield listening


def inventory(server: socket.socket, **settings: str) -> Path:
    """Write an inventory whose host is on the port of a server, which is asked for nothing but to be connected to."""
    tfprov = {
        "cluster": "lab",
        "image": "{name: 'x:1'}",
        "command": "[python, x.py]",
        "address": "10.0.0.1",
        **settings,
    }
    expected = ", ".join(f"{name}: {value}" for name, value in tfprov.items())
    path = Path("inventory.yml")
    path.write_text(
        f"all: {{vars: {{tfprov: {{{expected}}}}}}}\n"
        f"worker: {{hosts: {{n1: {{ansible_host: 127.0.0.1, ansible_port: {server.getsockname()[1]}}}}}}}\n"
    )
    return path


def first(server: socket.socket) -> int:
    """Return the port of whoever connected first."""
    connection, (_, port) = server.accept()
    connection.close()
    return int(port)


def knocked(server: socket.socket) -> int:
    """Connect oneself, and return the port."""
    with socket.create_connection(server.getsockname()) as own:
        return int(own.getsockname()[1])


@pytest.mark.parametrize("connect", [True, None])
def test_hosts_are_connected_to_while_other_things_load(server: socket.socket, connect: bool | None) -> None:
    context = assemble(Definition.load(inventory(server)), Quiet(), Options(connect=connect))
    try:
        assert first(server)
    finally:
        context.close()


def test_a_verb_that_may_need_none_of_them_connects_to_none(server: socket.socket) -> None:
    assemble(Definition.load(inventory(server)), Quiet()).close()
    own = knocked(server)
    assert first(server) == own


def test_a_gather_from_a_remote_directory_connects_to_no_host(server: socket.socket) -> None:
    definition = Definition.load(inventory(server, checkpoints="{dir: 's3://bucket/run'}"))
    assemble(definition, Quiet(), Options(connect=None)).close()
    own = knocked(server)
    assert first(server) == own


def test_no_host_is_bothered_for_a_cluster_that_cannot_be(server: socket.socket) -> None:
    with pytest.raises(InvalidInput):
        assemble(
            Definition.load(inventory(server, tasks_per_host="70000", port="2222")), Quiet(), Options(connect=True)
        )
    own = knocked(server)
    assert first(server) == own


GONE = [
    {"image": "{build: ./gone}"}, {"image": "{archive: gone.tar}"}, {"image": "{build: ., pip_conf: gone.conf}"},
    {"env_file": "gone.env"}, {"code": "./gone"},
]  # fmt: skip


@pytest.mark.parametrize("settings", GONE)
def test_what_starts_nothing_does_without_the_files_of_the_image_and_of_the_environment(
    server: socket.socket, settings: dict[str, str]
) -> None:
    Path("Dockerfile").write_text("FROM scratch\n")
    definition = Definition.load(inventory(server, **settings))
    with pytest.raises(InvalidInput, match=r"inventory\.yml:1:\d+: error: .*gone"):
        assemble(definition, Quiet())
    context = assemble(definition, Quiet(), Options(starts=False))
    context.close()
    assert not context.is_whole
    assert [container.task.name for container in context.wanted] == ["worker/0"]


BEFORE_THE_ENGINE = {
    "a build directory that is not there": (
        "image: {build: ./nowhere}", "localhost: ",
        r"^inventory.yml:1:\d+: error: `image.build`: nowhere does not exist; give the directory that holds the Docker",
    ),
    "code that is not there": (
        "image: {name: 'x:1'}, code: ./nowhere", "localhost: ", r": error: `code`: nowhere does not exist; ",
    ),
    "a cluster that cannot be": (
        "image: {name: 'x:1'}, tasks_per_host: 2", "localhost: ", r" with 2 tasks that train needs a ps ",
    ),
    "a host's name that does not resolve": (
        "image: {name: 'x:1'}, strategy: multi_worker_mirrored", "localhost: , n1.invalid: ",
        r"^inventory.yml:2:31: error: the name n1.invalid has no IPv4 address; give its address as `ansible_host`$",
    ),
    "an address that does not resolve": (
        "image: {name: 'x:1'}, strategy: multi_worker_mirrored", "localhost: , n1: {ansible_host: x.invalid}",
        r"^inventory.yml:2:50: error: the name x.invalid has no IPv4 address; correct `ansible_host`, or look at DNS$",
    ),
    "an address of tfprov's own that does not resolve": (
        "image: {name: 'x:1'}", "n1: {tfprov: {address: x.invalid}}",
        r"^inventory.yml:2:32: error: the name x.invalid has no IPv4 address; correct `address`, or look at DNS$",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "hosts", "words"), BEFORE_THE_ENGINE.values(), ids=BEFORE_THE_ENGINE)
def test_what_is_wrong_without_a_host_is_reported_though_the_engine_does_not_run(
    settings: str, hosts: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    Path("inventory.yml").write_text(
        f"all: {{vars: {{tfprov: {{cluster: lab, command: [python, x.py], {settings}}}}}}}\n"
        f"worker: {{hosts: {{{hosts}}}}}\n"
    )
    with pytest.raises(InvalidInput, match=words):
        assemble(Definition.load(Path("inventory.yml")), Quiet())


def test_an_engine_that_does_not_run_is_reported_where_nothing_else_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    Path("inventory.yml").write_text(
        "all: {vars: {tfprov: {cluster: lab, command: [python, x.py], image: {name: 'x:1'}}}}\n"
        "worker: {hosts: {localhost: }}\n"
    )
    with pytest.raises(
        HostError, match=r"^localhost: its Docker engine does not run; start it there: `systemctl start docker`$"
    ):
        assemble(Definition.load(Path("inventory.yml")), Quiet())


def test_an_assembled_cluster_has_its_directories_its_data_and_its_options(tmp_path: Path) -> None:
    url, data = "https://chat.example.com/hook/4711", f"{{fetch: [{{url: 'https://h/a.csv', sha256: {'a' * 64}}}]}}"
    settings = f"data: {data}, notify: [{{url: '{url}'}}, {{command: [sh]}}], checkpoints: {{to: ./out}}"
    Path("inventory.yml").write_text(
        f"all: {{vars: {{tfprov: {{cluster: lab, command: [python, x.py], {settings}}}}}}}\n"
        "worker: {hosts: {localhost: }}\n"
    )
    state = tmp_path / "tfprov"
    state.mkdir(mode=0o755)
    context = assemble(Definition.load(Path("inventory.yml")), Quiet(), Options(forks=3, fold=True))
    assert state.stat().st_mode & 0o777 == 0o700, "an earlier version let others read it"
    assert (context.home, context.target, context.logs) == (
        state / "clusters" / "lab", Path("out/lab"), Path("out/lab/logs")
    )  # fmt: skip
    assert (context.forks, context.fold, context.hosts, context.is_whole, context.saves) == (3, True, None, True, True)
    (container,) = context.wanted
    (fetched,) = context.data.values()
    there = context.home / "hosts" / "localhost" / "data" / fetched.data.key
    assert (container.env["TFPROV_DATA_DIR"], container.data) == (str(there), fetched.data.artifact)
    assert mask_secrets(f"POST {url}") == "POST ******"


# --- code ----------------------------------------------------------------------------------------------------------------


def test_a_link_in_the_place_of_code_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"lab.py": "pass", "logdir/old": "", "out/x.py": ""})
    rows = {"logdir": "logdir/old", "./out//": "out/x.py", "lab.py/x": "lab.py", "out/logdir": "", "log": ""}
    for link, there in rows.items():
        write(tmp_path, {"inventory.yml": _HERE.replace("to:", f"link: {link}, to:") % "./checkpoints"})
        message = ""
        try:
            (wanted,) = assemble(Definition.load(Path("inventory.yml")), Quiet()).wanted
            assert wanted.link == (link, wanted.checkpoint_dir)
        except InvalidInput as error:
            message = str(error)
        what = f"`checkpoints.link`: the code has {there} in the place of the link"
        fix = "name it in .dockerignore, or choose another name"
        assert message.partition(": error: ")[2] == (f"{what}; {fix}" if there else ""), link


def test_the_python_of_tasks_is_the_settings_else_ansibles(tmp_path: Path) -> None:
    write(tmp_path, {"lab.py": "pass", "venv/bin/python": "", "notes": ""})
    (tmp_path / "venv/bin/python").chmod(0o755)
    own, gone = str(tmp_path / "venv/bin/python"), "does not exist on this machine; correct the path in `python`"
    rows = {
        # settings, the variable of Ansible: the Python of the task, or what is wrong with it
        ("python: venv/bin/python", ""): own,
        ("python: venv/bin/python", "/usr/bin/python3"): own,
        ("", "{{ inventory_dir }}/venv/bin/python"): own,
        ("", "{{ ansible_playbook_python }}"): None,
        ("", "auto_silent"): None,
        ("python: venv/bin/python3", ""): f"inventory.yml:2:64: error: the Python for tasks, {own}3, {gone}",
        ("", "/no/python"): f"inventory.yml:3:85: error: the Python for tasks, /no/python, {gone}",
        ("python: notes", ""): (
            f"inventory.yml:2:64: error: the Python for tasks, {tmp_path}/notes, is not a program; "
            "correct the path in `python`"
        ),
    }
    wrong = []
    for (settings, ansibles), expected in rows.items():
        inventory = _HERE.replace("command:", f"{settings}{settings and ','} command:") % "./checkpoints"
        variable = f', ansible_python_interpreter: "{ansibles}"' if ansibles else ""
        write(tmp_path, {"inventory.yml": inventory.replace("local}", f"local{variable}}}")})
        message: str | None
        try:
            (wanted,) = assemble(Definition.load(Path("inventory.yml")), Quiet()).wanted
            message = wanted.python
        except InvalidInput as error:
            message = str(error)
        if message != expected:
            wrong.append((settings, ansibles, message))
    assert wrong == []


_HERE = """
all: {vars: {tfprov: {cluster: lab, runtime: process, code: ., command: [python, lab.py], checkpoints: {to: "%s"}}}}
worker: {hosts: {localhost: {ansible_connection: local}}}
"""


@pytest.mark.parametrize("to", ["./checkpoints", "."])
def test_the_code_is_the_same_whatever_was_gathered_or_written_about_it(tmp_path: Path, to: str) -> None:
    """With `code: .`, a gather or a new variable between two plans restarted a running training."""

    def digests() -> list[str]:
        vault = Vault(Passwords(files=("vault.pass",)))
        return sorted(assemble(Definition.load(Path("inventory.yml"), ("@extra.yml",), vault), Quiet()).artifacts)

    write(tmp_path, {"lab.py": "pass", "lab.1.txt": "", "extra.yml": "a: 1", "inventory.yml": _HERE % to})
    write(tmp_path, {".dockerignore": "!**"})
    before = digests()
    others = ["group_vars/worker.yml", "host_vars/localhost.yml"]
    write(tmp_path, dict.fromkeys(others, "b: 2") | {"extra.yml": "a: 2", "vault.pass": "secret"})
    write(tmp_path / to, {"lab/model.ckpt-1.index": "x", "lab/manifest.json": "{}", "lab.1/model.ckpt-1.index": "x"})
    write(tmp_path / to, {".lab.part/model.ckpt-2.index": "x"})  # while an earlier run is set aside
    write(tmp_path, {"tfprov/clusters/lab/lock": "", "tfprov/code/x": "", "inventory.yml": f"# 2\n{_HERE % to}"})
    assert digests() == before
    for name in ("lab.py", "lab.1.txt", "sub/inventory.yml", "other.yml"):
        write(tmp_path, {name: "changed"})
        assert digests() != before, name
        before = digests()
