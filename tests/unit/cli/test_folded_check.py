"""What `check` prints of many hosts: what is wrong is named, and what is well takes a line."""

import pytest

from tfprov.cli.check import lines
from tfprov.cli.output import Printer
from tfprov.engine.checks.check import CheckReport
from tfprov.engine.checks.host_rules import Finding, failed, note, ok


def printed(findings: dict[str, list[Finding]]) -> list[str]:
    report = CheckReport("lab", {host: tuple(of_host) for host, of_host in findings.items()})
    return [line.rstrip() for line in lines(report, "lab: 6 workers", Printer(live=False))][3:-2]


def of_host(number: int) -> list[Finding]:
    root = f"worker/{number} runs as root in its container"
    return [ok("disk", f"{60 + number / 10} GiB free in /"), note("image", root, "set `user`")]


@pytest.mark.parametrize("hosts", [4, 5, 300])
def test_findings_that_differ_in_a_task_or_a_number_are_one_line_from_five_on(hosts: int) -> None:
    rows = printed({f"h{number}": of_host(number) for number in range(hosts)})
    if hosts == 4:
        assert len(rows) == 8
        return
    of_all = f"all {hosts}"
    assert rows == [
        f"disk   ok       {of_all}  60.0 GiB free in / (the first of {hosts} alike)",
        f"image  note     {of_all}  worker/0 runs as root in its container (the first of {hosts} alike); set `user`",
    ]


def test_failures_are_all_named() -> None:
    rows = printed({f"h{n}": [failed("address", f"it has no address 10.0.0.{n}", "correct it")] for n in range(30)})
    assert [row.rpartition("  ")[2] for row in rows] == [f"it has no address 10.0.0.{n}; correct it" for n in range(30)]
