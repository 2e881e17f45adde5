"""The command lines of `exec`, `ssh` and `cp`, and the end of those that lead to a server."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support.command_output import SMALLEST, run_command
from tfprov.cli.output import Printer
from tfprov.cli.watch import show
from tfprov.errors import Terminated
from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.openssh import openssh_command
from tfprov.results import WebServer


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("inventory.yml").write_text(SMALLEST.replace("linear.py", "-V"))
    Path("other.yml").write_text(SMALLEST.replace("linear.py", "-V"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("exec -it worker/0 -- sh", "error: `-t` needs a terminal, and this has none; leave it out; `--stdin` passes"),
        ("exec -t worker/0 sh", "error: `-t` needs a terminal"),
        ("exec -i other.yml worker/0 -- ls", "error: worker/0 is not there; start it with `tfprov up`"),
        ("exec --stdin worker/9 ls", "error: no task `worker/9` in cluster linear"),
        ("exec --json worker/0 -- ls", "error: no such option `--json`; see `tfprov exec --help`"),
        ("ssh --json localhost", "error: no such option `--json`; see `tfprov ssh --help`"),
        ("cp a b", "error: neither path is of a task; for example"),
        ("cp worker/0:a ps/0:b", "error: both paths are of tasks; for example"),
        ("cp worker/0: b", "error: `worker/0:` names no file"),
        ("cp worker/0:a b", "error: worker/0 is not there"),
        ("cp gone worker/0:", "error: worker/0 is not there"),
        ("ssh localhost", "error: localhost is this machine; there is nothing to log in to"),
        ("ssh nowhere", "error: no host `nowhere` in the inventory; it has localhost"),
    ],
)
def test_what_cannot_be_done_is_one_line(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_command(capsys, *words.split())
    assert result.code in (1, 2)
    assert len(result.lines) == 1
    assert result.lines[0].startswith(message)


def test_the_options_of_the_inventory_for_openssh(tmp_path: Path) -> None:
    target = SSHTarget(
        "node1", "10.0.0.1", 2200, "trainer", (Path("/k"),), proxy_jump="gate", proxy_command="nc %h %p",
        known_hosts=(Path("/a b"), Path("/c")), accept_new=True, identities_only=False,
        authentications=("publickey", "password"), host_key_algorithms="ssh-ed25519", address_family="inet",
        ssh_config=tmp_path / "none", connect_timeout=0.2,
    )  # fmt: skip
    assert openssh_command(target, ["echo", "a b"]) == [
        "ssh", "-p", "2200", "-l", "trainer", "-i", "/k", "-J", "gate",
        "-o", "ConnectTimeout=1", "-o", "StrictHostKeyChecking=accept-new", "-o", 'UserKnownHostsFile="/a b" /c',
        "-o", "ProxyCommand=nc %h %p", "-o", "IdentitiesOnly=no", "-o", "PreferredAuthentications=publickey,password",
        "-o", "HostKeyAlgorithms=ssh-ed25519", "-o", "AddressFamily=inet", "-t", "--", "10.0.0.1", "echo 'a b'",
    ]  # fmt: skip
    assert openssh_command(target, ["grep", "\\d"])[-1] == "grep \\\\d", "fish changes backslashes within quotes"
    plain = openssh_command(SSHTarget("-oProxyCommand=x", "-oProxyCommand=x"))
    assert plain[-2:] == ["--", "-oProxyCommand=x"], "an address is no option"
    assert "-t" not in plain


def test_a_verb_that_leads_to_a_server_ends_well_after_ctrl_c_and_not_after_sigterm() -> None:
    def shown(signal: type[BaseException]) -> None:
        def stay() -> None:
            raise signal

        with Printer() as printer:
            show(nullcontext(WebServer("tensorboard/0", "h1", "http://127.0.0.1:1/", stay)), printer, "the TensorBoard")

    shown(KeyboardInterrupt)
    with pytest.raises(Terminated):
        shown(Terminated)
