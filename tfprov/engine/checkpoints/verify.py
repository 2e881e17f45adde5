"""Read every tensor of a gathered checkpoint, in a process of its own: the controller never imports TensorFlow."""

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Verdict:
    """How many tensors a checkpoint has, or the one line that says why they cannot all be read."""

    tensors: int
    error: str | None = None


Verify = Callable[[Sequence[Path]], Mapping[str, Verdict]]
"""Returns a verdict by the last part of each prefix, as `verify` does."""


def verify(prefixes: Sequence[Path]) -> Mapping[str, Verdict]:
    """Return a verdict by the last part of each prefix; an empty mapping where TensorFlow is not installed.

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
            verdicts[Path(facts["prefix"]).name] = Verdict(facts["tensors"], facts["error"])
    unread = f"the reader ended with {code}: {(errors.strip().splitlines() or ['no reason'])[-1]}"
    return {prefix.name: verdicts.get(prefix.name, Verdict(0, unread)) for prefix in prefixes}


def _run(command: Sequence[str]) -> tuple[int, str, str]:
    """Run a command; return how it ended and what it printed. Ctrl-C ends it at once: `subprocess.run` waits 0.25 s."""
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
