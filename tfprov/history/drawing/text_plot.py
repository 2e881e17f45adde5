"""Curves as text, for a terminal. Pure."""

from collections.abc import Iterator, Sequence

from tfprov.history.drawing.curves import Axes, Curve, axes

MARKS = "abcdefghijklmnopqrstuvwxyz"
"""The marks of curves, in turn; `*` is where several meet."""


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
