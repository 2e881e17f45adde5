"""The examples of docs/spark.md run as they are, one after the other."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tfprov.spark
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_examples_of_the_page_about_spark_run(spark: "SparkSession", tmp_path: Path) -> None:
    """Their relative paths lie in the directory of the test."""
    tfprov.spark.register(spark)
    tfprov.spark.write(spark.range(4), str(tmp_path / "incoming"))
    days = "select id, concat('name ', id) as name, date'2026-01-01' + int(id % 2) as day from range(10)"
    names: dict[str, Any] = {"spark": spark, "df": spark.sql(days)}
    page = (ROOT / "docs" / "spark.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for example in examples:
        exec(re.sub(r'"(train|incoming|checkpoint|collected|words)"', rf'"{tmp_path}/\1"', example), names)
    assert len(examples) == 4
    assert sorted(bytes(word) for word in names["words"].collect()) == [b"one", b"two"]
    assert names["read"].count() == 10
    assert spark.read.format("tfrecord").load(f"{tmp_path}/collected").count() == 4
    assert len(names["values"].collect()[0].value) > 20
