"""Charts of the dashboard: what is drawn, and what a screen reader gets."""

import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfprov.history.drawing.curves import Curve, log_ticks, ticks
from tfprov.history.drawing.line_chart import line_chart, shown

ANY = st.floats(allow_nan=True, allow_infinity=True)


def points(chart: str) -> list[list[tuple[float, float]]]:
    """Return the points of each curve, in the chart's own units."""
    return [
        [tuple(map(float, point.split(","))) for point in path.split()]  # type: ignore[misc]
        for path in re.findall(r'points="([^"]*)"', chart)
    ]


def test_a_falling_curve_falls_and_is_described() -> None:
    chart = line_chart(
        "Loss",
        "step",
        [
            Curve(
                "a",
                (
                    (0, 4.0),
                    (50, 1.0),
                    (100, 0.5),
                ),
            )
        ],
    )
    [curve] = points(chart)
    assert [left for left, _ in curve] == sorted(left for left, _ in curve)
    assert [top for _, top in curve] == sorted(top for _, top in curve)  # the origin of SVG is at the top
    assert 'aria-label="Loss: a from 4 to 0.5 at step 100"' in chart


def test_two_curves_share_their_axes_and_have_a_legend() -> None:
    chart = line_chart(
        "Loss",
        "step",
        [
            Curve(
                "a",
                (
                    (0, 1),
                    (10, 1),
                ),
            ),
            Curve(
                "b",
                (
                    (0, 3),
                    (10, 2),
                ),
            ),
        ],
    )
    first, second = points(chart)
    assert first[0][1] > second[0][1] > 0
    assert '<li class="curve1">b</li>' in chart


@pytest.mark.parametrize("values", [[], [(1.0, math.nan)], [(math.inf, 1.0)]])
def test_without_finite_points_there_is_a_line_of_text(values: list[tuple[float, float]]) -> None:
    assert line_chart("Loss", "step", [Curve("a", tuple(values))]) == '<p class="empty">Loss: nothing yet</p>'


def test_a_long_curve_is_drawn_with_few_points_and_its_end() -> None:
    [curve] = points(line_chart("Loss", "step", [Curve("a", tuple((step, step) for step in range(100_001)))]))
    assert 200 < len(curve) < 310
    assert curve[-1][0] == pytest.approx(708)


@given(st.lists(st.tuples(ANY, ANY), max_size=30), st.text())
def test_any_points_and_names_give_well_formed_markup(values: list[tuple[float, float]], name: str) -> None:
    plain = "".join(c for c in name if c.isprintable())
    chart = line_chart(plain, plain, [Curve(plain, tuple(values)), Curve("<script>", tuple(values))])
    markup = ET.fromstring(f"<div>{chart}</div>")
    assert markup.find(".//script") is None


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_a_few_values_in_the_range(low: float, width: float) -> None:
    values = ticks(low, low + width)
    assert len(values) <= 7
    assert all(low - 1e-6 * width <= value <= low + width * (1 + 1e-6) for value in values)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (2000, "2,000"), (0.0123474, "0.01235"), (1e-7, "1e-07"), (3.2e9, "3.2e+09"), (-0.5, "-0.5")],
)
def test_numbers_are_shown_with_four_digits(value: float, text: str) -> None:
    assert shown(value) == text


@given(st.floats(1e-9, 1e6), st.floats(101, 1e12))
def test_logarithmic_ticks_are_powers_of_ten_in_the_range(low: float, ratio: float) -> None:
    values = log_ticks(low, low * ratio)
    assert 1 <= len(values) <= 5
    assert all(low * 0.999 <= value <= low * ratio * 1.001 for value in values)


def test_a_loss_that_falls_over_many_powers_of_ten_is_drawn_by_its_logarithm() -> None:
    [curve] = points(line_chart("Loss", "step", [Curve("a", ((0, 100), (1, 1), (2, 0.01)))]))
    tops = [top for _, top in curve]
    assert tops[1] == pytest.approx((tops[0] + tops[2]) / 2, abs=0.2)
