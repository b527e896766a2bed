"""A machine that is too slow for its model is told which one to take."""

from __future__ import annotations

import pytest

from hearth.smoke.hearing import judge, smaller_than

KNOWN = ("tiny", "tiny.en", "base", "base.en", "small", "small.en", "medium", "distil-medium.en")


@pytest.mark.parametrize("rtf", [0.0, 0.3, 0.5])
def test_half_of_real_time_keeps_up(rtf: float) -> None:
    assert judge(rtf, "small", KNOWN).keeps_up


def test_what_does_not_keep_up_is_told_in_one_line_what_to_write() -> None:
    verdict = judge(0.61, "distil-medium.en", KNOWN)
    assert not verdict.keeps_up
    assert verdict.line == (
        "distil-medium.en takes 0.61 s for a second of speech, and more than 0.5 is heard as a "
        "wait: write `transcribe: {members: [base.en]}` into inventory/local/aliases.yml"
    )


def test_without_a_smaller_model_it_says_so() -> None:
    verdict = judge(0.9, "tiny", KNOWN)
    assert not verdict.keeps_up
    assert "there is no smaller model" in verdict.line


@pytest.mark.parametrize(
    ("model", "rtf", "smaller"),
    [
        # The best that would keep up.
        ("medium", 1.0, "small"),
        ("medium", 1.2, "base"),
        ("medium", 5.0, "tiny"),
        # None would: the fastest.
        ("medium", 50.0, "tiny"),
        # Of English alone there is another of English alone.
        ("small.en", 0.6, "distil-medium.en"),
        ("small.en", 2.0, "tiny.en"),
        # What nobody measured beside the others.
        ("my-own", 2.0, None),
        ("tiny.en", 2.0, None),
    ],
)
def test_the_smaller_model(model: str, rtf: float, smaller: str | None) -> None:
    assert smaller_than(model, rtf, KNOWN) == smaller
