"""Names for DNS and Kubernetes: their syntax, and problems of names that are invalid or too long."""

import re
from collections.abc import Iterable, Iterator
from typing import Protocol

from tfprov.errors import Problem, printable
from tfprov.settings.role_settings import RoleSettings

LONGEST = 63
"""Maximum characters of a DNS label, and of a Service's name."""

_DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def is_dns_1123(name: str) -> bool:
    """Whether `name` is valid as a label of a host name: at most 63 lower-case letters, digits and inner `-`."""
    return len(name) <= LONGEST and _DNS_1123.fullmatch(name) is not None


def dns_1123(value: str) -> str:
    """Return a valid DNS label; ValueError describes a valid one."""
    if not is_dns_1123(value):
        raise ValueError(f"lower-case letters, digits and `-`, at most {LONGEST}")
    return value


def subdomain(value: str) -> str:
    """Return the valid name of a Kubernetes object, DNS labels joined by dots; ValueError describes a valid one."""
    if len(value) > 253 or not all(map(_DNS_1123.fullmatch, value.split("."))):
        raise ValueError("a name of lower-case letters, digits, `-` and `.`")
    return value


class JobMember(Protocol):
    """A numbered member of a job: a task, or a rendered one."""

    @property
    def job(self) -> str:
        """The job, such as `ps`."""

    @property
    def index(self) -> int:
        """The number within the job."""


def dashed(job: str) -> str:
    """Return a job in the form for names: `data-worker`."""
    return job.replace("_", "-")


def short_name(task: JobMember) -> str:
    """Return the name of a task within its cluster: `ps-0`."""
    return f"{dashed(task.job)}-{task.index}"


def long_name(cluster: str, task: JobMember) -> str:
    """Return the name of a task with its cluster's: `linear-ps-0`."""
    return f"{cluster}-{short_name(task)}"


def name_problems(roles: RoleSettings, names: Iterable[str], *, longest: int) -> Iterator[Problem]:
    """Yield a problem, at the line of the cluster's name, if it makes one of `names` too long or invalid for a Service."""
    cluster = roles.values.cluster
    if not cluster[0].isalpha():
        what = (
            f"the cluster's name `{printable(cluster)}` begins with a digit, and names of Services begin with a letter"
        )
        yield Problem(roles.at("cluster"), what, "begin it with a letter")
        return
    name = max(names, key=len)
    if len(name) > longest:
        what = f"`{name}` has {len(name)} characters, and at most {longest} are allowed"
        fix = f"shorten the cluster's name by {len(name) - longest}"
        yield Problem(roles.at("cluster"), what, fix)
