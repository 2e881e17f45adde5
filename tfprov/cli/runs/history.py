"""What the commands of `runs` share."""

import click

from tfprov.history.quality import headline
from tfprov.history.summary import RunSummary

cluster_option = click.option("--cluster", metavar="NAME", help="Only runs of this cluster.")


def quality_of(summary: RunSummary) -> str:
    """Return the first measure of quality of a run: `eval/accuracy 0.93`."""
    best = headline(summary.quality)
    return f"{best[0]} {best[1]:.4g}" if best is not None else "-"
