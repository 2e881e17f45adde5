"""Programs that run in a fork of the process of a test: they need no interpreter of their own, and import nothing again."""

import multiprocessing
import sys

PROCESSES = multiprocessing.get_context("fork")


def run_forked(program: str, *arguments: str) -> int:
    """Run Python source to its end, with `arguments` in sys.argv; return its exit code, or minus a signal."""
    process = PROCESSES.Process(target=_run, args=(program, arguments))
    process.start()
    process.join()
    code = process.exitcode
    process.close()
    assert code is not None
    return code


def _run(program: str, arguments: tuple[str, ...]) -> None:
    sys.argv = ["-c", *arguments]
    exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
