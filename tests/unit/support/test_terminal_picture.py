"""The picture of a terminal shows what was on it, in its colours, and fetches nothing."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from tests.support.terminal import terminal
from tests.support.terminal_picture import picture, run_in, styled


def test_a_picture_has_the_prompts_the_output_and_its_colours(tmp_path: Path) -> None:
    commands = ["cd /", "echo \"it's $(printf '\\033[32mgreen\\033[0m')\"; pwd"]
    with terminal(100) as screen:
        run_in(screen, commands, tmp_path)
    lines = styled(screen)
    assert [line.plain for line in lines] == ["$ cd /", f"$ {commands[1]}", "it's green", "/"]
    assert any(span.style.color is not None and span.style.color.name == "green" for span in lines[2].spans)  # type: ignore[union-attr]
    svg = picture(lines, "a <title>")
    text = re.sub(r"\s+", " ", " ".join(ET.fromstring(svg).itertext()))
    assert "a <title>" in text
    assert "green" in text
    assert "url(h" not in svg
    assert "font-face" not in svg
