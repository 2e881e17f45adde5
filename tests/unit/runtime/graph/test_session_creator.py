"""Which of the errors of a step tell that a task was lost; the end of a session that a lost task holds up."""

import threading

import pytest

from tests.support.waiting import LONG
from tfprov.runtime.graph.session_creator import call_within, is_task_loss

LOG = """CANCELLED: From /job:worker/replica:0/task:1:
RecvFromRemoteAsync is cancelled.
Recent warning and error logs:
  W0000 00:00:1795430897.591069   18567 local_rendezvous.cc:412] Local rendezvous is aborting with status: ABORTED: From /job:ps"""  # noqa: E501


@pytest.mark.parametrize(
    ("message", "lost"),
    [
        ("CANCELLED: From /job:worker/task:1:\nRecvFrom\nABORTED: From /job:ps/task:0:\nSession handle", True),
        ("=====\nUNAVAILABLE: From /job:worker/task:0:\nSocket closed\n=====", True),
        (
            "2 root error(s) found.\n  (0) CANCELLED: From /job:worker/task:1:\n  (1) ABORTED: From /job:ps/task:0:",
            True,
        ),
        ("CANCELLED: From /job:worker/task:1:\nDequeue operation was cancelled", False),
        ("Enqueue operation was cancelled\nABORTED: Stopping remaining executors.", False),
        (LOG, False),
        ("", False),
    ],
)
def test_a_task_loss_is_recognized_in_parts_of_the_step_and_not_in_the_log(message: str, lost: bool) -> None:
    assert is_task_loss(message) is lost


def test_what_never_returns_is_left_to_its_thread_and_an_error_in_time_is_raised() -> None:
    over, ended = threading.Event(), threading.Event()

    def hang() -> None:
        over.wait(LONG)
        ended.set()

    call_within(0.01, hang)
    assert not ended.is_set()
    over.set()
    assert ended.wait(LONG)
    with pytest.raises(ZeroDivisionError):
        call_within(LONG, lambda: 1 / 0)
