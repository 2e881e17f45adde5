"""What will be done: one action is one change to one host, with its cause."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

KINDS = ("build", "deliver", "fetch", "stop", "remove", "start")
"""In the order in which a plan lists them."""

CONTROLLER = "(controller)"
"""The host of an action that changes nothing but the controller's own cache."""


@dataclass(frozen=True)
class Action:
    """One change. `subject` is a task's name or an artifact; `needs` are the ids of the actions that come first."""

    kind: str
    host: str
    subject: str
    causes: tuple[str, ...]
    needs: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Unique within a plan."""
        return f"{self.kind} {self.subject} on {self.host}"


@dataclass(frozen=True)
class Plan:
    """All actions, in an order in which they can be done one after the other."""

    cluster: str
    actions: tuple[Action, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.actions)

    def only(self, keep: Callable[[Action], bool]) -> "Plan":
        """Return the plan with the actions for which `keep` is true; needs on others are dropped."""
        kept = [action for action in self.actions if keep(action)]
        ids = {action.id for action in kept}
        return Plan(
            self.cluster,
            tuple(
                Action(a.kind, a.host, a.subject, a.causes, tuple(need for need in a.needs if need in ids))
                for a in kept
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for `plan --json`."""
        actions = [
            {"action": a.kind, "host": a.host, "subject": a.subject, "causes": list(a.causes), "needs": list(a.needs)}
            for a in self.actions
        ]
        return {"cluster": self.cluster, "actions": actions}
