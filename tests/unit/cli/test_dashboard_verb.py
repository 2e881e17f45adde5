"""What the verb `dashboard` shows in its terminal."""

import io

from tests.support.clock import ManualClock
from tfprov.cli.dashboard import show_page
from tfprov.cli.output import Printer


def test_a_page_that_is_served_has_no_live_line() -> None:
    clock, lines = ManualClock(), list[str]()

    def serve() -> None:
        clock.sleep(6)
        lines.append(printer.under_way.text(clock.now()))

    with Printer(live=True, out=io.StringIO(), now=clock.now) as printer:
        show_page(printer, "http://127.0.0.1:1/", serve)
    assert lines == [""]
