"""Encrypted values appear in no output of a command, and in no file except those of a task."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import python
from tests.support.local_cluster import LocalCluster, open_local_cluster
from tests.support.vaults import encrypt, value

PASSWORD = "open sesame"
INLINE, OF_FILE, OF_EXTRA, UNUSED = "inline-plaintext-1", "file-plaintext-2", "extra-plaintext-3", "unused-plaintext-4"
SECRETS = (INLINE, OF_FILE, OF_EXTRA, UNUSED, PASSWORD)
SLEEPER = "import time; time.sleep(600)"


def inventory(env: str) -> str:
    api, unused = encrypt(INLINE, UNUSED)
    return f"""\
all:
  vars:
    tfprov:
      cluster: sealed
      command: [python, -c, "{SLEEPER}"]
      flags: {{train_steps: 2000}}
      ready: start
      port: PORT
      env:
        DIRECT: {value(api, 10)}        FILE: "{{{{ of_file }}}}"
        EXTRA: "x{{{{ of_extra }}}}"
        {env}
    api: {value(api, 6)}    unused: {value(unused, 6)}
    late: "{{{{ task.index }}}}"
  children:
    ps: {{hosts: {{localhost: }}}}
    worker: {{hosts: {{localhost: }}}}
"""


class Sealed:
    """Runs verbs on a cluster with secrets, and keeps all they print."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.local, self.printed = cluster, [""]
        directory = cluster.directory
        (directory / "group_vars").mkdir()
        (directory / "group_vars" / "all.yml").write_text(encrypt(f"of_file: {OF_FILE}\n")[0])
        (directory / "extra.yml").write_text(encrypt(f"of_extra: {OF_EXTRA}\n")[0])
        (directory / "password").write_text(PASSWORD)
        self.write('WHOLE: "{{ api }}"')

    def write(self, env: str) -> None:
        self.local.write(inventory(env))

    def __call__(self, *words: str, code: int = 0, password: str = "password") -> str:
        options = ["-i", str(self.local.inventory), "-e", "@extra.yml", "--vault-password-file", password, "-vv"]
        done = python("-m", "tfprov", *words, *options, env=self.local.env, cwd=self.local.directory)
        output = done.stdout + done.stderr
        self.printed.append(output)
        assert done.returncode == code, output
        return output

    def check(self) -> None:
        """Look through all that was printed, and all files that tfprov wrote."""
        for secret in SECRETS:
            assert secret not in "\n".join(self.printed)
        for path in (self.local.directory / "state", self.local.directory / "cache"):
            for file in path.rglob("*"):
                mode = file.lstat().st_mode
                assert file.is_symlink() or "code" in file.parts or not mode & 0o077, f"others may use {file}"
                if file.is_file():
                    self.check_file(file)

    def check_file(self, file: Path) -> None:
        text = file.read_text(errors="replace")
        if file.name == "order.json":  # its supervisor needs the environment
            assert file.stat().st_mode & 0o777 == 0o600
            output = json.loads(text)
            assert output["env"]["DIRECT"] == INLINE
            text = json.dumps({key: result for key, result in output.items() if key != "env"})
        assert not [secret for secret in SECRETS if secret in text], file


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Sealed]:
    for cluster in open_local_cluster(tmp_path):
        sealed = Sealed(cluster)
        yield sealed
        cluster.inventory.write_text(cluster.inventory.read_text().split("      env:\n")[0] + _WITHOUT)
        sealed.check()


_WITHOUT = "  children: {ps: {hosts: {localhost: }}, worker: {hosts: {localhost: }}}\n"


def test_no_command_prints_an_encrypted_value(sealed: Sealed) -> None:
    assert "start" in sealed("plan")
    assert json.loads(sealed("plan", "--json"))["actions"]
    assert "ok" in sealed("up")
    assert sealed("up").endswith("nothing to do\n")
    sealed.write('WHOLE: "{{ api }}2"')
    assert "(env.WHOLE)" in sealed("plan")
    sealed("status", "--json")
    sealed("logs")
    sealed("down", "--discard")


def test_the_inventory_shows_ciphertexts_and_stars(sealed: Sealed) -> None:
    shown = json.loads(sealed("inventory", "list"))["_meta"]["hostvars"]["localhost"]
    assert shown["api"]["__ansible_vault"].startswith("$ANSIBLE_VAULT;1.1;AES256\n")
    assert shown["of_file"] == shown["of_extra"] == "******"
    assert json.loads(sealed("inventory", "host", "localhost")) == shown
    output = sealed("inventory", "explain", "localhost")
    assert "tfprov.env.DIRECT" in output
    output = json.loads(sealed("inventory", "explain", "localhost", "tfprov.env", "--json"))["settings"]["worker"]
    assert {one["value"] for one in output.values()} == {"******"}
    assert output["tfprov.env.WHOLE"]["template"] == "{{ api }}"


WRONG = {
    'W: "{{ api.x }}"': "a template that uses a secret fails",
    'W: ["{{ api }}"]': "`env.W` must be a single value, not a list",
    'W: "{{ {}[api ~ of_file] }}"': "a template that uses a secret fails",
    'W: "{{ [api, of_extra] }}"': "`env.W` renders to a list or a mapping",
    'W: "{{ api }}"\n      memory: "{{ api }}"': "`memory` is secret",
    'W: "{{ api }}"\n      cluster2: "{{ api }}"': "unknown key `cluster2`",
    'W: "{{ api }}"\n      max_restarts: "{{ of_file }}"': "`max_restarts` is secret",
}


def test_an_invalid_encrypted_value_is_reported_without_its_text(sealed: Sealed) -> None:
    for env, message in WRONG.items():
        sealed.write(env)
        assert message in sealed("plan", code=2), env


def test_a_wrong_password_is_reported_with_the_line_of_each_value(sealed: Sealed) -> None:
    (sealed.local.directory / "other").write_text("another")
    message = "none of the passwords decrypts this value; check the password, and that the value is whole"
    lines = sealed("plan", code=2, password="other").splitlines()
    assert [line for line in lines if line.endswith(message)] == lines
    assert f"{sealed.local.inventory}:10:17: error: {message}" in lines
    assert f"extra.yml:1:1: error: {message}" in lines
