"""Artifacts by themselves: what is made once, who fetches data, what is never code, and what must be there."""

import threading
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.inventories import roles
from tests.support.memory_cluster import make_context
from tests.support.reporters import RecordingReporter
from tfprov.engine.artifacts import (
    Fetched,
    Later,
    Once,
    Ready,
    all_problems,
    check_data,
    check_python,
    fetched,
    if_needed,
    never_code,
    pack_all,
)
from tfprov.engine.events import Note, Transferred
from tfprov.errors import InvalidInput, Position, Problem
from tfprov.hosts.data_download import FetchProgress
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.state import DataFile, DataSet, DockerOptions
from tfprov.vault.decrypt import Vault
from tfprov.vault.passwords import Passwords


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


def problems(caught: pytest.ExceptionInfo[InvalidInput]) -> list[str]:
    return [str(problem) for problem in caught.value.problems]


class Image:
    """An image that notes what is done with it."""

    def __init__(self, *, ready: bool) -> None:
        self.ready, self.calls, self.context = ready, list[str](), nullcontext()

    def build(self) -> None:
        self.calls.append("build")

    def deliver(self, host: str) -> None:
        self.calls.append(f"deliver {host}")

    def delivering(self, hosts: int) -> AbstractContextManager[None]:
        self.calls.append(f"delivering {hosts}")
        return self.context


def test_what_is_assembled_later_is_assembled_once_and_then_does_all() -> None:
    made: list[Image] = []

    def make() -> Image:
        made.append(Image(ready=True))
        return made[-1]

    later = Later(Once(make))
    assert made == []
    assert later.ready
    later.build()
    later.deliver("h1")
    context = later.delivering(3)
    (image,) = made
    assert (image.calls, context) == (["build", "deliver h1", "delivering 3"], image.context)
    image.ready = False
    assert not later.ready


def test_ready_are_the_names_of_artifacts_that_need_no_build() -> None:
    ready = Ready({"one": Image(ready=True), "two": Image(ready=False)})
    assert [name in ready for name in ("one", "two", "three", 1)] == [True, False, False, False]


DATA = """\
all: {vars: {tfprov: {cluster: lab, strategy: multi_worker_mirrored, command: [x], image: {name: 'x:1'}, env: {KEY: k}}}}
worker: {hosts: {h1: , h2: }}
"""
SET = DataSet((DataFile("a", "https://h/a", "a" * 64),))


class Fetching(MemoryRuntime):
    """A host that notes how it was asked to fetch, and cuts the fetch itself off while it runs."""

    def __init__(self) -> None:
        super().__init__("h1")
        self.asked: list[tuple[DataSet, Sequence[str], bool]] = []
        self.kept: list[Collection[str]] = []
        self.meanwhile: Any = lambda: None

    def fetch(self, data: DataSet, images: Sequence[str], progress: FetchProgress) -> None:
        progress.on_bytes(3, 9)
        progress.on_note("a retry")
        self.meanwhile()
        self.asked.append((data, images, progress.is_cancelled))

    def remove_unused_data(self, keep: Collection[str]) -> int:
        self.kept.append(keep)
        return 0


def test_data_is_fetched_with_the_images_and_the_variables_of_the_tasks_that_read_it() -> None:
    made = make_context(DATA).wanted
    wanted = [
        replace(made[0], data="set", docker=DockerOptions("tfprov/lab:1")),
        replace(made[0], data="set", docker=DockerOptions("tfprov/lab:2")),
        replace(made[1], data="set", docker=None),
        replace(made[1], data=None, docker=DockerOptions("tfprov/lab:3")),
    ]
    host, report = Fetching(), RecordingReporter()
    sets = fetched({"set": SET, "unread": SET}, iter(wanted), {"h1": host})
    assert {name: dict(one.images) for name, one in sets.items()} == {
        "set": {"h1": ["tfprov/lab:1", "tfprov/lab:2"]}, "unread": {},
    }  # fmt: skip
    assert (sets["set"].data.env["KEY"], dict(sets["unread"].data.env)) == ("k", {})
    one = sets["set"]
    one.fetch("h1", report)
    assert (host.asked, host.kept) == ([(SET, ["tfprov/lab:1", "tfprov/lab:2"], False)], [{"set", "unread"}])
    assert report.events == [Transferred("h1", 3, 9), Note("a retry")]
    host.meanwhile = one.cut
    one.fetch("h1", report)
    assert (host.asked[-1][2], one.under_way) == (True, set())
    host.meanwhile = lambda: None
    one.fetch("h1", report)
    assert host.asked[-1][2], "a fetch that begins after the cut is cut, too"
    Fetched(SET, {}, {"h1": host}, ()).fetch("h1", report)
    assert host.asked[-1] == (SET, (), False)


def test_what_is_never_code_is_gathered_or_inventory_or_secret() -> None:
    for name in ("out", "out/lab.1", "out/lab.x", "out/other.2", "i"):
        Path(name).mkdir()
    settings = "cluster: lab, command: [x], checkpoints: {to: ./out}, env_file: ./a.env"
    Path("a.env").write_text("A=b\n")
    read = roles(f"all: {{vars: {{tfprov: {{{settings}}}}}}}\nworker: {{hosts: {{localhost: }}}}\n")
    Path("i/i.yml").write_text("")
    vault = Vault(Passwords(files=["pw.txt"], prompt=True))
    never = never_code(["i/i.yml", "h1,h2"], read, vault, ["@more.yml", "a=b"])
    here = Path.cwd()
    expected = {
        "i/i.yml", "i/group_vars", "i/host_vars", "more.yml", "pw.txt", "out", "out/lab", "out/.lab.part", "out/lab.1",
        "a.env", "XDG_STATE_HOME/tfprov", "XDG_CACHE_HOME/tfprov",
    }  # fmt: skip
    assert {str((here / path).relative_to(here)) for path in never} == expected
    assert never_code(Path("i/i.yml"), read) >= {Path("i/i.yml")}


CODE = """\
all: {{vars: {{tfprov: {{cluster: lab, command: [x], {}}}}}}}
ps: {{hosts: {{localhost: }}}}
worker: {{hosts: {{localhost: }}}}
"""


def test_code_is_packed_once_for_all_its_tasks_and_has_nothing_in_the_place_of_a_link() -> None:
    Path("src/logs").mkdir(parents=True)
    Path("src/x.py").write_text("")
    packed = pack_all(roles(CODE.format("code: ./src")))
    assert sorted(packed) == [("ps", "localhost"), ("worker", "localhost")]
    assert packed["ps", "localhost"] is packed["worker", "localhost"]
    assert packed["ps", "localhost"].names() == ["x.py"]
    assert pack_all(roles(CODE.format("code: ./src")), [Path("src/x.py").resolve()])["ps", "localhost"].names() == []
    assert pack_all(roles(CODE.format("port: 1"))) == {}
    for link, conflict in (("x.py", "x.py"), ("./x.py/logs", "x.py"), ("logs", ""), ("x", "")):
        read = roles(CODE.format(f"code: ./src, checkpoints: {{link: {link}}}"))
        if not conflict:
            pack_all(read)
            continue
        with pytest.raises(InvalidInput) as caught:
            pack_all(read)
        what = f"`checkpoints.link`: the code has {conflict} in the place of the link"
        assert problems(caught) == [f"i.yml:1:78: error: {what}; name it in .dockerignore, or choose another name"]
    Path("src/logs/a").write_text("")
    with pytest.raises(InvalidInput, match="the code has logs/a in the place"):
        pack_all(roles(CODE.format("code: ./src, checkpoints: {link: logs}")))
    with pytest.raises(InvalidInput) as caught:
        pack_all(roles(CODE.format("code: ./gone")))
    gone = "`code`: gone does not exist; give the directory that holds the training program"
    assert problems(caught) == [f"i.yml:1:51: error: {gone}"]


def test_local_data_and_the_python_of_local_tasks_must_be_there() -> None:
    text = CODE.replace("{}", "data: {{path: {}}}, python: {}")
    Path("data").mkdir()
    Path("python").touch(mode=0o755)
    Path("plain").touch(mode=0o644)
    good = roles(text.format("./data", "./python"))
    check_data(good)
    check_python(good)
    check_python(roles(CODE.format("port: 1")))
    with pytest.raises(InvalidInput) as caught:
        check_data(roles(text.format("./gone", "./python")))
    what = "`data.path`: gone is not a directory on this machine"
    assert problems(caught) == [f"i.yml:1:58: error: {what}; correct the path"], "once for all roles"
    for name, reason in (
        ("gone", "does not exist on this machine"),
        ("plain", "is not a program"),
        ("data", "is not a program"),
    ):
        with pytest.raises(InvalidInput) as caught:
            check_python(roles(text.format("./data", f"./{name}")))
        what = f"the Python for tasks, {Path.cwd()}/{name}, {reason}"
        assert problems(caught) == [f"i.yml:1:73: error: {what}; correct the path in `python`"]
    remote = (
        text.format("/gone", "/gone").replace("localhost: ", "h1: ").replace("python: /gone", "image: {name: 'x:1'}")
    )
    check_data(roles(remote))
    only_ps = "all: {vars: {tfprov: {cluster: lab, command: [x]}}}\nworker: {hosts: {localhost: }}\n"
    check_data(roles(f"{only_ps}ps: {{hosts: {{localhost: }}, vars: {{tfprov: {{data: {{path: ./gone}}}}}}}}\n"))


def test_problems_are_collected_and_files_that_are_not_needed_may_lack() -> None:
    def fails(*whats: str) -> Any:
        raise InvalidInput([Problem(Position("i.yml"), what, "") for what in whats])

    assert all_problems(lambda: 1, lambda: "a") == [1, "a"]
    with pytest.raises(InvalidInput) as caught:
        all_problems(lambda: 1, lambda: fails("one", "two"), lambda: fails("three"))
    assert [problem.what for problem in caught.value.problems] == ["one", "three", "two"]
    assert if_needed(lambda: 1, 2, needed=False) == 1
    assert if_needed(lambda: fails("one"), 2, needed=False) == 2
    assert if_needed(lambda: fails("one"), needed=False) is None
    with pytest.raises(InvalidInput):
        if_needed(lambda: fails("one"), 2, needed=True)


def test_a_value_is_made_once_for_all_threads() -> None:
    began, go, made = threading.Event(), threading.Event(), list[int]()

    def make() -> int:
        began.set()
        go.wait(60)
        made.append(1)
        return len(made)

    once, values = Once(make), list[int]()
    threads = [threading.Thread(target=lambda: values.append(once.get())) for _ in range(3)]
    start(threads)
    assert began.wait(60)
    go.set()
    for thread in threads:
        thread.join()
    assert values == [1, 1, 1]


def start(threads: Iterable[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
