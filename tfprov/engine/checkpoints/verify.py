"""Reads every tensor of a gathered checkpoint in a separate process: the controller never imports TensorFlow."""

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Verification:
    """The number of tensors of a checkpoint, or the `error`, in one line, if they cannot all be read."""

    tensors: int
    error: str | None = None


Verify = Callable[[Sequence[Path]], Mapping[str, Verification]]
"""Returns the verification of each prefix by its last part, as `verify` does."""


def verify(prefixes: Sequence[Path]) -> Mapping[str, Verification]:
    """Verify checkpoints, by the last part of each prefix; an empty mapping if TensorFlow is not installed.

    Damage to the data shows only when the tensors are read: the names and sizes of the files can be right (measured).
    """
    if not prefixes or importlib.util.find_spec("tensorflow") is None:
        return {}
    command = [sys.executable, "-m", "tfprov.runtime.verify", *map(str, prefixes)]
    code, output, errors = _run(command)
    verdicts = {}
    for line in output.splitlines():
        if line.startswith("{"):
            facts = json.loads(line)
            verdicts[Path(facts["prefix"]).name] = Verification(facts["tensors"], facts["error"])
    unread = f"the reader ended with {code}: {(errors.strip().splitlines() or ['no reason'])[-1]}"
    return {prefix.name: verdicts.get(prefix.name, Verification(0, unread)) for prefix in prefixes}


def _run(command: Sequence[str]) -> tuple[int, str, str]:
    """Run a command; return its exit code and outputs. Ctrl-C kills it at once: `subprocess.run` waits 0.25 s."""
    with (
        tempfile.TemporaryFile("w+", errors="replace") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True) as process,
    ):
        assert process.stdout is not None
        try:
            output = process.stdout.read()
            code = process.wait()
        except BaseException:
            process.kill()
            raise
        errors.seek(0)
        return code, output, errors.read()
