"""Which programs save with TensorFlow's default saver, by their source."""

import pytest

from tfprov.images.saver_calls import default_saver_line

CALL = "with tf.train.MonitoredTrainingSession({}) as session: pass"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (CALL.format("checkpoint_dir=flags.dir"), 1),
        (CALL.format("target, is_chief, '/logs'"), 1),
        ("from tf.train import MonitoredTrainingSession\n\nMonitoredTrainingSession(checkpoint_dir=x)", 3),
        (CALL.format("checkpoint_dir=None"), None),
        (CALL.format("master=target"), None),
        (CALL.format("checkpoint_dir=x, scaffold=own"), None),
        (CALL.format("target, is_chief, '/logs', own"), None),
        (CALL.format("checkpoint_dir=x, **options"), None),
        (CALL.format("*arguments"), None),
        ("tf.train.Saver()", None),
        ("# MonitoredTrainingSession(checkpoint_dir=x)", None),
        ("import tfprov.runtime\n" + CALL.format("checkpoint_dir=x"), None),
        ("from tfprov import runtime\n" + CALL.format("checkpoint_dir=x"), None),
        ("from tfprovision import x\n" + CALL.format("checkpoint_dir=x"), 2),
        ("print 'Python 2'; " + CALL.format("checkpoint_dir=x"), None),
        ("\0", None),
        ("(" * 10_000, None),
        ("", None),
    ],
)
def test_sessions_with_the_default_saver(source: str, line: int | None) -> None:
    assert default_saver_line(source.encode()) == line


def test_bytes_that_are_no_text_have_none() -> None:
    assert default_saver_line(b"\xff\xfe\x00") is None
