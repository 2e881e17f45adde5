"""Names that DNS and Kubernetes take: what they may look like, and a complaint at the line of one that does not."""

import re
from collections.abc import Iterable, Iterator
from typing import Protocol

from tfprov.errors import Problem, printable
from tfprov.settings.role_settings import RoleSettings

LONGEST = 63
"""Marks of a DNS label, and of a Service's name."""

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def is_dns_1035(name: str) -> bool:
    """Whether `name` can be a Service: letters, digits and `-`, beginning with a letter, at most 63."""
    return len(name) <= LONGEST and _DNS_1035.fullmatch(name) is not None


def is_dns_1123(name: str) -> bool:
    """Whether `name` can be a label of a host name: as DNS-1035, and it may begin with a digit."""
    return len(name) <= LONGEST and _DNS_1123.fullmatch(name) is not None


def dns_1123(value: str) -> str:
    """Read a DNS label; ValueError with what it must be."""
    if not is_dns_1123(value):
        raise ValueError(f"lower-case letters, digits and `-`, at most {LONGEST}")
    return value


def subdomain(value: str) -> str:
    """Read the name of a Kubernetes object: DNS labels with dots between them; ValueError with what it must be."""
    if len(value) > 253 or not all(map(_DNS_1123.fullmatch, value.split("."))):
        raise ValueError("a name of lower-case letters, digits, `-` and `.`")
    return value


class Numbered(Protocol):
    """One of a job: a task, or what is made of one."""

    @property
    def job(self) -> str:
        """Its job: `ps`."""

    @property
    def index(self) -> int:
        """Its place among those of its job."""


def dashed(job: str) -> str:
    """Return a job as a part of a name: `data-worker`."""
    return job.replace("_", "-")


def short_name(task: Numbered) -> str:
    """Return what a task is called where its cluster goes without saying: `ps-0`."""
    return f"{dashed(task.job)}-{task.index}"


def long_name(cluster: str, task: Numbered) -> str:
    """Return what a task is called among those of other clusters: `linear-ps-0`."""
    return f"{cluster}-{short_name(task)}"


def too_long(roles: RoleSettings, names: Iterable[str], *, longest: int = LONGEST) -> Iterator[Problem]:
    """Yield one problem, at the line of the cluster's name, if it makes a name that is too long: the worst of `names`."""
    worst = max(names, key=len)
    if len(worst) > longest:
        what = f"`{worst}` has {len(worst)} characters, and a name there has at most {longest}"
        fix = f"shorten the cluster's name by {len(worst) - longest}"
        yield Problem(roles.at("cluster"), what, fix)


def wrong_names(roles: RoleSettings, names: Iterable[str], *, longest: int = LONGEST) -> Iterator[Problem]:
    """Yield one problem, at the line of the cluster's name, if it makes a name that no service can have."""
    cluster = roles.values.cluster
    if not cluster[0].isalpha():
        what = (
            f"the cluster's name `{printable(cluster)}` begins with a digit, and names of services begin with a letter"
        )
        yield Problem(roles.at("cluster"), what, "begin it with a letter")
        return
    yield from too_long(roles, names, longest=longest)
