"""Details of host patterns: implicit groups, subscripts and pattern files."""

from pathlib import Path

import pytest

from tests.support.inventories import inventory
from tfprov.errors import Usage
from tfprov.inventory.host_patterns import match_hosts

INVENTORY = inventory("all: {hosts: {h1: , h2: }}\nworker: {hosts: {h2: , h3: , h4: }}\nspare: {}\n")
CHOSEN = [
    ("ungrouped", ["h1"]), ("all:!ungrouped", ["h2", "h3", "h4"]), ("worker[0]", ["h2"]), ("worker[-1]", ["h4"]),
    ("worker[1:]", ["h3", "h4"]), ("worker[0:1]", ["h2", "h3"]), ("worker[2:0]", ["h4"]), ("h1,h3", ["h1", "h3"]),
    ("~[[]|h1", ["h1"]),
    ("w*", ["h2", "h3", "h4"]), ("h*,s*", ["h1", "h2", "h3", "h4"]),
    ("worker:!spare*", ["h2", "h3", "h4"]), ("spare[0]", []), ("spare*", []), ("worker:!spare[0]", ["h2", "h3", "h4"]),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "hosts"), CHOSEN)
def test_a_pattern_selects_hosts(pattern: str, hosts: list[str]) -> None:
    assert list(match_hosts(INVENTORY, pattern)) == hosts


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("worker[3]", "`worker[3]` names no host; they go from `[0]` to `[2]`"),
        ("worker[-4]", "`worker[-4]` names no host; they go from `[0]` to `[2]`"),
        (
            "~worker(?:x)",
            (
                "`~worker(?` is not a regular expression: unexpected end of pattern at position 8; "
                "put a `,` behind it: elsewhere, a `:` begins another pattern"
            ),
        ),
        (
            "~wor(",
            (
                "`~wor(` is not a regular expression: missing ), unterminated subpattern at position 3; "
                "correct it, or leave out the `~`"
            ),
        ),
        ("wroker", "no host or group matches `wroker`; did you mean `worker`?"),
    ],
)
def test_a_pattern_that_selects_no_host_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(Usage) as raised:
        match_hosts(INVENTORY, pattern)
    assert str(raised.value) == message


def test_a_pattern_file_is_text_of_limited_size(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("h3\n\nh1\n")
    assert sorted(match_hosts(INVENTORY, f"@{file}")) == ["h1", "h3"]
    file.write_text("h1" + " " * 999_998)
    assert match_hosts(INVENTORY, f"@{file}") == ("h1",)
    for content, message in (
        (b"\xff", "not UTF-8 text"),
        (b"h1" + b" " * 999_999, "is larger than 1,000,000 bytes"),
        (None, "no such file or directory"),
    ):
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
        with pytest.raises(Usage) as raised:
            match_hosts(INVENTORY, f"@{file}")
        whole = f"`@{file}` {message}" if message.startswith("is") else f"`@{file}`: {message}"
        assert str(raised.value) == f"{whole}; name a file with one pattern a line"


def test_a_word_with_wildcards_selects_groups_and_hosts(tmp_path: Path) -> None:
    both = inventory("worker: {hosts: {h1: }}\nps: {hosts: {w9: , wx: }}\n")
    for pattern, hosts in (
        ("w*", ["h1", "w9", "wx"]),
        ("~w", ["h1", "w9", "wx"]),
        ("w?", ["w9", "wx"]),
        ("w[a-z0-9]*", ["h1", "w9", "wx"]),
    ):
        assert list(match_hosts(both, pattern)) == hosts
    (tmp_path / "a:b").write_text("w9\n")
    assert match_hosts(both, f"@{tmp_path}/a:b") == ("w9",)
