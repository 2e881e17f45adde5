"""Render templates with tfprov, in the form of Ansible's answers."""

import json
from typing import Any

from tfprov.errors import Position
from tfprov.model.inventory import Inventory
from tfprov.model.yaml_node import plain
from tfprov.templating.magic_vars import HostVars
from tfprov.templating.render import render_node

HOST = "w2.example.com"


def render_text(inventory: Inventory, text: str, host: str = HOST) -> Any:
    """Return what `text` computes for a host, as JSON has it."""
    value = plain(render_node(text, HostVars(inventory)[host], Position("there", 1, 1)))
    return json.loads(json.dumps(value, default=lambda date: {"date": date.isoformat()}))


def types_of(value: Any) -> Any:
    """Return the type of a value and of everything in it: to Python, 1, 1.0 and true are equal."""
    if isinstance(value, dict):
        return {key: types_of(below) for key, below in value.items()}
    return [types_of(below) for below in value] if isinstance(value, list) else type(value).__name__
