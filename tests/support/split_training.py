"""A training in memory with chief and ps on separate hosts, with the files of TensorFlow's default saver."""

from dataclasses import replace
from pathlib import Path

from tests.support.memory_cluster import Runtimes, make_context
from tests.support.reporters import RecordingReporter
from tfprov.engine.checkpoints.gather import gather
from tfprov.model.state import Observed, State

INVENTORY = """
all: {vars: {tfprov: {cluster: split, command: [python, textbook.py]}}}
ps: {hosts: {p0: , p1: }}
worker: {hosts: {w0: , w1: }}
"""


class SplitTraining:
    """Two ps, p0 and p1, and two workers, w0 and w1; gathered into `target`."""

    def __init__(self, directory: Path, inventory: str = INVENTORY, hosts: Runtimes | None = None) -> None:
        self.hosts: Runtimes = {} if hosts is None else hosts
        self.report = RecordingReporter()
        self.target = directory / "split"
        self.context = replace(make_context(inventory, (), self.hosts), target=self.target, report=self.report)

    def runs(self, run: str = "run-1", state: State = State.RUNNING) -> "SplitTraining":
        """Add every task, started in `run`."""
        for container in self.context.wanted:
            seen = Observed(container.task.name, container.task.host, state, container.spec, run=run, started_at=0.0)
            if state is not State.RUNNING:
                seen = replace(seen, exit_code=1, finished_at=1.0)
            self.hosts[container.task.host].puts(seen)
        return self

    def saves(self, step: int, ps: str = "p0", shards: int = 1, content: bytes = b"weights") -> None:
        """Save as the default saver does: the variables with a ps, and only their names with the chief."""
        prefix = f"model.ckpt-{step}"
        names = [f"{prefix}.data-{shard:05d}-of-{shards:05d}" for shard in range(shards)]
        for name in [*names, f"{prefix}.index"]:
            self.hosts[ps].saves(f"ps/{ps[1:]}", name, content + name.encode())
        self.names(step)

    def names(self, step: int) -> None:
        """Have the chief say that its newest checkpoint is the one of `step`."""
        prefix = f"model.ckpt-{step}"
        self.hosts["w0"].saves("worker/0", f"{prefix}.meta", b"graph")
        self.hosts["w0"].saves("worker/0", "checkpoint", f'model_checkpoint_path: "{prefix}"\n'.encode())

    def saves_whole(self, step: int, content: bytes = b"weights") -> None:
        """Save as `tfprov.runtime` does: everything with the chief."""
        prefix = f"model.ckpt-{step}"
        self.hosts["w0"].saves("worker/0", f"{prefix}.data-00000-of-00001", content)
        self.hosts["w0"].saves("worker/0", f"{prefix}.index", b"index")
        self.names(step)

    def leaves_unmerged(self, step: int = 0) -> None:
        """Leave what the default saver leaves when its ps have directories of their own."""
        for shard in range(2):
            for end in ("index", "data-00000-of-00001"):
                name = f"model.ckpt-{step}_temp/part-{shard:05d}-of-00002.{end}"
                self.hosts[f"p{shard}"].saves(f"ps/{shard}", name, b"part")

    def gather(self) -> list[str]:
        """Gather, and return the new checkpoints."""
        return [saved.prefix for saved in gather(self.context, lambda _: {}).new]

    def gathered(self) -> set[str]:
        """Return the names of the files that were gathered."""
        names = {path.relative_to(self.target).as_posix() for path in self.target.rglob("*") if path.is_file()}
        return names - {"manifest.json", "checkpoint"}
