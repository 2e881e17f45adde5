"""The verb `dashboard`: a page of clusters and runs on this machine."""

from collections.abc import Callable

import click

from tfprov.cli.output import Printer, until_ctrl_c
from tfprov.errors import Usage


@click.command("dashboard")
@click.option("--port", type=click.IntRange(1, 65535), help="The port of 127.0.0.1; default: a free one.")
def dashboard_command(port: int | None) -> None:
    """Read-only, and for you alone: the address has a token, and no other machine can connect.

    It shows what `run`, `up` and `wait` record on this machine: clusters, runs, curves, tasks and logs.
    """
    try:
        from tfprov.dashboard.server import bound  # noqa: PLC0415  needs an extra
        from tfprov.history.reader import RunHistory  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "anyio"):
            raise
        raise Usage(f"the dashboard needs the package {error.name}", "pip install 'tfprov[dashboard]'") from None
    with Printer() as printer, bound(port) as page:
        show_page(printer, page.url, lambda: page.serve(RunHistory()))


def show_page(printer: Printer, url: str, serve: Callable[[], None]) -> None:
    """Print where the page is, and serve it until Ctrl-C."""
    with until_ctrl_c():
        printer.awaits("")  # no host is asked
        printer.note(f"{url} (Ctrl-C ends this, not the trainings)")
        serve()
