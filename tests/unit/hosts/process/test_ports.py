"""Who is named as the owner of a port."""

from tfprov.hosts.process.proc import task_of


def test_a_task_of_another_cluster_is_named_and_no_other_process() -> None:
    task = [b"PATH=/bin", b"TFPROV_CLUSTER=lab", b"TFPROV_TASK=ps/0", b"A=b=\xff", b""]
    assert task_of(task) == "ps/0 of cluster lab"
    assert task_of([b"TFPROV_CLUSTER=lab", b"PATH=/bin", b""]) == ""
