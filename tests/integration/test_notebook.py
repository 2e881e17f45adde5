"""The verb `notebook`: the address has the token that the task made; what was written there stays after `down`.

Its server here stands in for Jupyter's.
"""

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support.local_cluster import LocalCluster
from tests.support.tensorboard import close_web, web_address
from tests.support.waiting import LONG

INVENTORY = """
all:
  vars:
    tfprov:
      cluster: noted
      strategy: single
      code: code
      command: [sleep, "600"]
      ready: start
      checkpoints: none
      port: PORT
  children:
    worker: {hosts: {localhost: }}
    notebook: {hosts: {localhost: }, vars: {tfprov: {ready: port, command: [python, server.py, "PORT"]}}}
"""
SERVER = """
import http.server, pathlib, sys
from tfprov.runtime.notebook import token

expected = token(pathlib.Path.cwd(), "")

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path.endswith(f"token={expected}") else 403)
        self.end_headers()

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) + 1), Handler).serve_forever()
"""


def test_the_address_has_the_token_that_nothing_else_shows_and_the_notebooks_stay(local_cluster: LocalCluster) -> None:
    (local_cluster.directory / "code").mkdir()
    (local_cluster.directory / "code/server.py").write_text(SERVER)
    local_cluster.write(INVENTORY)
    printed = local_cluster("up")
    process = local_cluster.start("notebook")
    url = web_address(process, "notebook/0", "the notebook")
    address, _, token = url.partition("?token=")
    with urllib.request.urlopen(url, timeout=LONG) as answer:
        assert answer.status == 200
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{address}?token=guess", timeout=LONG)
    close_web(process)
    holders = [path for path in local_cluster.directory.rglob("*") if path.is_file() and has(path, token)]
    assert [(path.name, oct(path.stat().st_mode & 0o777)) for path in holders] == [(".tfprov-notebook-token", "0o600")]
    assert token not in printed + local_cluster("logs", "notebook/0") + "".join(local_cluster.processes())
    (holders[0].parent / "mine.ipynb").write_text("{}")
    printed = local_cluster("down")
    (kept,) = local_cluster.directory.rglob("mine.ipynb")
    assert f"1 file of notebook/0 is kept in {kept.parent}" in printed
    assert kept.read_text() == "{}"


def has(path: Path, token: str) -> bool:
    return token.encode() in path.read_bytes()
