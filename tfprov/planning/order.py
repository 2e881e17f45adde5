"""Orders actions, and determines which of them wait for others."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from tfprov.model.plan import Action, ActionKind
from tfprov.wiring import FEEDERS, READERS, WEB

_KIND_ORDER = tuple(ActionKind)
_START_ORDER = ("ps", "dispatcher", "data_worker", "chief", "worker", "evaluator", *WEB)
"""The order of starts in a plan: tasks before those that need them."""
_STOP_ORDER = ("chief", "evaluator", *WEB, "worker", "data_worker", "dispatcher", "ps")
"""The order of stops: the chief saves when it is stopped, and needs its ps for that."""
_REMOVE_ORDER = (*READERS, "chief", "worker", "data_worker", "dispatcher", "ps")
"""The order of removals: readers of the chief's files mount them, and they are removed with it."""


def order_actions(
    actions: Sequence[Action], endpoints: Mapping[str, str], servers: Collection[str] = ()
) -> tuple[Action, ...]:
    """Return the actions in an order in which they can be carried out, each with the ids it waits for.

    `endpoints` has, by action id, the `address:port` that a stop frees and a start takes. `servers` are the workers that
    only carry out what the chief asks of them.
    """
    in_order = sorted(actions, key=_rank)
    index = _Index(in_order, endpoints, servers)
    return tuple(Action(a.kind, a.host, a.subject, a.causes, _ids(index.needs(a))) for a in in_order)


def _rank(action: Action) -> tuple[int, int]:
    order = {ActionKind.STOP: _STOP_ORDER, ActionKind.REMOVE: _REMOVE_ORDER}.get(action.kind, _START_ORDER)
    job = _job(action)
    return _KIND_ORDER.index(action.kind), (*order, job).index(job)  # one of a later tfprov comes last


def _ids(actions: Iterator[Action]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(action.id for action in actions))


def _job(action: Action) -> str:
    return action.subject.partition("/")[0]


def _is_ps(action: Action) -> bool:
    return _job(action) == "ps"


def _feeds(action: Action) -> bool:
    return _job(action) in FEEDERS


def _trains(action: Action) -> bool:
    """Whether its task trains, and reads data from tf.data's service."""
    return _job(action) in ("chief", "worker")


class _Index:
    """Indexes of the actions: comparing each with each takes seconds for a thousand tasks."""

    def __init__(self, actions: Sequence[Action], endpoints: Mapping[str, str], servers: Collection[str]) -> None:
        self.endpoints, self.servers = endpoints, servers
        self.of_kind: dict[ActionKind, list[Action]] = defaultdict(list)
        self.of_subject: dict[tuple[ActionKind, str], list[Action]] = defaultdict(list)
        self.delivered_to: dict[str, list[Action]] = defaultdict(list)
        self.freeing: dict[str | None, list[Action]] = defaultdict(list)
        for action in actions:
            self.of_kind[action.kind].append(action)
            self.of_subject[action.kind, action.subject].append(action)
            if action.kind in (ActionKind.DELIVER, ActionKind.FETCH):
                self.delivered_to[action.host].append(action)
            if action.kind == ActionKind.STOP and action.id in endpoints:
                self.freeing[endpoints[action.id]].append(action)
        self.readers = [remove for remove in self.of_kind[ActionKind.REMOVE] if _job(remove) in READERS]
        self.ps_stops = [stop for stop in self.of_kind[ActionKind.STOP] if _is_ps(stop)]

    def needs(self, action: Action) -> Iterator[Action]:
        """Yield the actions that must be carried out before `action`."""
        match action.kind:
            case ActionKind.DELIVER:
                yield from self.of_subject[ActionKind.BUILD, action.subject]
            case ActionKind.FETCH:  # in a container of the image
                yield from (other for other in self.delivered_to[action.host] if other.kind == ActionKind.DELIVER)
            case ActionKind.STOP if _is_ps(action):  # a ps outlives all tasks that train with it
                yield from (stop for stop in self.of_kind[ActionKind.STOP] if not _is_ps(stop))
            case ActionKind.STOP if action.subject in self.servers:  # without them, the chief cannot save
                yield from (stop for stop in self.of_kind[ActionKind.STOP] if _job(stop) == "chief")
            case ActionKind.STOP if _feeds(action):  # so that no task waits for data
                yield from (stop for stop in self.of_kind[ActionKind.STOP] if _trains(stop))
            case ActionKind.REMOVE:
                yield from (
                    stop for stop in self.of_subject[ActionKind.STOP, action.subject] if stop.host == action.host
                )
                if _job(action) not in READERS:
                    yield from (reader for reader in self.readers if reader.host == action.host)
            case ActionKind.START:
                yield from self._before_start(action)

    def _before_start(self, action: Action) -> Iterator[Action]:
        yield from self.delivered_to[action.host]
        yield from self.of_subject[ActionKind.STOP, action.subject]  # a task never runs on two hosts
        yield from self.of_subject[ActionKind.REMOVE, action.subject]
        yield from self.freeing[self.endpoints.get(action.id)]
        # A ps that restarts is stopped before a new task connects to it. No start waits for its start: TensorFlow's
        # workers wait for their ps anyway, loading TensorFlow meanwhile, and a failed start is rolled back as a whole.
        yield from self.ps_stops
