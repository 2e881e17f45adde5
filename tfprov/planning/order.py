"""Which action waits for which: the difference between a list of changes and a plan."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tfprov.model.plan import Action, ActionKind
from tfprov.wiring import FEEDERS, READERS

_LISTED = tuple(ActionKind)
_START_ORDER = ("ps", "dispatcher", "data_worker", "chief", "worker", "evaluator", "tensorboard")
"""In which a plan lists starts: what others need comes before them."""
_STOP_ORDER = ("chief", "evaluator", "tensorboard", "worker", "data_worker", "dispatcher", "ps")
"""The chief saves when it is stopped, and needs its ps for that."""
_REMOVE_ORDER = ("evaluator", "tensorboard", "chief", "worker", "data_worker", "dispatcher", "ps")
"""An evaluator and a tensorboard have the chief's files open, which go with the chief."""


def order_actions(actions: Sequence[Action], endpoints: Mapping[str, str]) -> tuple[Action, ...]:
    """Sort the actions so that they can be done in turn, and say which of them each one waits for.

    `endpoints` says, by action id, which `address:port` a stop frees and a start takes.
    """
    in_turn = sorted(actions, key=_rank)
    index = _Index(in_turn, endpoints)
    return tuple(Action(a.kind, a.host, a.subject, a.causes, _ids(index.needs(a))) for a in in_turn)


def _rank(action: Action) -> tuple[int, int]:
    order = {ActionKind.STOP: _STOP_ORDER, ActionKind.REMOVE: _REMOVE_ORDER}.get(action.kind, _START_ORDER)
    job = _job(action)
    return _LISTED.index(action.kind), order.index(job) if job in order else 0


def _ids(actions: Iterator[Action]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(action.id for action in actions))


def _job(action: Action) -> str:
    return action.subject.partition("/")[0]


def _is_ps(action: Action) -> bool:
    return _job(action) == "ps"


def _feeds(action: Action) -> bool:
    return _job(action) in FEEDERS


def _eats(action: Action) -> bool:
    """Whether it is one of those who train, and ask tf.data's service for data."""
    return _job(action) in ("chief", "worker")


class _Index:
    """The actions by what others know of them: comparing each with each takes seconds for a thousand tasks."""

    def __init__(self, actions: Sequence[Action], endpoints: Mapping[str, str]) -> None:
        self.endpoints = endpoints
        self.of_kind: dict[ActionKind, list[Action]] = defaultdict(list)
        self.of_subject: dict[tuple[ActionKind, str], list[Action]] = defaultdict(list)
        self.delivered_to: dict[str, list[Action]] = defaultdict(list)
        self.freeing: dict[str, list[Action]] = defaultdict(list)
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
        """Yield the actions that must be done before `action`."""
        match action.kind:
            case ActionKind.DELIVER:
                yield from self.of_subject[ActionKind.BUILD, action.subject]
            case ActionKind.FETCH:  # the image, in which it is done, comes first
                yield from (one for one in self.delivered_to[action.host] if one.kind == ActionKind.DELIVER)
            case ActionKind.STOP if _is_ps(action):  # the ps outlives everyone who still trains through it
                yield from (stop for stop in self.of_kind[ActionKind.STOP] if not _is_ps(stop))
            case ActionKind.STOP if _feeds(action):  # nobody is left waiting for data
                yield from (stop for stop in self.of_kind[ActionKind.STOP] if _eats(stop))
            case ActionKind.REMOVE:
                yield from (
                    stop for stop in self.of_subject[ActionKind.STOP, action.subject] if stop.host == action.host
                )
                if _job(action) not in READERS:
                    yield from (one for one in self.readers if one.host == action.host)
            case ActionKind.START:
                yield from self._before_start(action)

    def _before_start(self, action: Action) -> Iterator[Action]:
        yield from self.delivered_to[action.host]
        yield from self.of_subject[ActionKind.STOP, action.subject]  # a task is never in two places
        yield from self.of_subject[ActionKind.REMOVE, action.subject]
        yield from self.freeing[self.endpoints.get(action.id, "")]
        # A ps that restarts is stopped before anyone new talks to it. Nobody waits for its start: TensorFlow's workers wait
        # for their ps anyway, loading TensorFlow meanwhile, and a start that fails is taken back as a whole.
        yield from self.ps_stops
