"""Files of the repository generated from the code; `python -m tests.support.generated_files` rewrites them."""

import json
from collections.abc import Iterator
from pathlib import Path

from tests.support.man_page import man_page
from tests.support.paths import ROOT
from tfprov.settings.schema.inventory_schema import inventory_schema, playbook_schema, variables_schema
from tfprov.settings.schema.reference_page import reference_page

PAGE = ROOT / "docs" / "inventory.md"
MARK = "<!-- Below this line, `make schemas` writes; above it, people do. -->\n"


def generated_files() -> Iterator[tuple[Path, str]]:
    """Yield each generated file and its text."""
    schemas = {"inventory": inventory_schema, "playbook": playbook_schema, "vars": variables_schema}
    for name, schema in schemas.items():
        yield ROOT / "schemas" / f"{name}.schema.json", json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
    yield ROOT / "man" / "tfprov.1", man_page()
    head, mark, _ = PAGE.read_text().partition(MARK)
    yield PAGE, f"{head}{mark or MARK}\n{reference_page()}"


if __name__ == "__main__":
    for path, text in generated_files():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
