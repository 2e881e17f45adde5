"""The Ansible variables that tfprov supports, each with its description, type, default and example."""

from dataclasses import dataclass
from typing import Any

from tfprov.model import field_types

SECONDS = {"type": ["integer", "string"], "minimum": 1, "maximum": 3600, "pattern": "^[0-9]{1,5}$"}
TEXT = {"type": "string", "pattern": r"^\n*[^\n\u0000]+\n*$"}
PASSWORD = {"type": "string", "pattern": r"^(?![\s\S]*[\u0000\r\n])[\s\S]"}
ARGUMENTS = {"type": "string"}
WORD = {"type": "string", "pattern": r"^[^\s-]\S*$"}
ADDRESS = {"type": "string", "pattern": rf"{field_types.ADDRESS.pattern}|^[^\s@:]*:[^\s@:]*:[^\s@]*$"}  # or IPv6
PORT = {"type": ["integer", "string"], "minimum": 1, "maximum": 65535, "pattern": "^[0-9]{1,5}$"}
BOOLEAN = {
    "type": ["boolean", "integer", "string"],
    "minimum": 0,
    "maximum": 1,
    "pattern": r"^\s*(?:[yY]|[yY][eE][sS]|[oO][nN]|[tT]|[tT][rR][uU][eE]|[nN]|[nN][oO]|[oO][fF]{2}|[fF]"
    r"|[fF][aA][lL][sS][eE]|[01])\s*$",
}


@dataclass(frozen=True)
class HostVariable:
    """One variable. `schema` is its JSON Schema without templates, and `default` its default in words."""

    sentence: str
    schema: dict[str, Any]
    example: str | int | bool
    default: str


_KEY = "The private key for the login. Relative paths of Ansible are relative to the working directory."
_PASSWORD = "The SSH password; no message, label or log contains it. Prefer a key, or a vault."  # noqa: S105
_TIMEOUT = "The timeout for connecting in seconds, 1 to 3600."
_MORE = (
    "How SSH connects: `-J`, `-o ProxyCommand`, `-i`, `-F`, `-p`, `-4`, `-6`, `-o StrictHostKeyChecking=accept-new`, "
    "`IdentitiesOnly`, `PreferredAuthentications`, `HostKeyAlgorithms`, and others."
)

VARIABLES = {
    "ansible_host": HostVariable(
        "The host name or address for SSH.",
        ADDRESS,
        "10.0.0.11",
        "the host's name in the inventory",
    ),
    "ansible_port": HostVariable(
        "The port number of the SSH server.",
        PORT,
        22,
        "22, or what ~/.ssh/config says",
    ),
    "ansible_user": HostVariable(
        "The user to log in as.", WORD, "trainer", "what ~/.ssh/config says, or your own name"
    ),
    "ansible_ssh_host": HostVariable(
        "The old name of `ansible_host`, which it wins over.", ADDRESS, "10.0.0.11", "none"
    ),
    "ansible_ssh_port": HostVariable(
        "The old name of `ansible_port`, a port number; it wins over that.", PORT, 22, "none"
    ),
    "ansible_ssh_user": HostVariable("The old name of `ansible_user`, which it wins over.", WORD, "trainer", "none"),
    "ansible_connection": HostVariable(
        "`ssh`, or `local` for this machine itself. A host with a role needs one of the two.",
        {"anyOf": [{"enum": ["ssh", "local"]}, TEXT]},
        "local",
        "`local` for localhost, else `ssh`",
    ),
    "ansible_ssh_private_key_file": HostVariable(
        f"{_KEY} It wins over `ansible_private_key_file`.",
        TEXT,
        "~/.ssh/id_ed25519",
        "what ~/.ssh/config and the agent say",
    ),
    "ansible_private_key_file": HostVariable(_KEY, TEXT, "~/.ssh/id_ed25519", "what ~/.ssh/config and the agent say"),
    "ansible_password": HostVariable(_PASSWORD, PASSWORD, "{{ vault_password }}", "none"),
    "ansible_ssh_pass": HostVariable(
        f"{_PASSWORD} It wins over `ansible_password`.", PASSWORD, "{{ vault_password }}", "none"
    ),
    "ansible_ssh_password": HostVariable(
        f"{_PASSWORD} It wins over `ansible_password` and `ansible_ssh_pass`.", PASSWORD, "{{ vault_password }}", "none"
    ),
    "ansible_timeout": HostVariable(_TIMEOUT, SECONDS, 30, "10"),
    "ansible_ssh_timeout": HostVariable(f"{_TIMEOUT} It wins over `ansible_timeout`.", SECONDS, 30, "10"),
    "ansible_ssh_common_args": HostVariable(
        f"Arguments for ssh. {_MORE}", ARGUMENTS, "-J gate@bastion.example.com", "none"
    ),
    "ansible_ssh_extra_args": HostVariable(
        f"Arguments for ssh, behind `ansible_ssh_common_args`. {_MORE}", ARGUMENTS, "-o ConnectTimeout=5", "none"
    ),
    "ansible_ssh_args": HostVariable(
        f"Arguments for ssh, before `ansible_ssh_common_args`. {_MORE}", ARGUMENTS, "-o ServerAliveInterval=5", "none"
    ),
    "ansible_become": HostVariable(
        "Whether commands on the host run as root, with `sudo` without a password.", BOOLEAN, True, "false"
    ),
    "ansible_become_method": HostVariable("How to become root; only `sudo` is supported.", WORD, "sudo", "`sudo`"),
    "ansible_become_user": HostVariable("The user to become; only `root` is supported.", WORD, "root", "`root`"),
    "ansible_python_interpreter": HostVariable(
        "The Python for tasks of the process runtime, if it is an absolute path and `python` is not set.",
        TEXT,
        "/opt/venv/bin/python",
        "the Python that runs tfprov",
    ),
    "ansible_group_priority": HostVariable(
        "Among groups that lie equally deep, the variables of the one with the higher number win. It counts in the "
        "inventory itself, and not in group_vars.",
        {"type": ["integer", "string"], "pattern": "^[0-9]{1,9}$"},
        10,
        "1",
    ),
}
