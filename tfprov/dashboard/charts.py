"""Line charts as SVG: drawn by the server, so that the page needs no script of a chart library. No effects."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 34
"""Room for labels, in the chart's own units."""
_POINTS = 300
"""Points of a curve that are drawn: one for two units of width is all that a screen shows."""
_LARGEST = 1e100
"""Larger values are left out: the width of their range would not be finite."""
_TICKS = 5
COLOURS = 6
"""Curves that have a colour of their own, by class in the style sheet."""


@dataclass(frozen=True)
class Curve:
    """A named series of (x, y)."""

    name: str
    points: Sequence[tuple[float, float]]

    @property
    def drawn(self) -> list[tuple[float, float]]:
        """The finite points, at most as many as are visible, the last one always."""
        finite = [(x, y) for x, y in self.points if abs(x) < _LARGEST and abs(y) < _LARGEST]  # not NaN
        step = max(1, math.ceil(len(finite) / _POINTS))
        kept = finite[::step]
        return kept if not finite or kept[-1] == finite[-1] else [*kept, finite[-1]]


def line_chart(title: str, x_name: str, curves: Sequence[Curve]) -> str:
    """Return a chart with a title and a description for screen readers; a line of text if there is nothing to draw."""
    drawn = [Curve(curve.name, curve.drawn) for curve in curves]
    points = [point for curve in drawn for point in curve.points]
    if not points:
        return f'<p class="empty">{escape(title)}: nothing yet</p>'
    frame = _Frame(_range([x for x, _ in points]), _range([y for _, y in points]))
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
    """Return a number with four digits: 0.0123, 12.3 k."""
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3g}"
    return f"{value:,.0f}" if value == round(value) else f"{value:.4g}"


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    margin = max(0.5, 0.01 * abs(low))
    return low - margin, high + margin


@dataclass(frozen=True)
class _Frame:
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return _LEFT + across * (WIDTH - _LEFT - _RIGHT), HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM)

    def axes(self, x_name: str) -> Iterator[str]:
        for value in ticks(*self.y):
            left, height = self.at(self.x[0], value)
            yield f'<line class="grid" x1="{left:.1f}" x2="{WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>'
            yield f'<text class="tick" x="{left - 6:.1f}" y="{height + 4:.1f}" text-anchor="end">{shown(value)}</text>'
        below = HEIGHT - _BOTTOM + 16
        for value in ticks(*self.x):
            left, _ = self.at(value, self.y[0])
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


def ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two: 1, 2 or 5 times a power of ten apart."""
    rough = (high - low) / _TICKS
    power = 10 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]
