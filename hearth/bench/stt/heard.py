"""What a talker felt: when the text was there, counted from the last word."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint
from hearth.clients.recordings import Utterance
from hearth.clients.stt import Stream, StreamEvent, StreamOptions, connected


@dataclass(frozen=True, slots=True)
class Heard:
    """One utterance through the socket; the times are seconds, `error` is empty when it came.

    `final_s` runs from the end of speech to its final text, `ended_s` to the server's word
    that the speech ended; `started_s` and `first_partial_s` from the first sound of the speech.
    """

    audio_s: float
    error: str = ""
    final_s: float | None = None
    ended_s: float | None = None
    started_s: float | None = None
    first_partial_s: float | None = None
    partials: int = 0
    finals: int = 0
    text: str = ""


async def talk(server: Endpoint, utterance: Utterance, manner: StreamOptions) -> Heard:
    """Say one utterance to a server; a failure is in `error`.

    Raises:
        NoStreamError: it has no live socket.
    """
    within_s = utterance.seconds + manner.lead_s + 2 * manner.wait_s
    try:
        async with connected(server, manner, within_s) as opened:
            ended = await opened.speak(utterance)
            await opened.end()
    except ClientError as error:
        return Heard(utterance.seconds, str(error))
    return heard(utterance, opened, *ended)


async def talk_at_once(
    server: Endpoint, spoken: Sequence[Utterance], manner: StreamOptions
) -> list[Heard]:
    """Let several talkers begin at the same moment, when the server is ready for all of them.

    Raises:
        NoStreamError: it has no live socket.
    """
    within_s = max(u.seconds for u in spoken) + manner.lead_s + 2 * manner.wait_s
    try:
        async with contextlib.AsyncExitStack() as stack:
            lines = [
                await stack.enter_async_context(connected(server, manner, within_s)) for _ in spoken
            ]
            ended = await asyncio.gather(
                *(_through(one, what) for one, what in zip(lines, spoken, strict=True))
            )
    except ClientError as error:
        return [Heard(one.seconds, str(error)) for one in spoken]
    return [heard(a, b, *c) for a, b, c in zip(spoken, lines, ended, strict=True)]


async def _through(opened: Stream, utterance: Utterance) -> tuple[float, float]:
    ended = await opened.speak(utterance)
    await opened.end()
    return ended


def heard(utterance: Utterance, opened: Stream, ended: float, end_s: float) -> Heard:
    """Return what came of an utterance whose speech ended at that moment, at `end_s` of it all."""
    last = opened.final(end_s)
    finals = [event for event in opened.events if event.kind == "final"]
    partials = [e for e in opened.events if e.kind == "partial" and e.payload.get("text")]
    started = ended - utterance.seconds
    error = opened.error
    if not error and last is None:
        error = f"no final text within {opened.options.wait_s:g} s after the last word"
    return Heard(
        utterance.seconds,
        error,
        final_s=last.at_s - ended if last else None,
        ended_s=_first([e for e in opened.events if e.kind == "speech_ended"], ended, last),
        started_s=_first([e for e in opened.events if e.kind == "speech_started"], started),
        first_partial_s=_first(partials, started),
        partials=len(partials),
        finals=len(finals),
        text=" ".join(str(e.payload.get("text", "")).strip() for e in finals).strip(),
    )


def _first(
    events: Sequence[StreamEvent], since: float, of: StreamEvent | None = None
) -> float | None:
    """Return when the first of the events came; of those of one utterance, where it is given."""
    found = (e for e in events if of is None or e.utterance == of.utterance)
    return next((e.at_s - since for e in found), None)
