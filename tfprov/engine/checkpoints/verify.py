"""Read every tensor of a gathered checkpoint, in a process of its own: the controller never imports TensorFlow."""

import importlib.util
import json
import subprocess
import sys
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
    done = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)
    verdicts = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            facts = json.loads(line)
            verdicts[Path(facts["prefix"]).name] = Verdict(facts["tensors"], facts["error"])
    unread = f"the reader ended with {done.returncode}: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}"
    return {prefix.name: verdicts.get(prefix.name, Verdict(0, unread)) for prefix in prefixes}
