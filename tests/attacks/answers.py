"""What a refusal looks like, whichever way it came."""

from __future__ import annotations

import httpx

# A person reads it in a chat.
_LONGEST = 600
_STATUSES = (400, 401, 403, 404, 405, 409, 410, 413, 415, 421, 422, 429, 431, 502, 503, 504)


def refused(answer: httpx.Response, *statuses: int) -> str:
    """Check that a request was refused, in one line for a person; return that line.

    `statuses` are those that it may have, where that matters.
    """
    assert answer.status_code in (statuses or _STATUSES), (answer.status_code, answer.text[:500])
    if "json" not in answer.headers.get("content-type", ""):
        return answer.text
    found = answer.json()
    # The pages' own scripts read another field.
    message = str(found["text"] if "text" in found else found["error"]["message"])
    assert 0 < len(message) <= _LONGEST, message
    assert message.isprintable(), repr(message)
    return message
