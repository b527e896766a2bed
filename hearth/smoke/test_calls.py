"""A recorded question is answered by voice, on the whole path of a call."""

from array import array

import pytest

from hearth.catalogue.house import House, Service
from hearth.clients import ClientError
from hearth.clients.calls import ask, at_24_khz, site_for_calls
from hearth.clients.endpoints import Edge
from hearth.clients.recordings import RATE, utterances
from hearth.smoke.plugin import Notes

pytestmark = pytest.mark.home
_WITHIN_S = 120.0
_QUESTIONS = 3
# What the server may add to the times of the parts that it calls.
_GLUE_MS = 50.0


def test_a_question_is_answered_by_voice(
    answerer: Service, house: House, edge: Edge, key: str, notes: Notes
) -> None:
    endpoint = edge.endpoint(site_for_calls(house).fqdn, key)
    waits, glue = [], []
    for spoken in utterances(3)[:_QUESTIONS]:
        turn = ask(endpoint, at_24_khz(array("h", spoken.pcm), RATE), _WITHIN_S)
        assert turn.sound, "the answer has no sound"
        waits.append(turn.waits_ms)
        if not turn.is_early:
            glue.append(turn.waits_ms - sum(turn.lengths_ms.values()))
    about = "from the last word to the first sound, with the silence that ends a turn"
    notes.figure(f"answer of {answerer.name}", "ms", waits, about)
    assert not glue or min(glue) <= _GLUE_MS, f"{answerer.name} itself took {min(glue):.0f} ms"


def test_a_call_without_a_key_is_rejected(answerer: Service, house: House, edge: Edge) -> None:
    for wrong in (None, "sk-wrong"):
        with pytest.raises(ClientError, match="HTTP 401"):
            ask(edge.endpoint(site_for_calls(house).fqdn, wrong), b"", _WITHIN_S)
