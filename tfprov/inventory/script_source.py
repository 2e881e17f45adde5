"""Runs inventory scripts and reads the JSON that they print, as Ansible does."""

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from tfprov.errors import InvalidInput, Position, Problem, mask_secrets, one_line, printable
from tfprov.inventory.builder import InventoryBuilder
from tfprov.model.yaml_node import EncryptedValue, Items, Mapping, Node, Scalar
from tfprov.vault.decrypt import Vault
from tfprov.yamltext.load import MAX_DEPTH

TIMEOUT = 60.0
"""Seconds for one run."""
MAX_BYTES = 64_000_000
"""Of one output: an inventory of 10,000 hosts with some variables each has about a tenth of this."""
_STDERR_BYTES = 4096
"""Bytes of the standard error that are kept, from its end."""


def run_script(path: str, options: list[str], timeout: float = TIMEOUT) -> bytes:
    """Return the output of the program at `path` with `options`; InvalidInput with its last error line if it fails.

    It gets no input. After `timeout` seconds it is killed, with all processes that it started.
    """
    at, by_hand = Position(path), f"run `{printable(' '.join([path, *options]))}` by hand"
    try:
        process = subprocess.Popen(
            [os.path.abspath(path), *options],  # noqa: PTH100  a name without a slash would be searched in PATH
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        why = "its interpreter does not exist" if is_missing else (error.strerror or str(error)).lower()
        raise _invalid(
            at, f"cannot be run: {why}", "correct its first line, such as `#!/usr/bin/env python3`"
        ) from None
    with process:
        try:
            out, err = _communicate(process, time.monotonic() + timeout)
        except TimeoutError:
            what = f"did not end within {timeout:g} s with `{options[0]}`"
            raise _invalid(at, what, by_hand) from None
        except OverflowError:
            what = f"printed more than {MAX_BYTES:,} bytes with `{options[0]}`"
            raise _invalid(at, what, by_hand) from None
    if process.returncode:
        raise _invalid(at, f"{_exit_text(process.returncode)} with `{options[0]}`{_last_error_line(err)}", by_hand)
    return out


def _communicate(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[bytes, bytes]:
    """Return both outputs of a process; kill it on any error and on Ctrl-C."""
    try:
        return _read_until_exit(process, deadline)
    except BaseException:
        # It has a process group of its own, which Ctrl-C in the terminal does not reach.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise


def _read_until_exit(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[bytes, bytes]:
    """Return both outputs of a process once it has ended; TimeoutError, or OverflowError above MAX_BYTES."""
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, out)
        selector.register(process.stderr, selectors.EVENT_READ, err)
        while selector.get_map():
            ready = selector.select(max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                key.data.extend(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
            del err[:-_STDERR_BYTES]
            if len(out) > MAX_BYTES:
                raise OverflowError
    try:
        process.wait(max(0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return bytes(out), bytes(err)


def _exit_text(code: int) -> str:
    return f"ended with exit code {code}" if code > 0 else f"was killed by signal {-code}"


def _last_error_line(err: bytes) -> str:
    """Return the last line of the standard error, for a message."""
    lines = [line for line in mask_secrets(err.decode(errors="replace")).splitlines() if line.strip()]
    return f": {printable(one_line(lines[-1]))}" if lines else ""


def _invalid(at: Position, what: str, fix: str) -> InvalidInput:
    return InvalidInput([Problem(at, what, fix)])


_SECTIONS = ("hosts", "vars", "children")
_LIST = ["--list"]
_PARALLEL_RUNS = 8
_TYPES: dict[type, str] = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", type(None): "null"}
_ENCRYPTED, _LITERAL = "__ansible_vault", "__ansible_unsafe"
"""Ansible's JSON keys for an encrypted value, and for text that is no template."""


def add_script(builder: InventoryBuilder, path: str, vault: Vault | None = None, timeout: float = TIMEOUT) -> None:
    """Add the inventory that the script at `path` prints; InvalidInput if it fails or prints no inventory.

    It is run with `--list`, and, without `_meta` in the output, with `--host HOST` for every host. `timeout` is in seconds,
    for each run.
    """
    builder.begin_source(Position(path))
    _ScriptReader(builder, Position(path), vault or Vault(), lambda options: run_script(path, options, timeout)).read()


class _ScriptReader:
    def __init__(
        self, builder: InventoryBuilder, at: Position, vault: Vault, run: Callable[[list[str]], bytes]
    ) -> None:
        self.builder, self.at, self.vault, self.run = builder, at, vault, run
        self.hosts: dict[str, None] = {}
        self.printed_with = _LIST
        """What the script was run with, when it printed what is read now."""

    def read(self) -> None:
        data = self.query(_LIST)
        hostvars = self.hostvars(data.pop("_meta")) if "_meta" in data else None
        for name, body in data.items():
            self.group(name, body)
        variables = self.host_vars_one_by_one() if hostvars is None else hostvars
        for host in self.hosts:
            self.printed_with = ["--host", host] if hostvars is None else _LIST
            host_vars = self.mapping(variables.get(host, {}), f"the variables of host `{printable(host)}`")
            self.builder.set_host_vars(host, self.nodes(host_vars))

    def query(self, options: list[str]) -> dict[str, Any]:
        """Return the JSON that the script prints with `options`; empty output is an error with `--list` only."""
        printed = self.run(options)
        if not printed.strip():
            if options[0] == "--host":
                return {}
            raise self.error("printed nothing")
        try:
            data = json.loads(printed)
        except UnicodeDecodeError:
            raise self.error("printed text that is not UTF-8", options) from None
        except RecursionError:
            raise self.error(f"printed JSON nested more than {MAX_DEPTH} levels deep", options) from None
        except json.JSONDecodeError as error:
            where = f"line {error.lineno} column {error.colno}"
            raise self.error(f"printed no JSON: {where}: {one_line(error.msg).lower()}", options) from None
        except ValueError as error:  # a number of more digits than Python reads
            raise self.error(f"printed no JSON: {one_line(str(error)).lower()}", options) from None
        return self.mapping(data, "its output", options)

    def host_vars_one_by_one(self) -> dict[str, Any]:
        """Return the variables of every host, by a run with `--host` each."""
        with ThreadPoolExecutor(_PARALLEL_RUNS) as pool:
            return dict(zip(self.hosts, pool.map(lambda host: self.query(["--host", host]), self.hosts), strict=True))

    def hostvars(self, meta: Any) -> dict[str, Any]:
        return self.mapping(self.mapping(meta, "`_meta`").get("hostvars"), "`_meta.hostvars`")

    def group(self, name: str, body: Any) -> None:
        if not self.builder.add_group(self.key(name)):
            return
        if isinstance(body, dict) and not any(section in body for section in _SECTIONS):
            body = {"hosts": [name], "vars": body}  # as Ansible: such a group is a host
        elif not isinstance(body, dict):
            body = {"hosts": body}
        for host in self.names(body.get("hosts", []), f"`{printable(name)}.hosts`"):
            self.hosts[host] = None
            self.builder.add_host(name, self.key(host))
        self.builder.set_vars(name, self.nodes(self.mapping(body.get("vars", {}), f"`{printable(name)}.vars`")))
        for child in self.names(body.get("children", []), f"`{printable(name)}.children`"):
            if self.builder.add_group(self.key(child)):
                self.builder.add_child(name, child, self.at)

    def key(self, name: str) -> Scalar:
        return Scalar(name, self.at, name)

    def names(self, data: Any, what: str) -> list[str]:
        if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
            actual = "a list of other values" if isinstance(data, list) else _TYPES.get(type(data), "a number")
            raise self.error(f"{what} must be a list of names, not {actual}")
        return data

    def mapping(self, data: Any, what: str, options: list[str] | None = None) -> dict[str, Any]:
        if isinstance(data, dict):
            return data
        raise self.error(f"{what} must be a JSON object, not {_TYPES.get(type(data), 'a number')}", options)

    def nodes(self, data: dict[str, Any]) -> Mapping:
        return Mapping(
            {name: self.node(value) for name, value in data.items()}, self.at, {name: self.key(name) for name in data}
        )

    def node(self, data: Any, depth: int = 1) -> Node:
        """Return a value as a node, whose position is the script."""
        if depth > MAX_DEPTH:
            raise self.error(f"printed JSON nested more than {MAX_DEPTH} levels deep")
        if isinstance(data, list):
            return Items(tuple(self.node(item, depth + 1) for item in data), self.at)
        if not isinstance(data, dict):
            return Scalar(data, self.at, str(data), quoted=True)
        if len(data) == 1 and isinstance(text := data.get(_LITERAL), str):
            return Scalar(text, self.at, text, literal=True)
        if len(data) == 1 and isinstance(text := data.get(_ENCRYPTED), str):
            return Scalar(EncryptedValue(text, self.vault.decrypt), self.at, literal=True, secret=True)
        entries = {name: self.node(value, depth + 1) for name, value in data.items()}
        return Mapping(entries, self.at, {name: self.key(name) for name in data})

    def error(self, what: str, options: list[str] | None = None) -> InvalidInput:
        command = " ".join(options or self.printed_with)
        return InvalidInput([Problem(self.at, f"{what} (run with `{printable(command)}`)", "correct the script")])
