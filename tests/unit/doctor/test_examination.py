"""Checks run side by side within their deadlines, and one that fails is a finding."""

import threading
from collections.abc import Iterator
from typing import Any

from hearth.doctor.examination import examine, run_checks
from hearth.doctor.finding import Check, Context, Finding, Kind

BAD = Kind("HEARTH-BAD", "error", "Bad", "It is bad.", "Repair it.")
ODD = Kind("HEARTH-ODD", "warning", "Odd", "It is odd.", "Look at it.")


def check(find: Any, within_s: float = 5) -> Check:
    return Check(getattr(find, "__name__", "a check"), find, every_s=3, within_s=within_s)


def nothing(context: Context) -> Iterator[Finding]:
    yield from ()


def both(context: Context) -> Iterator[Finding]:
    yield Finding(ODD, "b", "2 of 3")
    yield Finding(BAD, "a", "1 of 3")


def broken(context: Context) -> Iterator[Finding]:
    yield Finding(BAD, "a", "1 of 3")
    raise OSError("no\nsuch file")


def test_errors_come_first(healthy: Context) -> None:
    assert [one.key for one in examine(healthy, [check(both)])] == ["HEARTH-BAD:a", "HEARTH-ODD:b"]


def test_a_house_without_problems_has_no_findings(healthy: Context) -> None:
    assert examine(healthy, [check(nothing)]) == []


def test_a_check_that_raises_is_a_finding(healthy: Context) -> None:
    found = examine(healthy, [check(broken), check(both)])
    assert [one.key for one in found][-1] == "HEARTH-ODD:b"
    failed = next(one for one in found if one.kind.name == "HEARTH-CHECK-FAILED")
    assert (failed.about, failed.evidence) == ("broken", "OSError: no such file")


def test_a_check_that_hangs_is_a_finding_and_is_not_started_again(healthy: Context) -> None:
    end, starts = threading.Event(), []

    def hangs(context: Context) -> Iterator[Finding]:
        starts.append(1)
        end.wait(30)
        yield from ()

    try:
        first = run_checks(healthy, [check(hangs, within_s=0.05), check(both)])
        assert first["hangs"][0].evidence == "took over 0.05 s"
        assert len(first["both"]) == 2
        again = run_checks(healthy, [check(hangs, within_s=0.05)])
        assert again["hangs"][0].evidence == "its last run still hangs"
        assert len(starts) == 1
    finally:
        end.set()
