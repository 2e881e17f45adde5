"""Pages of the documentation lead where they say, and each of their examples is run or names what shows it."""

import re
from pathlib import Path

import pytest

from tests.support.doc_pages import RUN, broken_links, examples, headings, pages, script
from tests.support.paths import ROOT


def test_every_link_of_the_documentation_leads_to_a_file_and_a_heading() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    others = [ROOT / "CHANGELOG.md", ROOT / "tests" / "README.md"]
    assert [link for page in [*pages(), *decisions, *others] for link in broken_links(page)] == []


def test_every_example_that_is_not_run_names_why_and_an_existing_file_that_shows_it() -> None:
    skipped = [example for page in pages() for example in examples(page) if example.skipped]
    assert [
        example.place
        for example in skipped
        if example.language not in RUN
        or not all((ROOT / name).exists() for name in re.findall(r"(?:tests|images|docs)/[\w./-]+", example.skipped))
        or not re.search(r"; (?:tests|images|docs|Makefile|by hand)", example.skipped)
    ] == []


def test_every_page_is_linked_from_the_start_page() -> None:
    start = (ROOT / "docs" / "index.md").read_text()
    linked = {(ROOT / "docs" / target).resolve() for target in re.findall(r"\]\(([^)#]+)", start)}
    assert [page for page in pages() if page.parent != ROOT and page.name != "index.md" and page not in linked] == []


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(
        "# A `title` (of two)\n\n[a](#a-title-of-two) [b](#no) [c](gone.md) ![d](gone.svg)\n[e](https://x.invalid/)\n"
        "\n# A `title` (of two)\n\n```text\n[f](gone)\n```\n"
    )
    return path


def test_links_to_nothing_are_listed_with_their_line(page: Path) -> None:
    assert broken_links(page, page.parent) == ["page.md:3: #no", "page.md:3: gone.md", "page.md:3: gone.svg"]
    assert headings(page.read_text()) == {"a-title-of-two", "a-title-of-two-1"}


def test_the_examples_of_a_page_are_one_session(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\nmkdir lab && cd lab\n```\n\n<!-- file: a/b.yml -->\n```yaml\nx: 1\n```\n\n"
        "<!-- not run: it needs a host; by hand -->\n```sh\nfalse\n```\n\n  ```python\n  print('here')\n  ```\n"
    )
    blocks = tmp_path / "blocks"
    blocks.mkdir()
    assert script(page, blocks, tmp_path).splitlines() == [
        "set -euo pipefail",
        "echo '== page.md:1' >&2", "mkdir lab && cd lab", "",
        "echo '== page.md:6' >&2", f"mkdir -p $(dirname a/b.yml) && cp {blocks}/1 a/b.yml",
        "echo '== page.md:15' >&2", f"python {blocks}/3",
    ]  # fmt: skip
    assert (blocks / "1").read_text() == "x: 1\n"
    assert (blocks / "3").read_text() == "print('here')\n"
