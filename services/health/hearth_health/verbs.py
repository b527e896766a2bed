"""Buttons: the watcher carries out one of a few verbs, asked over its socket."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

# The field that each verb needs; the watcher knows no others.
VERBS: Mapping[str, str] = {
    "plan": "key",
    "fix": "key",
    "ignore": "key",
    "notice": "key",
    "unload": "model",
}
LONGEST = 400
# A fix may restart a program and wait until it is healthy.
WITHIN_S = 180.0
_ANSWER_BYTES = 64 * 1024


class VerbError(Exception):
    """One line for a person: why nothing was done, as far as the page knows."""


async def ask(socket: Path, verb: str, value: str, within_s: float = WITHIN_S) -> str:
    """Let the watcher do something and return what it says.

    Raises:
        VerbError: the verb is unknown, the watcher does not answer, or it refused.
    """
    field = VERBS.get(verb)
    if field is None or not value or len(value) > LONGEST:
        raise VerbError("this button is unknown: load the page again")
    request = json.dumps({"verb": verb, field: value}).encode() + b"\n"
    try:
        async with asyncio.timeout(within_s):
            answer = json.loads(await _exchange(socket, request))
            good, text = bool(answer["ok"]), str(answer["text"])[:4000]
    except TimeoutError:
        raise VerbError(
            f"no answer in {within_s:g} s; it may still be working: look here again in a minute"
        ) from None
    except OSError as error:
        raise VerbError(
            f"the watcher does not answer ({error.strerror or type(error).__name__})"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise VerbError("the watcher gave no valid answer") from None
    if not good:
        raise VerbError(text)
    return text


async def _exchange(socket: Path, request: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(socket), limit=_ANSWER_BYTES)
    try:
        writer.write(request)
        await writer.drain()
        return await reader.readline()
    finally:
        writer.close()
