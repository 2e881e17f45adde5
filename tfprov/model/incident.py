"""The kinds of incidents of a run."""

from enum import StrEnum


class IncidentKind(StrEnum):
    """What may happen to a run that somebody has to know of."""

    HOST_LOST = "host_lost"
    HOST_BACK = "host_back"
    RESTARTED = "restarted"
    CRASH_LOOP = "crash_loop"
    TASK_FAILED = "task_failed"
    STRAGGLER = "straggler"
    STALLED = "stalled"
    WENT_BACK = "went_back"
