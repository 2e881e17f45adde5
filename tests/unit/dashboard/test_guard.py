"""Who gets an answer from the dashboard."""

import pytest

from tfprov.dashboard.guard import refusal
from tfprov.hosts.ssh.http_gate import TokenGate

GATE = TokenGate()
HOST = ("host", "127.0.0.1:8000")
COOKIE = ("cookie", GATE.cookie(8000))


def status(*headers: tuple[str, str], target: str = "/", method: str = "GET") -> int | None:
    refused = refusal(method, target, headers, GATE, 8000)
    return None if refused is None else refused.status


@pytest.mark.parametrize("name", ["127.0.0.1:8000", "localhost:8000"])
def test_a_browser_with_the_cookie_is_answered(name: str) -> None:
    assert status(("host", name), COOKIE) is None


def test_the_token_in_the_url_is_exchanged_for_a_cookie() -> None:
    refused = refusal("GET", f"/run{GATE.query()}&run=a", [HOST], GATE, 8000)
    assert refused is not None
    assert (refused.status, dict(refused.headers)["Location"]) == (303, "/run?run=a")
    assert "HttpOnly; SameSite=Strict" in dict(refused.headers)["Set-Cookie"]


@pytest.mark.parametrize(
    "headers",
    [
        [HOST],
        [HOST, ("cookie", "tfprov-8000=guess")],
        [HOST, ("cookie", TokenGate().cookie(8000))],
        [HOST, ("cookie", GATE.cookie(8001))],
        [COOKIE],  # no name of a host
        [("host", "tfprov.example.com:8000"), COOKIE],  # a name that leads to 127.0.0.1
        [("host", "127.0.0.1:8001"), COOKIE],
        [HOST, HOST, COOKIE],
    ],
)
def test_a_stranger_gets_403(headers: list[tuple[str, str]]) -> None:
    assert status(*headers) == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT"])
def test_only_reading_is_possible(method: str) -> None:
    assert status(HOST, COOKIE, method=method) == 405
