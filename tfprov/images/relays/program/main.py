"""Starts the relay in the directory with its configuration, and runs it until the controller ends it."""

from __future__ import annotations  # for every Python that an image may have

import json
import os
import threading

from tfprov.images.relays.program.connections import contexts, listen
from tfprov.images.relays.program.controller import Controller
from tfprov.images.relays.program.relay import Relay

CONFIG, CERTIFICATE = "relay.json", "relay.pem"
"""Files that are read once and removed."""


def main(directory: str) -> None:
    """Run until the controller ends it. `directory` has the configuration, which is read once and removed."""
    os.chdir(directory)
    with open(CONFIG, encoding="utf-8") as file:  # noqa: PTH123  pathlib takes longer to import than the program
        config = json.load(file)
    server, client = contexts(CERTIFICATE)
    for name in (CONFIG, CERTIFICATE):
        os.unlink(name)  # noqa: PTH108
    controller = Controller(config["control_port"], config["token"])
    relay = Relay({**config, "directory": directory}, controller, server, client)
    ready = {"engine_port": listen("127.0.0.1", relay.serve_engine), "peer_port": 0, "reason": ""}
    try:
        ready["peer_port"] = listen(config["address"], relay.serve_peer)
    except OSError as error:  # an address that only others have for it, as behind a NAT
        ready["reason"] = str(error)
    controller.send({"ready": ready})
    threading.Thread(target=controller.beat, daemon=True).start()
    controller.listen()
