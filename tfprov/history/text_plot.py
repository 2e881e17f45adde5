"""Curves as text, for a terminal. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MARKS = "abcdefghijklmnopqrstuvwxyz"
"""The marks of curves, in turn; `*` is where several meet."""
_WIDE = 100.0
"""The ratio of the largest to the smallest value from which the axis is logarithmic."""


@dataclass(frozen=True)
class Curve:
    """A named series of (x, y)."""

    name: str
    points: tuple[tuple[float, float], ...]

    @property
    def finite(self) -> tuple[tuple[float, float], ...]:
        """The points that can be drawn."""
        return tuple((x, y) for x, y in self.points if math.isfinite(x) and math.isfinite(y))


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


def text_plot(curves: Sequence[Curve], width: int = 72, height: int = 14) -> Iterator[str]:
    """Yield the lines of a plot that is at most `width` characters wide; a line that says so if nothing can be drawn."""
    scale = axes(curves)
    if scale is None:
        yield "no curve was recorded"
        return
    labels = [f"{scale.top:.4g}", f"{scale.bottom:.4g}"]
    margin = max(map(len, labels))
    columns = max(10, width - margin - 2)
    grid = [[" "] * columns for _ in range(height)]
    for number, curve in enumerate(curves):
        _draw(grid, curve, scale, MARKS[number % len(MARKS)] if len(curves) > 1 else "•")
    for number, row in enumerate(grid):
        label = labels[0] if number == 0 else labels[1] if number == height - 1 else ""
        yield f"{label.rjust(margin)} ┤{''.join(row)}".rstrip()
    left, right = f"{scale.left:,.0f}", f"{scale.right:,.0f}"
    yield f"{' ' * margin} └{'─' * columns}"
    yield f"{' ' * margin}  {left}{right.rjust(columns - len(left))}"
    if len(curves) > 1:
        yield from (f"{' ' * margin}  {MARKS[n % len(MARKS)]} {curve.name}" for n, curve in enumerate(curves))


def _draw(grid: list[list[str]], curve: Curve, scale: Axes, mark: str) -> None:
    height, columns = len(grid), len(grid[0])
    for x, y in curve.finite:
        across, up = scale.place(x, y)
        row, column = round((1 - up) * (height - 1)), round(across * (columns - 1))
        grid[row][column] = mark if grid[row][column] in (" ", mark) else "*"
