"""Draws how wall time and CPU grow with the number of hosts, as one SVG file with two charts."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]
_WIDTH, _HEIGHT, _LEFT, _TOP = 360, 260, 52, 34
"""The size of one chart, and the room for its labels."""
_COLOURS = ("#0b62a4", "#2a9d5c", "#7a5fb5", "#d1641f", "#b02a37")
_STYLE = "text{font:12px sans-serif;fill:#333}.grid{stroke:#ddd}.line{fill:none;stroke-width:2}rect{fill:#fff}"


@dataclass(frozen=True)
class Growth:
    """A contender: seconds of `wall` time, and milliseconds of `cpu` for each host, by the number of hosts."""

    name: str
    wall: tuple[Point, ...]
    cpu: tuple[Point, ...]


def picture(growths: Sequence[Growth], machine: str) -> str:
    """Return the SVG: wall time and CPU for each host, on logarithmic axes; `machine` is where it was measured."""
    width, height = 2 * _WIDTH, _HEIGHT + 20 * (len(growths) + 2)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    description = "Wall time and CPU for each host, by the number of hosts"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{description}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}"/>',
        *_chart("seconds, the whole command", 0, [growth.wall for growth in growths]),
        *_chart("ms of the controller's CPU for each host", _WIDTH, [growth.cpu for growth in growths]),
        *_legend(growths, machine),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _chart(title: str, left: float, curves: Sequence[Sequence[Point]]) -> Iterator[str]:
    points = [point for curve in curves for point in curve if point[1] > 0]
    across = _Scale(min(x for x, _ in points), max(x for x, _ in points), left + _LEFT, left + _WIDTH - 16)
    up = _Scale(min(y for _, y in points), max(y for _, y in points), _HEIGHT - 24, _TOP)
    yield f'<text x="{left + _LEFT}" y="18">{escape(title)}</text>'
    for value in up.round_values():
        height = up.at(value)
        yield f'<path class="grid" d="M{across.at(across.low):.1f} {height:.1f}H{across.at(across.high):.1f}"/>'
        yield f'<text x="{left + _LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{value:g}</text>'
    for hosts in sorted({x for x, _ in points}):
        yield f'<text x="{across.at(hosts):.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{hosts:,.0f}</text>'
    for number, curve in enumerate(curves):
        path = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in curve if y > 0)
        yield f'<polyline class="line" stroke="{_COLOURS[number % len(_COLOURS)]}" points="{path}"/>'


def _legend(growths: Sequence[Growth], machine: str) -> Iterator[str]:
    for number, growth in enumerate(growths):
        height = _HEIGHT + 20 * (number + 1)
        yield f'<path class="line" stroke="{_COLOURS[number % len(_COLOURS)]}" d="M{_LEFT} {height - 4}h24"/>'
        yield f'<text x="{_LEFT + 32}" y="{height}">{escape(growth.name)}</text>'
    below = _HEIGHT + 20 * (len(growths) + 1)
    yield f'<text x="{_LEFT}" y="{below}">by the number of hosts, simulated on the same machine ({escape(machine)})</text>'


@dataclass(frozen=True)
class _Scale:
    """A logarithmic axis from `low` to `high`, drawn between two coordinates."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """Return the coordinate of a value."""
        width = math.log(self.high / self.low) or 1.0
        return self.begin + (self.end - self.begin) * math.log(value / self.low) / width

    def round_values(self) -> Iterator[float]:
        """Yield 1, 2 and 5 times the powers of ten in its range."""
        for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
            yield from (v for factor in (1, 2, 5) if self.low <= (v := factor * 10.0**power) <= self.high)
