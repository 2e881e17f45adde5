"""The token that protects a forwarded TensorBoard."""

from tfprov.hosts.ssh.http_gate import TokenGate

PORT = 6006


def test_only_requests_with_the_token_or_its_cookie_pass() -> None:
    gate, other = TokenGate(), TokenGate()
    query, cookie = gate.query(), gate.cookie(PORT)
    cases: dict[str, tuple[str, tuple[str, ...], str]] = {
        "the cookie": ("/", (f"Cookie: {cookie}",), ""),
        "the cookie among others": ("/x", ("Host: h", f"cookie: a=b; {cookie}; c"), ""),
        "the address that was printed": (f"/{query}", (), "303 /"),
        "the address with further parameters": (f"/data/x{query}&run=a%20b&tag=", (), "303 /data/x?run=a+b&tag="),
        "a path that names another host": (f"//evil.example/{query}", (), "303 /"),
        "an absolute URL": (f"http://evil.example/y{query}", (), "303 /y"),
        "the token of a program": ("/", (f"Authorization: bearer {gate.token}",), ""),
        "the token of another program": ("/", (f"Authorization: Bearer {other.token}",), "403 "),
        "a notebook's own token": (f"/lab{query}&token=jupyter", (), "303 /lab?token=jupyter"),
        "no token": ("/", (), "403 "),
        "an empty token": ("/?token=", (), "403 "),
        "a token that is not ASCII": ("/?token=\xe9", (), "403 "),
        "the token of another run": (f"/{other.query()}", (f"Cookie: {other.cookie(PORT)}",), "403 "),
        "the cookie of another port": ("/", (f"Cookie: {gate.cookie(PORT + 1)}",), "403 "),
        "the token in another header": ("/", (f"X-Cookie: {cookie}", f"Referer: http://h/{query}"), "403 "),
        "an invalid URL": ("http://[/", (), "400 "),
    }
    wrong = {}
    for name, (path, headers, expected) in cases.items():
        head = "\r\n".join([f"GET {path} HTTP/1.1", *headers, "", ""]).encode("latin-1")
        refusal = (gate.refusal(head, PORT) or b"").decode()
        status = refusal.partition(" ")[2][:4]
        location = refusal.partition("Location: ")[2].partition("\r\n")[0]
        if status + location != expected or (location and f"Set-Cookie: {cookie}; " not in refusal):
            wrong[name] = refusal
    assert wrong == {}
    assert (gate.refusal(b"\x16\x03\x01 TLS\r\n\r\n", PORT) or b"").startswith(b"HTTP/1.1 403 ")
