"""Named series of points, and the axes on which they are drawn, in a terminal and as SVG. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_WIDE = 100.0
"""The ratio of the largest to the smallest value from which the axis is logarithmic."""


_LARGEST = 1e100
"""Larger values are left out: the width of their range would not be finite."""
_TICKS = 5


@dataclass(frozen=True)
class Curve:
    """A named series of (x, y)."""

    name: str
    points: tuple[tuple[float, float], ...]

    @property
    def finite(self) -> tuple[tuple[float, float], ...]:
        """The points that can be drawn."""
        return tuple((x, y) for x, y in self.points if abs(x) < _LARGEST and abs(y) < _LARGEST)  # not NaN

    def thinned(self, most: int) -> "Curve":
        """Return the finite points, at most about as many as `most`, the last one always."""
        finite = self.finite
        kept = finite[:: max(1, math.ceil(len(finite) / most))]
        return Curve(self.name, kept if not finite or kept[-1] == finite[-1] else (*kept, finite[-1]))


@dataclass(frozen=True)
class Axes:
    """The ranges of a plot. With `log`, y is drawn by its logarithm."""

    left: float
    right: float
    bottom: float
    top: float
    log: bool

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return a point as shares of the width and the height, from 0 to 1."""
        low, high, at = (
            (math.log(self.bottom), math.log(self.top), math.log(y)) if self.log else (self.bottom, self.top, y)
        )
        return (
            (x - self.left) / (self.right - self.left) if self.right > self.left else 0.0,
            (at - low) / (high - low) if high > low else 0.5,
        )


def axes(curves: Sequence[Curve]) -> Axes | None:
    """Return the axes for all curves; None if there is no point."""
    points = [point for curve in curves for point in curve.finite]
    if not points:
        return None
    xs, ys = [x for x, _ in points], [y for _, y in points]
    bottom, top = min(ys), max(ys)
    return Axes(min(xs), max(xs), bottom, top, bottom > 0 and top / bottom > _WIDE)


def ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two: 1, 2 or 5 times a power of ten apart."""
    if not low < high:
        return [low]
    rough = (high - low) / _TICKS
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten between two positive numbers, at most five of them."""
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    return [10.0**power for power in powers[:: max(1, math.ceil(len(powers) / _TICKS))]]
