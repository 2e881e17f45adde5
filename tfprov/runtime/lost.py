"""What a step says whose ps was lost: that has to be one of the errors from which TensorFlow's session recovers.

Those are AbortedError and UnavailableError. When the ps is back before the next step, it refuses its part of that step
(Aborted: it knows of no such session), and TensorFlow cancels the other parts. Which of the errors of all parts the whole
step has is a matter of chance, and CancelledError would end the program. The message lists every part.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from tfprov.runtime.lazy import graph_api

_PART = re.compile(r"^ *(?:\(\d+\) )?(?:ABORTED|UNAVAILABLE): From /job:", re.MULTILINE)
"""Only where a line begins: TensorFlow adds lines of its log, and these may tell of an earlier loss."""


def tells_of_a_loss(message: str) -> bool:
    """Whether a part of the step ended, on any task, with an error from which TensorFlow recovers."""
    return bool(_PART.search(message))


@contextlib.contextmanager
def recoverable() -> Iterator[None]:
    """Raise AbortedError instead of a CancelledError behind which is a loss; all other errors stay as they are."""
    errors = graph_api().errors
    try:
        yield
    except errors.CancelledError as error:
        if not tells_of_a_loss(error.message):
            raise
        raise errors.AbortedError(error.node_def, error.op, error.message) from error


def guarded(session: Any) -> Any:
    """Return the session, whose steps are `recoverable` now; threads of queues take theirs by `make_callable`."""
    make_callable = session.make_callable

    def make(*arguments: Any, **options: Any) -> Any:
        return recoverable()(make_callable(*arguments, **options))

    session.run, session.make_callable = recoverable()(session.run), make
    return session
