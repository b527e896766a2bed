"""The questions with a place for a pause."""

from __future__ import annotations

from hearth.clients.recordings import BYTES, RATE, questions
from hearth.clients.stats import words_of


def test_each_question_has_two_halves_at_several_speeds() -> None:
    found = questions()
    assert len(found) == 8
    paces = []
    for one in found:
        for half in (one.first, one.rest):
            assert 0.8 < half.seconds < 3
        assert one.whole.seconds == (len(one.first.pcm) + len(one.rest.pcm)) / BYTES / RATE
        assert one.text.endswith((".", "?"))
        assert not one.first.text.endswith((".", "?", "!"))
        paces.append(len(words_of(one.text)) / one.whole.seconds)
    # Words a second: nobody speaks all of them alike.
    assert max(paces) > 1.3 * min(paces)
