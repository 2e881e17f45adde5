"""What `check` makes of the programs of tasks: whether they can be started, and whether they can import TensorFlow."""

from collections.abc import Callable, Iterator

from tfprov.engine.checking.findings import Finding, failed, note, ok, warning
from tfprov.engine.programs import Fault, Programs, tasks_by_program
from tfprov.errors import shown
from tfprov.hosts.order import environment
from tfprov.hosts.tensorflow_import import Imported, try_here
from tfprov.model.state import Container

Import = Callable[[Container, str], Imported]
"""Imports TensorFlow as a task would, with the Python that is named."""


def of_processes(programs: Programs, wanted: list[Container], try_import: Import | None = None) -> list[Finding]:
    """Judge the programs of tasks that are processes of this machine."""
    found: list[Finding] = []
    imported: dict[str, Imported] = {}
    try_import = try_import or _here
    for container, tasks in tasks_by_program(wanted):
        fault = programs.fault(container)
        found += command(container, tasks, fault)
        python = programs.python(container)
        path = programs.which(container, python) if python and fault is None else None
        if path is None or programs.uses_tensorflow(container) is False:
            continue
        if path not in imported:
            imported[path] = try_import(container, path)
        fix = f"`{path} -m pip install 'tfprov[tensorflow]'`"
        found.append(tensorflow(imported[path], path, fix, is_sure=bool(programs.uses_tensorflow(container))))
    return list(dict.fromkeys(found))


def _here(container: Container, python: str) -> Imported:
    return try_here(python, environment(container))


def command(container: Container, tasks: list[str], fault: Fault | None) -> Iterator[Finding]:
    """Judge the command that some tasks of one host start."""
    if words := container.spec.get("command"):
        if fault is not None:
            yield failed("command", f"{', '.join(tasks)}: {fault.what}", fault.fix)
        else:
            yield ok("command", shown(" ".join(words)))


def undelivered(container: Container) -> Iterator[Finding]:
    """Tell that the command of a task is not known to work before its image is there."""
    if words := container.spec.get("command"):
        yield note("command", f"{shown(' '.join(words))}: not known until the image is there")


def tensorflow(found: Imported, python: str, fix: str, *, is_sure: bool) -> Finding:
    """Judge an import of TensorFlow; unless it `is_sure` that the program imports it, its absence is only a warning."""
    if found.version:
        return ok("tensorflow", f"TensorFlow {found.version}, imported by {python} in {found.seconds:.1f} s")
    if found.late:
        return warning(
            "tensorflow", f"its import by {python} is {found.trouble}", "look at the disk and the load there"
        )
    judge = failed if is_sure else warning
    if found.absent:
        return judge("tensorflow", f"{python} has no TensorFlow", f"install it: {fix}")
    return judge("tensorflow", f"{python} cannot import it: {found.trouble}", f"mend it, for example with {fix}")


IMPORTING = "importing TensorFlow with the tasks' Python"
"""What `check` waits for, in the last line of a terminal."""
IN_IMAGE = "`RUN pip install tensorflow` in the image's Dockerfile"
"""How TensorFlow gets into an image."""
