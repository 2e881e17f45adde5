"""A command that cannot be run: which program was probably meant."""

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

USUAL = ("python", "python3", "bash", "sh", "env", "tensorboard", "torchrun", "horovodrun")
"""What commands begin with: of a container nobody knows which programs it has."""
_ALIKE = 0.7


def correction(name: str, programs: Iterable[str] = USUAL) -> str:
    """Return how to mend a command that begins with `name`, which is none of the `programs`."""
    close = difflib.get_close_matches(Path(name).name, sorted(programs), n=1, cutoff=_ALIKE)
    return f"did you mean `{close[0]}`? correct `command:`" if close else "correct `command:`"


def unstartable(error: OSError, name: str, environment: Mapping[str, str], work: Path) -> str:
    """Return why the program `name` could not be started in the directory `work`, and how to mend it."""
    if not isinstance(error, FileNotFoundError | PermissionError):
        return f"{error.strerror or error}: {name}"
    if isinstance(error, PermissionError):
        return f"the program `{name}` may not be executed; `chmod +x` it, or name its interpreter in `command:`"
    is_path = os.sep in name
    path = environment.get("PATH", os.defpath)
    places = [(work / name).parent] if is_path else [Path(place) for place in path.split(os.pathsep)]
    what = f"the file `{name}` does not exist" if is_path else f"there is no program `{name}`"
    return f"{what}; {correction(name, _executables(places))}"


def _executables(places: Iterable[Path]) -> set[str]:
    found: set[str] = set()
    for place in places:
        try:
            found.update(entry.name for entry in os.scandir(place) if os.access(entry.path, os.X_OK))
        except OSError:
            continue
    return found
