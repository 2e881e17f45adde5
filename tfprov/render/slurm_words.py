"""Command lines whose addresses are known only once Slurm has given the job its nodes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tfprov.model.cluster import Cluster, Task
from tfprov.render.naming import short_name
from tfprov.render.target import Member

DOMAIN = "slurm.invalid"
"""Under this domain, which can never exist, tasks have names until they have nodes."""

_ADDRESS = re.compile(rf"([a-z-]+-[0-9]+)\.{re.escape(DOMAIN)}(?::[0-9]+)?")


@dataclass(frozen=True)
class Part:
    """A piece of a word: the `text` itself, or what the shell knows by then.

    `known` is "endpoint" or "host" of the task with the number `rank`, "port", the task's own, or one of "ps_hosts" and
    "worker_hosts".
    """

    text: str = ""
    known: str = ""
    rank: int = 0


Word = tuple[Part, ...]


def address(task: Task) -> str:
    """Return what stands for the address of a task."""
    return f"{short_name(task)}.{DOMAIN}"


class Words:
    """Makes words of texts in which tasks have the addresses that stand for theirs."""

    def __init__(self, cluster: Cluster) -> None:
        self._ranks = {address(task).removesuffix(f".{DOMAIN}"): rank for rank, task in enumerate(cluster.tasks)}
        lists = {job: ",".join(cluster.spec.get(job, ())) for job in ("ps", "worker")}
        self._lists = {text: f"{job}_hosts" for job, text in lists.items() if text}

    def command(self, member: Member, *, own: bool) -> list[Word]:
        """Return the command line of `member`; `own` says that its program is one that tfprov brings."""
        port = f"--port={member.port}"
        chosen = (Part("--port="), Part(known="port"))
        words = [chosen if own and text == port else self.word(text) for text in member.program]
        for text in member.wiring_flags:
            name, _, value = text.partition("=")
            known = self._lists.get(value)
            words.append((Part(f"{name}="), Part(known=known)) if known else (Part(text),))
        return [*words, *map(self.word, member.flags)]

    def environment(self, member: Member) -> Mapping[str, Word]:
        """Return the variables of `member`, but for TF_CONFIG, which its script makes."""
        return {name: self.word(value) for name, value in sorted(member.env.items()) if name != "TF_CONFIG"}

    def word(self, text: str) -> Word:
        """Return one text with what it says of addresses taken out."""
        parts, end = [], 0
        for found in _ADDRESS.finditer(text):
            if found[1] in self._ranks:
                parts.append(Part(text[end : found.start()]))
                known = "endpoint" if ":" in found[0] else "host"
                parts.append(Part(known=known, rank=self._ranks[found[1]]))
                end = found.end()
        parts.append(Part(text[end:]))
        return tuple(part for part in parts if part.known or part.text) or (Part(),)
