"""The verb `check`: whether every host can run its tasks."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tfprov.cli.escape_sequences import json_screened
from tfprov.cli.options import change_options, cluster_of, json_option
from tfprov.cli.output import Printer
from tfprov.cli.output import table as aligned
from tfprov.engine.checks.check import CheckReport
from tfprov.engine.checks.host_rules import CHECKS, Finding, Verdict
from tfprov.engine.checks.reachability import OK, UNTRIED, failures, is_whole, reasons, summary, table
from tfprov.errors import Usage
from tfprov.planning.plan_text import join_names

if TYPE_CHECKING:
    from tfprov.hosts.ssh.host_keys import UnknownHostKey

_COLOURS = {Verdict.OK: "32", Verdict.NOTE: "36", Verdict.WARNING: "33", Verdict.FAILED: "31"}
_NAMED = 4
"""How many hosts a line names, and how many lines differ in a name or a number only; it counts the rest."""
_VARYING = re.compile(r"[a-z_]+/\d+|\d+(\.\d+)?", re.ASCII)
"""The name of a task, or a number."""


@click.command("check")
@click.option(
    "--deliver", is_flag=True, help="First build and deliver the images that hosts lack, to try addresses with."
)
@click.option(
    "--trust", is_flag=True, help="Show the keys of hosts that known_hosts does not have, and ask about each."
)
@click.option(
    "--all-pairs", is_flag=True, help="Try every address from every host; default in large clusters: those in use."
)
@json_option
@change_options
def check_command(deliver: bool, trust: bool, all_pairs: bool, as_json: bool, **options: Any) -> int:
    """Containers that try the addresses are removed again. Ends with 1 when something failed, 4 when a host is lost."""
    with _Aside(live=False) if as_json else Printer() as printer:
        cluster = cluster_of(options, printer.handle)
        checked = cluster.check(deliver=deliver, trust=_ask if trust else None, all_pairs=all_pairs)
        if as_json:
            click.echo(json_screened(json.dumps(checked.to_dict(), indent=2)))
        else:
            for line in lines(checked, cluster.title, printer):
                printer.note(line)
    return checked.exit_code


class _Aside(Printer):
    """Prints events to standard error: standard output is for the JSON."""

    def print(self, text: str) -> None:
        """Write one line."""
        click.echo(text, err=True)


def _ask(unknown: "UnknownHostKey") -> bool:
    from tfprov.hosts.ssh.host_keys import compare_hint  # noqa: PLC0415

    hop = unknown.hop
    who = f"{hop.label} ({hop.endpoint})"
    if not sys.stdin.isatty():
        fix = "run it in a terminal, or trust all unknown keys with --accept-new"
        raise Usage(f"answer needed: is {unknown.shown_key} the key of {who}?", fix)
    click.echo(
        f"{who} shows a key that is not known yet:\n  {unknown.shown_key}\n  {compare_hint(unknown.key_type)}", err=True
    )
    return click.confirm(f"trust it, and record it in {hop.known_hosts[0]}?", err=True)


def lines(checked: CheckReport, title: str, printer: Printer) -> Iterator[str]:
    """Yield the report: a table of findings, the reachability matrix, and a summary."""
    yield title
    yield ""
    yield from _painted([("CHECK", "VERDICT", "HOSTS", "FOUND"), *_rows(checked)], printer)
    if checked.cells:
        yield ""
        yield from _matrix(checked, printer)
    yield ""
    yield _sum(checked)


def _rows(checked: CheckReport) -> Iterator[tuple[str, ...]]:
    """Yield a row for each finding, with all hosts that have it."""
    for check in CHECKS:
        same: dict[Finding, list[str]] = {}
        for host, findings in checked.hosts.items():
            for finding in findings:
                if finding.check == check:
                    same.setdefault(finding, []).append(host)
        for number, (finding, hosts) in enumerate(_folded(same)):
            yield "" if number else check, str(finding.verdict), _some(hosts, all_of=len(checked.hosts)), str(finding)


def _folded(same: Mapping[Finding, list[str]]) -> Iterator[tuple[Finding, list[str]]]:
    """Yield findings with their hosts; many that say nothing is wrong and differ in names and numbers only are one."""
    alike: dict[tuple[Verdict, str], list[Finding]] = {}
    for finding in same:
        shape = _VARYING.sub("#", str(finding)) if finding.verdict in (Verdict.OK, Verdict.NOTE) else str(finding)
        alike.setdefault((finding.verdict, shape), []).append(finding)
    for findings in alike.values():
        if len(findings) <= _NAMED:
            yield from ((finding, same[finding]) for finding in findings)
        else:
            what = f"{findings[0].what} (the first of {len(findings)} alike)"
            yield replace(findings[0], what=what), list(dict.fromkeys(h for one in findings for h in same[one]))


def _some(hosts: list[str], all_of: int = 0) -> str:
    if len(hosts) == all_of > 1:
        return f"all {all_of}"
    return join_names(hosts, _NAMED)


def _matrix(checked: CheckReport, printer: Printer) -> Iterator[str]:
    is_tried = any(cell.outcome != UNTRIED for cell in checked.cells)
    if is_tried and is_whole(checked.cells):
        yield from ("every task's address, tried from every host:", "", *aligned(table(checked.cells)))
    elif is_tried:
        yield summary(checked.cells)
    remarks = [(Verdict.FAILED, f"{_some(hosts)} does not reach {it}") for hosts, it in failures(checked.cells)]
    for text, hosts in reasons(checked.cells).items():
        remarks.append((Verdict.NOTE, f"not tried: {_some(hosts)}: {text}" if hosts else f"not tried: {text}"))
    if remarks and is_tried:
        yield ""
    for verdict, text in remarks:
        yield f"{printer.paint(verdict.ljust(7), _COLOURS[verdict])}  {text}"


def _painted(rows: Iterable[tuple[str, ...]], printer: Printer) -> Iterator[str]:
    whole = list(rows)
    for row, line in zip(whole, aligned(whole), strict=True):
        colour = _COLOURS.get(Verdict(row[1])) if row[1] in list(Verdict) else None
        yield line.replace(row[1], printer.paint(row[1], colour), 1) if colour else line


def _sum(checked: CheckReport) -> str:
    parts = [f"{len(checked.hosts)} host{'s' if len(checked.hosts) != 1 else ''} looked at"]
    outcomes = [cell.outcome for cell in checked.cells]
    if tried := len(outcomes) - outcomes.count(UNTRIED):
        parts.append(f"{outcomes.count(OK)} of {tried} addresses reached")
    if outcomes.count(UNTRIED):
        parts.append(f"{outcomes.count(UNTRIED)} not tried")
    counts = (
        (checked.verdicts.count(Verdict.FAILED), "failed"),
        (checked.verdicts.count(Verdict.WARNING), "with a warning"),
    )
    bad = [f"{number} {word}" for number, word in counts if number]
    return f"{', '.join(parts)}: {', '.join(bad) or 'nothing is in the way'}"
