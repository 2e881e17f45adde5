"""Serve the newest exported model until a signal ends it.

    python -m tfprov.runtime.serving --rest_api_port=8501 --model_name=digits --model_base_path=DIR/export

Flags, directories and the REST API are those of TensorFlow Serving, so that it can take this server's place: `predict`,
`metadata` and the state of versions. It has no gRPC port, no batching and one model.

Exit codes: 143 after SIGTERM, 130 after Ctrl-C, 1 when it cannot listen on its port (one line on stderr), 2 for
invalid flags.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn

from tfprov.runtime.serving.model import ServedModel
from tfprov.runtime.serving.rest import BadRequest, to_json
from tfprov.runtime.signals import Signals, die

MAX_BODY = 64 * 1024 * 1024
"""Bytes of a request; TensorFlow Serving has no limit, and a server beside a training must not take its memory."""


def main(argv: Sequence[str]) -> NoReturn:
    """Parse the command line `argv` and serve."""
    options = _parser().parse_args(argv)
    # A GPU would be taken from a task that trains on the same machine; a group's own `env` can name one.
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    model = ServedModel(options.model_name, options.model_base_path, _log)
    with Signals().handled():
        try:
            server = Server((options.host, options.rest_api_port), handler(model))
        except OSError as error:
            die(f"the model server cannot listen on port {options.rest_api_port}: {error.strerror}")
        _log(f"waits for versions of {options.model_name} in {options.model_base_path}")
        threading.Thread(target=server.serve_forever, name="tfprov-http", daemon=True).start()
        pause = threading.Event()
        while True:
            model.refresh()
            pause.wait(options.file_system_poll_wait_seconds)


class Server(ThreadingHTTPServer):
    """Answers each connection in a thread of its own."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong with a request, unless the client is gone: that is no error of the server."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def handler(model: ServedModel) -> type[BaseHTTPRequestHandler]:
    """Return the request handler class for `model`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            size = self.headers.get("Content-Length", "")
            if not size.isdigit() or int(size) > MAX_BODY:
                self.close_connection = True
                problem = f"a request needs a Content-Length of at most {MAX_BODY} bytes"
                self._send(411 if not size.isdigit() else 413, {"error": problem})
                return
            self._answer(self.rfile.read(int(size)))

        def _answer(self, body: bytes) -> None:
            try:
                self._send(200, model.answer(self.command, self.path, body))
            except BadRequest as refusal:
                self._send(refusal.status, {"error": str(refusal)})

        def _send(self, status: int, answer: dict[str, Any]) -> None:
            content = to_json(answer)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log nothing: a request may have personal data in its path."""

    return Handler


def _log(line: str) -> None:
    sys.stderr.write(f"tfprov: {line}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tfprov.runtime.serving")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--rest_api_port", type=int, default=8501, help="the port of the REST API")
    parser.add_argument("--model_name", default="model", help="the name of the model in URLs")
    parser.add_argument("--model_base_path", type=Path, required=True, help="the directory with numbered versions")
    parser.add_argument(
        "--file_system_poll_wait_seconds", type=float, default=1.0, help="seconds between two looks for a new version"
    )
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
