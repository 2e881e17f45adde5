"""Statistics of the columns of record files, batch by batch."""

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class Statistics:
    """Counts records, missing values, and the least and greatest number of each column."""

    def __init__(self) -> None:
        self.records = 0
        self._columns: dict[str, dict[str, Any]] = {}

    def add(self, batch: "pa.RecordBatch") -> None:
        """Add the records of a batch."""
        self.records += batch.num_rows
        for field, array in zip(batch.schema, batch.columns, strict=True):
            new = {"type": str(field.type), "missing": 0, "min": None, "max": None}
            column = self._columns.setdefault(field.name, new)
            column["missing"] += array.null_count
            values = array
            while pa.types.is_nested(values.type):
                values = values.flatten()
            if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
                least, greatest = pc.min_max(values).as_py().values()
                column["min"] = _extreme(min, column["min"], least)
                column["max"] = _extreme(max, column["max"], greatest)

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON has them; a number that JSON does not have is text."""
        columns = {
            name: {
                key: str(each) if isinstance(each, float) and not math.isfinite(each) else each
                for key, each in column.items()
            }
            for name, column in self._columns.items()
        }
        return {"records": self.records, "columns": columns}


def _extreme(choose: Any, known: Any, new: Any) -> Any:
    return choose(each for each in (known, new) if each is not None) if known is not None or new is not None else None
