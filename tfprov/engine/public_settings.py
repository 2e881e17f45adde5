"""The settings of all roles as plain data without secrets, to be kept with logs and in the history of runs."""

from collections.abc import Iterable, Mapping
from typing import Any

from tfprov.errors import mask_secrets
from tfprov.model.yaml_node import HIDDEN, plain_masked
from tfprov.settings.role_settings import RoleSettings
from tfprov.vault.redaction import is_masked, mentions_secret


def public_roles(roles: Iterable[RoleSettings]) -> dict[str, dict[str, Any]]:
    """Return the settings of each role on each host."""
    by_role: dict[str, dict[str, Any]] = {}
    for role in roles:
        by_role.setdefault(role.role, {})[role.host] = _of_role(role)
    return by_role


def _of_role(role: RoleSettings) -> dict[str, Any]:
    written: Any = plain_masked(role.node)
    values = role.values.model_dump(mode="json") | {"address": role.address, "env": written.get("env") or {}}
    for one in values["notify"]:
        one["url"] = HIDDEN if one["url"] else None  # whoever knows it can post there
    return public(values | ({} if role.values.saves else {"checkpoints": "none"}))


def public(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without the values of environment variables with names of secrets."""
    env = values.get("env")
    if not isinstance(env, Mapping):
        return dict(values)
    return {
        **values,
        "env": {name: HIDDEN if mentions_secret(name) or is_masked(name) else value for name, value in env.items()},
    }


def masked(value: Any) -> Any:
    """Return plain data with every known secret masked in its texts."""
    if isinstance(value, Mapping):
        return {key: masked(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [masked(below) for below in value]
    return mask_secrets(value) if isinstance(value, str) else value
