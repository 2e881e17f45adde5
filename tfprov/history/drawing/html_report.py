"""A comparison as one HTML file without anything from elsewhere: tables, and the curves as inline SVG. Pure."""

from collections.abc import Iterator, Sequence
from html import escape

from tfprov.history import formats
from tfprov.history.compare import Comparison, Figures
from tfprov.history.drawing.line_chart import line_chart
from tfprov.history.show import curve_of

_COLOURS = ("#1b6ec2", "#c2491b", "#2a8a3e", "#7b3fb5", "#a8780a", "#b01e62")
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1c1c1c; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top; }
td { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; } .tick { font: 12px system-ui, sans-serif; fill: #444; } .grid { stroke: #ddd; }
.line { fill: none; stroke-width: 1.5; } .legend { list-style: none; padding: 0; }
.legend li::before { content: "\\25CF\\00A0"; }
@media (prefers-color-scheme: dark) {
body { background: #161616; color: #e4e4e4; } .tick { fill: #bbb; } .grid { stroke: #444; } }
""" + "\n".join(
    f".line.curve{number} {{ stroke: {colour}; }} .curve{number} {{ color: {colour}; }} "
    f".end.curve{number} {{ fill: {colour}; }}"
    for number, colour in enumerate(_COLOURS)
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing is loaded and no script runs, whatever a setting contains."""


def html_report(comparison: Comparison) -> str:
    """Return the page."""
    names = [figures.run for figures in comparison.figures]
    curves = [curve_of(record) for record in comparison.runs]
    title = escape("Runs " + ", ".join(names))
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body><h1>Runs compared</h1>",
        "<h2>Loss by step</h2>",
        line_chart("Loss", "step", curves),
        "<h2>Final figures</h2>",
        *_table(["", *names], _figure_rows(comparison.figures)),
        "<h2>Settings that differ</h2>",
        *_table(
            ["", *names],
            [[one.name, *map(formats.setting, one.values)] for one in comparison.differences]
            or [["none", *[""] * len(names)]],
        ),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _figure_rows(figures: Sequence[Figures]) -> list[list[str]]:
    return [[name, *cells] for name, cells in formats.figure_rows(figures)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    cells = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    yield f"<table><thead><tr>{cells}</tr></thead><tbody>"
    for name, *values in rows:
        inner = "".join(f"<td>{escape(value)}</td>" for value in values)
        yield f'<tr><th scope="row">{escape(name)}</th>{inner}</tr>'
    yield "</tbody></table>"
