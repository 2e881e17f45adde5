"""Authentication against a simulated server: the order of attempts, and the errors of a refusal."""

import socket
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest

from tests.support.waiting import LONG
from tfprov.errors import Unreachable
from tfprov.hosts.ssh.auth import Agent, Login
from tfprov.hosts.ssh.client_config import Hop


class Server:
    """Answers each attempt with the next of `answers`: the remaining methods, or an error."""

    auth_timeout = 3.0

    def __init__(self, *answers: Sequence[str] | Exception, active: bool = True) -> None:
        self.answers = list(answers)
        self.active = active
        self.offered: list[Any] = []

    def is_active(self) -> bool:
        return self.active or bool(self.answers)

    def auth_publickey(self, user: str, key: Any) -> Sequence[str]:
        return self._answer(key)

    def auth_password(self, user: str, password: str, fallback: bool) -> Sequence[str]:
        return self._answer(password)

    def auth_interactive(self, user: str, handler: Any) -> Sequence[str]:
        return self._answer(handler("", "", [("Password: ", False)]))

    def _answer(self, offer: Any) -> Sequence[str]:
        self.offered.append(offer)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path


def login(*keys: Path, password: str | None = None, **options: Any) -> Login:
    return Login(Hop("h1", "10.0.0.1", 22, "trainer", "10.0.0.1", keys, (Path("/known"),), **options), password)


def refusal(attempt: Login, server: Server) -> str:
    with pytest.raises(Unreachable) as caught:
        attempt.authenticate(server)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def keys(home: Path) -> list[Path]:
    paths = [home / f"key{number}" for number in range(6)]
    for path in paths:
        paramiko.ECDSAKey.generate().write_private_key_file(str(path))
    return paths


def test_keys_are_offered_in_order_each_once_and_the_password_last(keys: list[Path]) -> None:
    no = paramiko.AuthenticationException("no")
    server = Server(no, no, [])
    attempt = login(keys[0], keys[1], keys[0], password="secret")
    attempt.authenticate(server)
    assert server.offered[-1] == "secret"
    assert attempt.tried == [str(keys[0]), str(keys[1]), "the password"]


METHODS = {
    "publickey": ["KEY"],
    "password": ["the password"],
    "password,publickey": ["the password", "KEY"],
    "gssapi-with-mic,keyboard-interactive,publickey": ["the password (keyboard-interactive)", "KEY"],
    "hostbased": [],
}


@pytest.mark.parametrize(("methods", "tried"), METHODS.items())
def test_only_the_preferred_methods_are_tried_and_in_their_order(
    keys: list[Path], methods: str, tried: list[str]
) -> None:
    attempt = login(keys[0], password="secret", authentications=tuple(methods.split(",")))
    refusal(attempt, Server(*[paramiko.AuthenticationException("no")] * 3))
    assert attempt.tried == [label.replace("KEY", str(keys[0])) for label in tried]


def test_after_a_rejected_method_the_others_are_tried(keys: list[Path]) -> None:
    only = paramiko.BadAuthenticationType("", ["password"])
    attempt = login(keys[0], keys[1], password="secret")
    attempt.authenticate(Server(only, []))
    assert attempt.tried == [str(keys[0]), "the password"]
    interactive = login(keys[0], password="secret")
    interactive.authenticate(Server(paramiko.BadAuthenticationType("", ["keyboard-interactive"]), []))
    assert interactive.tried == [str(keys[0]), "the password"]


def test_a_missing_password_is_an_error() -> None:
    assert refusal(login(authentications=("password",)), Server()).startswith("h1: no password for trainer@10.0.0.1:22")


def test_default_keys_are_offered_only_if_none_is_configured(home: Path, keys: list[Path]) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_ecdsa").write_bytes(keys[0].read_bytes())
    attempt = login()
    attempt.authenticate(Server([]))
    assert attempt.tried == [str(home / ".ssh" / "id_ecdsa")]
    refused = login(keys[1])
    refusal(refused, Server(paramiko.AuthenticationException("no")))
    assert refused.tried == [str(keys[1])]


def test_the_error_names_the_attempts_and_no_secret(keys: list[Path]) -> None:
    no = [paramiko.AuthenticationException("no")] * 7
    message = refusal(login(*keys, password="secret"), Server(*no))
    shown = ", ".join(map(str, keys[:4]))
    assert message.startswith(f"h1: trainer@10.0.0.1:22 refused {shown}, 3 more; ")
    assert "secret" not in message
    assert refusal(login(), Server()).startswith("h1: no key for trainer@10.0.0.1:22; ")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (paramiko.BadAuthenticationType("", ["password"]), "it accepts only: password"),
        (["password"], "it also requires: password"),
        (paramiko.AuthenticationException("Authentication timeout."), "no answer within 3 s"),
        (paramiko.SSHException("broken"), "(broken)"),
        (EOFError(), "it closed the connection"),
        (OSError("gone"), "(gone)"),
    ],
)
def test_the_error_names_the_reason_of_the_refusal(keys: list[Path], answer: Any, words: str) -> None:
    assert words in refusal(login(keys[0]), Server(answer))


def test_a_connection_closed_after_too_many_attempts_is_explained(keys: list[Path]) -> None:
    server = Server(paramiko.AuthenticationException("no"), active=False)
    assert "closed the connection after too many attempts" in refusal(login(*keys), server)


class OneKey(Agent):
    """An agent with one key."""

    def __init__(self, key: paramiko.PKey) -> None:
        super().__init__()
        self.keys = [key]


def answer_identities(listener: socket.socket, blob: bytes) -> None:
    """Answer as ssh-agent with one key (draft-miller-ssh-agent, 4.4) until the client closes the connection."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb") as stream:
        while length := stream.read(4):
            assert stream.read(int.from_bytes(length, "big")) == b"\x0b"
            body = b"".join(len(text).to_bytes(4, "big") + text for text in (blob, b"a comment"))
            answer = b"\x0c" + (1).to_bytes(4, "big") + body
            stream.write(len(answer).to_bytes(4, "big") + answer)
            stream.flush()


@pytest.mark.parametrize("option", ["SOCKET", "$AGENT", "SSH_AUTH_SOCK", "$SSH_AUTH_SOCK"])
def test_the_agent_of_a_hop_is_asked_and_left(home: Path, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    key, path = paramiko.ECDSAKey.generate(), str(home / "a")
    monkeypatch.setenv(
        "AGENT" if option == "$AGENT" else "SSH_AUTH_SOCK", "/nonexistent" if option == "SOCKET" else path
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        agent = threading.Thread(target=answer_identities, args=(listener, key.asbytes()), daemon=True)
        agent.start()
        attempt, server = login(identity_agent=option.replace("SOCKET", path)), Server([])
        attempt.authenticate(server)
        agent.join(LONG)
        assert not agent.is_alive(), "the connection to the agent is closed"
    assert [offered.asbytes() for offered in server.offered] == [key.asbytes()]
    assert attempt.tried[0].endswith(" of the agent")


@pytest.mark.parametrize(
    ("option", "path"), [("none", ""), ("$NOTHING", ""), ("/nonexistent", "/nonexistent"), ("$OTHER", "/other")]
)
def test_a_hop_may_have_no_agent_or_another_one(monkeypatch: pytest.MonkeyPatch, option: str, path: str) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    monkeypatch.setenv("OTHER", "/other")
    asked: list[str] = []

    def agent(path: str) -> Agent:
        asked.append(path)
        return Agent(path)

    message = refusal(replace(login(identity_agent=option), agent=agent), Server())
    assert message.startswith("h1: no key for trainer@10.0.0.1:22")
    assert asked == [path]


@pytest.mark.parametrize("named", ["id.pub", "id"])
def test_a_public_key_chooses_a_key_of_the_agent(home: Path, named: str) -> None:
    key = paramiko.ECDSAKey.generate()

    def attempting() -> Login:
        return replace(login(home / named, identities_only=True), agent=lambda _: OneKey(key))

    (home / "id.pub").write_text(f"{key.get_name()} {key.get_base64()} a comment\n")
    attempt, server = attempting(), Server([])
    attempt.authenticate(server)
    assert (server.offered, attempt.tried, attempt.unusable) == ([key], [f"{home / named} of the agent"], [])
    (home / "id.pub").write_text(f"{key.get_name()} AAAA a comment\n")
    assert f"({home / named} " in refusal(attempting(), Server())


def test_unusable_key_files_are_skipped_and_named(home: Path, keys: list[Path]) -> None:
    (home / "text").write_text("hello")
    (home / "bytes").write_bytes(b"\xff\0")
    (home / "folder").mkdir()
    encrypted = home / "encrypted"
    paramiko.ECDSAKey.generate().write_private_key_file(str(encrypted), password="passphrase")
    bad = [home / "text", home / "bytes", home / "folder", home / "missing", encrypted]
    attempt = login(*bad, keys[0])
    attempt.authenticate(Server([]))
    message = refusal(login(*bad), Server())
    for path in bad:
        assert str(path) in message
    assert "is encrypted and not in the agent" in message
