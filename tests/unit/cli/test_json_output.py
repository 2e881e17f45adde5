"""JSON as the standard library writes it, only faster."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tfprov.cli.printing.json_text import dumps

_SINGLE = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
_ANY = st.recursive(_SINGLE, lambda below: st.lists(below) | st.dictionaries(st.text(), below), max_leaves=30)


@given(_ANY, st.booleans())
@example({"é\n": [[], {}, {"b": 1, "a": [1e300, -0.0, "\x00\ud800"]}]}, True)
def test_the_json_equals_that_of_the_standard_library(data: Any, twice: bool) -> None:
    whole = [data, {"again": data}] if twice else data
    assert dumps(whole) == json.dumps(whole, sort_keys=True, indent=4, ensure_ascii=False)
