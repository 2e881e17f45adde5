"""Ansible's answers are kept while nothing that they depend on changes."""

from pathlib import Path

from tests.support.ansible_oracle import AnswerCache


def test_an_answer_is_asked_for_once_and_again_when_an_input_changes(tmp_path: Path) -> None:
    inputs, ours = tmp_path / "inputs", tmp_path / "ours"
    inputs.mkdir()
    (inputs / "a.yml").write_text("a")
    asked: list[str] = []

    def answer(question: str) -> str:
        def ask() -> str:
            asked.append(question)
            return question.upper()

        return str(AnswerCache(ours, inputs).get([question], ask))

    assert [answer("x"), answer("x"), answer("y")] == ["X", "X", "Y"]
    (inputs / "a.yml").write_text("b")
    assert answer("x") == "X"
    (inputs / "a.yml").chmod(0o755)
    assert answer("x") == "X"
    (inputs / "b.yml").touch()
    assert answer("x") == "X"
    assert asked == ["x", "y", "x", "x", "x"]
