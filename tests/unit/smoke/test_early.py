"""The rule that a deploy stands on: speech starts early enough, or the proof fails."""

from __future__ import annotations

import pytest

from hearth.smoke.early import judge


@pytest.mark.parametrize(
    ("whole_s", "ttfa_s", "word"),
    [
        (1.4, 0.3, "fine"),
        (1.4, 0.71, "failed"),
        (0.1, 0.15, "fine"),
        (0.1, 0.16, "failed"),
        (3.0, 0.71, "slow"),
        (1.4, 1.4, "failed"),
    ],
)
def test_the_rule_of_a_deploy(whole_s: float, ttfa_s: float, word: str) -> None:
    assert judge(whole_s, ttfa_s).word == word
    assert judge(whole_s, ttfa_s).failed == (word == "failed")
