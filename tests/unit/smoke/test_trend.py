"""The band of a machine, and which differences are more than noise."""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hearth.smoke.receipt import Figure, MeasuredMachine, Receipt, Verdict
from hearth.smoke.trend import FEWEST, WINDOW, band_of, difference, trends

MACHINE = MeasuredMachine(
    "box", "Debian 13.2", "6.12", "Ryzen 7", 8, 16 * 2**30, ["AMD 1638 (amdgpu)"]
)
START = datetime(2026, 11, 1, tzinfo=UTC)
PASSED = Verdict("an alias answers", "fast", "passed", "", 0.1)


def figure(median: float, unit: str = "ms", **more: Any) -> Figure:
    return Figure(**{"name": "x", "unit": unit, "n": 5, "median": median, "p95": median, **more})


def receipt(day: int, *figures: Figure, **more: Any) -> Receipt:
    made = (START + timedelta(days=day)).isoformat()
    found = Receipt(
        house="house",
        made=made,
        seconds=60,
        hearth="abc1234",
        machine=MACHINE,
        accelerator={},
        versions={"ollama": "0.35.0"},
        addresses=[],
        figures=figures,
        verdicts=[PASSED],
    )
    return replace(found, **more)


def series(*medians: float, unit: str = "ms") -> list[Receipt]:
    return [receipt(day, figure(each, unit)) for day, each in enumerate(medians)]


def judged(*medians: float, unit: str = "ms") -> str:
    (trend,) = trends(series(*medians, unit=unit))
    return trend.judgement


STEADY = (400.0, 404.0, 396.0, 410.0, 390.0, 402.0, 398.0, 405.0)


@pytest.mark.parametrize(
    ("last", "unit", "judgement"),
    [
        (440, "ms", "usual"),
        (800, "ms", "worse"),
        (100, "ms", "better"),
        # Of these, more is better.
        (800, "tokens/s", "better"),
        (100, "tokens/s", "worse"),
        # Days of a certificate are neither good nor bad.
        (100, "days", "unknown"),
    ],
)
def test_a_run_is_judged_by_the_band_of_its_machine(last: float, unit: str, judgement: str) -> None:
    assert judged(*STEADY, last, unit=unit) == judgement


def test_both_numbers_are_in_the_evidence() -> None:
    (trend,) = trends(series(*STEADY, 800))
    assert trend.evidence == "800 ms now (n=5); usual here is 401 ms, 341 to 461 in 8 receipts"


def test_a_restless_machine_has_a_wider_band() -> None:
    restless = (400.0, 600.0, 300.0, 500.0, 420.0, 700.0, 350.0, 450.0)
    assert judged(*restless, 800) == "usual"
    # A figure that varies much inside its run tells less, too.
    noisy = [receipt(day, figure(each, p95=3 * each)) for day, each in enumerate((*STEADY, 800))]
    assert trends(noisy)[0].judgement == "usual"


def test_less_than_a_person_notices_is_no_finding() -> None:
    assert judged(*[2.0, 2.1, 1.9, 2.0, 2.0, 2.1], 15.0) == "usual"


def test_few_receipts_have_no_band() -> None:
    assert judged(*[400.0] * (FEWEST - 1), 4000) == "unknown"
    assert judged(*[400.0] * FEWEST, 4000) == "worse"


def test_one_value_alone_says_too_little() -> None:
    last = receipt(99, figure(4000, n=1))
    assert trends([*series(*STEADY), last])[0].judgement == "unknown"


@pytest.mark.parametrize(
    "other",
    [
        {"machine": replace(MACHINE, gpus=["NVIDIA 2684 (nvidia)"])},
        {"machine": replace(MACHINE, name="laptop")},
        {"machine": replace(MACHINE, memory_bytes=32 * 2**30)},
        {"figures": [figure(400, conditions="another model")]},
        # A run that failed says little about the machine.
        {"verdicts": [replace(PASSED, outcome="failed")]},
        {"verdicts": [PASSED, replace(PASSED, outcome="pending", percent=40)]},
    ],
)
def test_only_comparable_good_runs_make_the_band(other: dict[str, Any]) -> None:
    runs = [replace(one, **other) for one in series(*STEADY)]
    (trend,) = trends([*runs, receipt(99, figure(4000))])
    assert trend.band is None


def test_a_new_kernel_or_driver_is_still_the_same_machine() -> None:
    new = replace(MACHINE, kernel="6.18", gpus=["AMD 1638 (no driver)"], memory_bytes=2**34 - 2**20)
    (trend,) = trends([*series(*STEADY), receipt(99, figure(4000), machine=new)])
    assert trend.judgement == "worse"


def test_a_run_beside_a_download_is_not_judged() -> None:
    pending = [PASSED, replace(PASSED, outcome="pending", percent=40)]
    last = receipt(99, figure(4000))
    assert trends([*series(*STEADY), last])[0].judgement == "worse"
    (trend,) = trends([*series(*STEADY), replace(last, verdicts=pending)])
    assert (trend.judgement, trend.points[-1].good) == ("unknown", False)


def test_a_lasting_change_becomes_usual() -> None:
    """One slow run does not hide the next; after half a window the machine is like that."""
    assert judged(*STEADY, *[800] * 3, 800) == "worse"
    assert judged(*STEADY, *[800] * WINDOW, 800) == "usual"


def test_noise_alone_is_no_finding() -> None:
    """Seven figures of 200 runs, of which each value varies by a tenth, and each run as well."""
    # Seeded: the same receipts every time.
    draw = random.Random(20261123)  # noqa: S311
    found = 0
    for _ in range(7):
        kept: list[Figure] = []
        for _ in range(200):
            run = 400 * math.exp(draw.gauss(0, 0.05))
            values = sorted(run * math.exp(draw.gauss(0, 0.1)) for _ in range(5))
            now = figure(statistics.median(values), p95=values[-1])
            if band := band_of(kept[-WINDOW:]):
                found += now.median > band.high
            kept.append(now)
    assert found <= 1, f"{found} of 1400 figures are findings"


@pytest.mark.parametrize(
    ("factor", "runs", "least"), [(1.1, 20, 0), (2.0, 5, 40), (2.0, 20, 95), (3.0, 20, 100)]
)
def test_what_doubles_is_found(factor: float, runs: int, least: int) -> None:
    draw = random.Random(7)  # noqa: S311
    found = 0
    for _ in range(100):
        *kept, last = [400 * math.exp(draw.gauss(0, 0.07)) for _ in range(runs + 1)]
        band = band_of([figure(each) for each in kept])
        assert band is not None
        found += factor * last > band.high
    assert found >= least
    assert found <= (5 if factor < 1.2 else 100)


def changed(a: Receipt, b: Receipt, kept: Sequence[Receipt] = ()) -> dict[str, str]:
    return {one.name: one.judgement for one in difference(a, b, kept).figures}


def test_two_receipts_differ_by_more_than_noise_or_not() -> None:
    a = receipt(0, figure(400))
    for median, judgement in ((480, "usual"), (800, "worse"), (120, "better")):
        assert changed(a, receipt(1, figure(median))) == {"x": judgement}
    # With a history, the machine's own noise counts.
    steady, restless = series(*STEADY), series(400, 900, 300, 500, 200, 700, 800, 450)
    assert changed(a, receipt(9, figure(560)), steady) == {"x": "worse"}
    assert changed(a, receipt(9, figure(800)), restless) == {"x": "usual"}
    # The percentage alone decides nothing: the same one is noise where runs differ inside.
    wide = receipt(1, figure(800, p95=4000))
    assert changed(receipt(0, figure(400, p95=2000)), wide) == {"x": "usual"}


def test_what_was_measured_once_is_not_judged_without_a_history() -> None:
    a, b = receipt(0, figure(400, n=1)), receipt(1, figure(4000, n=1))
    (one,) = difference(a, b).figures
    assert (one.judgement, one.why) == ("unknown", "measured too seldom to tell")
    assert changed(a, b, series(*STEADY)) == {"x": "worse"}


def test_versions_and_checks_that_changed_are_listed() -> None:
    kernel = replace(MACHINE, kernel="6.18", drivers={"amdgpu": "2"})
    failed = [replace(PASSED, outcome="failed"), replace(PASSED, about="new")]
    a = receipt(0, digests={"qwen": "aa"})
    b = receipt(1, machine=kernel, verdicts=failed, versions={"incus": "6"}, digests={"qwen": "bb"})
    found = difference(a, b)
    assert found.versions == {
        "kernel": ("6.12", "6.18"),
        "driver amdgpu": (None, "2"),
        "ollama": ("0.35.0", None),
        "incus": (None, "6"),
        "digest of qwen": ("aa", "bb"),
    }
    assert found.checks == {
        "an alias answers: fast": ("passed", "failed"),
        "an alias answers: new": (None, "passed"),
    }
    assert found.broken == ["an alias answers: fast"]
    assert [line for line in found.warnings if "its run was 1 failed, 1 passed, so" in line]
    assert not difference(a, a).versions


def test_two_machines_stand_beside_each_other_without_a_judgement() -> None:
    card = replace(MACHINE, name="tower", gpus=["NVIDIA 2684 (nvidia)"], memory_bytes=64 * 2**30)
    a = receipt(0, figure(400), figure(9, name="y", conditions="small model"))
    b = receipt(
        1, figure(40), figure(50, name="y", conditions="large model"), figure(1, name="z"),
        machine=card,
    )  # fmt: skip
    found = difference(a, b, series(*STEADY))
    assert found.warnings == [
        "not comparable, other hardware: name: box | tower",
        "not comparable, other hardware: graphics: AMD 1638 | NVIDIA 2684",
        "not comparable, other hardware: memory: 16.0 GiB | 64.0 GiB",
        "not comparable, other models or test sizes: y",
    ]
    assert {one.name: (one.judgement, one.why) for one in found.figures} == {
        "x": ("unknown", "other hardware"),
        "y": ("unknown", "other conditions: small model | large model"),
        "z": ("unknown", "only in B"),
    }
    assert found.figures[0].a == figure(400)
    assert found.figures[0].b == figure(40)
    assert found.worse == []
