"""What `make matrix` reads from its report."""

from tests.matrix import survived

REPORT = """
<testsuites><testsuite>
  <testcase classname="tests.integration.test_strategies" name="test_on_separate_hosts[single]" time="1"/>
  <testcase classname="tests.integration.test_strategies" name="test_on_separate_hosts[digits-async]" time="1"/>
  <testcase classname="tests.integration.test_strategies" name="test_on_separate_hosts[in-graph]"><failure/></testcase>
  <testcase classname="tests.integration.test_strategies" name="test_on_separate_hosts[all-reduce]"><skipped/></testcase>
  <testcase classname="tests.integration.test_strategies" name="test_as_processes[parameter-server]" time="1"/>
</testsuite></testsuites>
"""


def test_only_what_has_passed_on_hosts_of_its_own_has_survived() -> None:
    assert survived(REPORT) == ["digits-async", "single"]
