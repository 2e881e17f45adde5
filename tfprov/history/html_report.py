"""A comparison as one HTML file without anything from elsewhere: tables, and the curves as inline SVG. Pure."""

from collections.abc import Iterator, Sequence
from html import escape

from tfprov.history.compare import Comparison, Figures
from tfprov.history.show import Formats, curve_of
from tfprov.history.text_plot import Axes, Curve, axes

_WIDTH, _HEIGHT, _MARGIN = 760, 320, 60
_COLOURS = ("#1b6ec2", "#c2491b", "#2a8a3e", "#7b3fb5", "#a8780a", "#b01e62", "#3d8f8f", "#555555")
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1c1c1c; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top; }
td { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: #444; }
@media (prefers-color-scheme: dark) { body { background: #161616; color: #e4e4e4; } svg text { fill: #bbb; } }
"""
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
        *_svg(curves),
        "<h2>Final figures</h2>",
        *_table(["", *names], _figure_rows(comparison.figures)),
        "<h2>Settings that differ</h2>",
        *_table(
            ["", *names],
            [[one.name, *map(Formats.value, one.values)] for one in comparison.differences]
            or [["none", *[""] * len(names)]],
        ),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _figure_rows(figures: Sequence[Figures]) -> list[list[str]]:
    return [[name, *cells] for name, cells in Formats.figures(figures)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    cells = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    yield f"<table><thead><tr>{cells}</tr></thead><tbody>"
    for name, *values in rows:
        inner = "".join(f"<td>{escape(value)}</td>" for value in values)
        yield f'<tr><th scope="row">{escape(name)}</th>{inner}</tr>'
    yield "</tbody></table>"


def _svg(curves: Sequence[Curve]) -> Iterator[str]:
    scale = axes(curves)
    if scale is None:
        yield "<p>No curve was recorded.</p>"
        return
    label = escape("Loss by step of " + ", ".join(curve.name for curve in curves))
    height = _HEIGHT + 20 * len(curves)
    yield f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">'
    yield f'<path d="M{_MARGIN} 10V{_HEIGHT - 30}H{_WIDTH - 10}" fill="none" stroke="#999"/>'
    yield f'<text x="{_MARGIN - 6}" y="20" text-anchor="end">{scale.top:.4g}</text>'
    yield f'<text x="{_MARGIN - 6}" y="{_HEIGHT - 32}" text-anchor="end">{scale.bottom:.4g}</text>'
    yield f'<text x="{_MARGIN}" y="{_HEIGHT - 12}">{scale.left:,.0f}</text>'
    yield f'<text x="{_WIDTH - 10}" y="{_HEIGHT - 12}" text-anchor="end">{scale.right:,.0f}</text>'
    for number, curve in enumerate(curves):
        colour, y = _COLOURS[number % len(_COLOURS)], _HEIGHT + 20 * number + 4
        yield f'<polyline points="{_points(curve, scale)}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        yield f'<path d="M{_MARGIN} {y - 4}h24" stroke="{colour}" stroke-width="3"/>'
        yield f'<text x="{_MARGIN + 32}" y="{y}">{escape(curve.name)}</text>'
    yield "</svg>"


def _points(curve: Curve, scale: Axes) -> str:
    def point(x: float, y: float) -> str:
        across, up = scale.place(x, y)
        return f"{_MARGIN + across * (_WIDTH - _MARGIN - 10):.1f},{10 + (1 - up) * (_HEIGHT - 40):.1f}"

    return " ".join(point(x, y) for x, y in curve.finite)
