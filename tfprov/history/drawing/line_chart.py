"""Line charts as SVG: drawn here, so that a page needs no script of a chart library. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tfprov.history.drawing.curves import Axes, Curve, axes, log_ticks, ticks

WIDTH, HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 34
"""Room for labels, in the chart's own units."""
_POINTS = 300
"""Points of a curve that are drawn: one for two units of width is all that a screen shows."""
COLOURS = 6
"""Curves that have a colour of their own, by class in the style sheet of the page."""


def line_chart(title: str, x_name: str, curves: Sequence[Curve]) -> str:
    """Return a chart with a description for screen readers; a line of text if there is nothing to draw."""
    drawn = [curve.thinned(_POINTS) for curve in curves]
    scale = axes(drawn)
    if scale is None:
        return f'<p class="empty">{escape(title)}: nothing yet</p>'
    frame = _Frame(scale)
    description = escape(_description(title, x_name, drawn))
    return "\n".join(
        [
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{description}">',
            *frame.axes(x_name),
            *(line for number, curve in enumerate(drawn) for line in frame.curve(number, curve)),
            "</svg>",
            *_legend(drawn),
        ]
    )


def _description(title: str, x_name: str, curves: Sequence[Curve]) -> str:
    ends = [
        f"{curve.name} from {shown(curve.points[0][1])} to {shown(curve.points[-1][1])} at {x_name} "
        f"{shown(curve.points[-1][0])}"
        for curve in curves
        if curve.points
    ]
    return f"{title}: {'; '.join(ends)}"


def _legend(curves: Sequence[Curve]) -> Iterator[str]:
    if len(curves) > 1:
        items = (
            f'<li class="curve{number % COLOURS}">{escape(curve.name)}</li>' for number, curve in enumerate(curves)
        )
        yield f'<ul class="legend">{"".join(items)}</ul>'


def shown(value: float) -> str:
    """Return a number with four digits."""
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3g}"
    return f"{value:,.0f}" if value == round(value) else f"{value:.4g}"


@dataclass(frozen=True)
class _Frame:
    scale: Axes

    def at(self, x: float, y: float) -> tuple[float, float]:
        across, up = self.scale.place(x, y)
        return _LEFT + across * (WIDTH - _LEFT - _RIGHT), HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM)

    def axes(self, x_name: str) -> Iterator[str]:
        scale = self.scale
        for value in (log_ticks if scale.log else ticks)(scale.bottom, scale.top):
            left, height = self.at(scale.left, value)
            yield f'<line class="grid" x1="{left:.1f}" x2="{WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>'
            yield f'<text class="tick" x="{left - 6:.1f}" y="{height + 4:.1f}" text-anchor="end">{shown(value)}</text>'
        below = HEIGHT - _BOTTOM + 16
        for value in ticks(scale.left, scale.right):
            left, _ = self.at(value, scale.bottom)
            anchor = "end" if left > WIDTH - 3 * _RIGHT else "middle"
            yield f'<text class="tick" x="{left:.1f}" y="{below}" text-anchor="{anchor}">{shown(value)}</text>'
        yield f'<text class="tick" x="{WIDTH - _RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{escape(x_name)}</text>'

    def curve(self, number: int, curve: Curve) -> Iterator[str]:
        if not curve.points:
            return
        path = " ".join(f"{left:.1f},{height:.1f}" for left, height in (self.at(*point) for point in curve.points))
        colour = f"curve{number % COLOURS}"
        yield f'<polyline class="line {colour}" points="{path}"><title>{escape(curve.name)}</title></polyline>'
        left, height = self.at(*curve.points[-1])
        yield f'<circle class="end {colour}" cx="{left:.1f}" cy="{height:.1f}" r="3"/>'
