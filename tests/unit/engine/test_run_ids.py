"""Ids of runs sort by time, within a second too: a list of runs is the oldest first, and `runs show` shows the newest."""

import time

from tfprov.engine.run_ids import RUN_ID, new_run, run_id

SECOND = 10**9


def test_ids_sort_by_time_whatever_their_random_digits() -> None:
    times = [0, 300_000, SECOND // 2, SECOND - 1, SECOND, 1_795_625_178 * SECOND, 1_795_625_178 * SECOND + 1_000_000]
    ids = [run_id(at, 4095 - 500 * number) for number, at in enumerate(times)]
    assert ids == sorted(ids)
    assert all(RUN_ID.fullmatch(each) for each in ids)


def test_an_id_has_the_utc_second_the_part_of_it_and_three_random_digits() -> None:
    assert run_id(1_795_625_178 * SECOND + SECOND // 2, 10) == "20261125T164618Z-80000a"
    assert run_id(SECOND - 1, 4095) == "19700101T000000Z-ffffff"


def test_a_new_run_is_after_one_a_few_milliseconds_before() -> None:
    first = new_run()
    time.sleep(0.001)
    assert first < new_run()
