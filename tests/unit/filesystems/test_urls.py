"""URLs of remote directories: which are accepted, and the errors of the others."""

import re

import pytest

from tfprov.filesystems.remote_dir import describe_error
from tfprov.filesystems.urls import PATTERN, scheme_of, url_problem

GOOD = (
    "s3://bucket/run",
    "s3://bucket/a/b-c/d_e",
    "gs://bucket/run",
    "hdfs://namenode:8020/runs/linear",
    "hdfs://service/runs",
    "hdfs:///runs/linear",
)


@pytest.mark.parametrize("url", GOOD)
def test_good_urls(url: str) -> None:
    assert url_problem(url) is None
    assert re.search(f"^{PATTERN}$", url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://host/run", "use s3://, hdfs:// or gs://"),
        ("http://host/run", "use s3://, hdfs:// or gs://"),
        ("s3a://bucket/run", "write `s3://`"),
        ("gcs://bucket/run", "write `gs://`"),
        ("file:///data", "write the path alone"),
        ("nfs://server/export", "mount it as a volume"),
        ("webhdfs://namenode:50070/run", "port of the NameNode's RPC"),
        ("S3://bucket/run", "needs a bucket"),
        ("s3://bucket", "needs a directory"),
        ("s3://bucket/", "needs a directory"),
        ("s3:///run", "needs a bucket"),
        ("s3://key:secret@bucket/run", "secret variables in `env`"),
        ("s3://bucket/run?versionId=1", "`?` or `#`"),
        ("s3://bucket/a b", "without blanks"),
        ("s3://bucket/a//b", "`..` or empty names"),
        ("s3://bucket/../other", "`..`"),
        ("hdfs://namenode:99999/run", "valid port"),
        ("gs://bucket:80/run", "needs a bucket"),
    ],
)
def test_what_is_wrong_is_said_with_the_way_that_works(url: str, words: str) -> None:
    problem = url_problem(url)
    assert problem is not None
    assert words in "; ".join(problem)


def test_paths_have_no_scheme() -> None:
    assert [scheme_of(path) for path in ("/checkpoints", "a/b", "://x", "1s://x", "c:/x")] == [None] * 5


def test_errors_of_servers_are_one_line_of_bounded_length() -> None:
    error = RuntimeError("File does not exist: /run\n\tat org.apache.hadoop.hdfs.Name(Name.java:1)\n\tat more")
    assert describe_error(error) == "File does not exist: /run"
    assert describe_error(OSError("\x1b[2J" + "x" * 1000)) == " [2J".strip() + "x" * 297
    assert describe_error(ValueError()) == "ValueError"
    signed = OSError('Could not connect to the endpoint URL: "http://h:1/b?list-type=2&X-Amz-Signature=1"')
    assert describe_error(signed) == 'Could not connect to the endpoint URL: "http://h:1/b"'
