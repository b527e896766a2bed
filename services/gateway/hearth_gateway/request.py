"""What is read out of a request before anybody is asked, and how it may end at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hearth_gateway import wire
from hearth_gateway.call import Receive, Scope

# Pictures travel in the body; more than this is no request for a model at home.
BODY_BYTES = 64 * 1024 * 1024
# LiteLLM takes orders out of the body: other servers, retries, made-up answers. Its own list of
# them (`Steers`) lacks these.
STEERING = frozenset(
    [
        "base_url",
        "content_policy_fallbacks",
        "context_window_fallbacks",
        "disable_fallbacks",
        "extra_body",
        "extra_headers",
        "mock_delay",
        "mock_testing_content_policy_fallbacks",
        "mock_testing_context_fallbacks",
        "mock_testing_fallbacks",
        "mock_testing_rate_limit_error",
        "mock_tool_calls",
        "router_settings_override",
        "timeout",
        "user_config",
    ]
)
Steers = Callable[[str], bool]


def nothing(name: str) -> bool:
    """Say of no parameter that it steers."""
    return False


class Stop(Exception):
    """The request ends here with this answer."""

    def __init__(
        self, status: int, message: str, code: str, retry_after_s: int | None = None
    ) -> None:
        """Keep an OpenAI-shaped error."""
        super().__init__(message)
        self.status, self.body = status, wire.error(status, message, code)
        self.retry_after_s = retry_after_s


def key(scope: Scope) -> str:
    """Return the bearer key of a request, or nothing."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, key = value.decode("latin-1").partition(" ")
            return key.strip() if kind.lower() == "bearer" else ""
    return ""


async def body(receive: Receive, steers: Steers) -> dict[str, Any]:
    """Read the JSON object that a request carries, without what would steer LiteLLM itself."""
    content = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Stop(400, "the request was cut off", "cut_off")
        content += message.get("body", b"")
        more = message.get("more_body", False)
        if len(content) > BODY_BYTES:
            raise Stop(413, f"a request has at most {BODY_BYTES} bytes", "too_large")
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):  # a thousand brackets are no request either
        read = None
    if not isinstance(read, dict):
        raise Stop(400, "the body is not a JSON object", "invalid_json")
    return {name: value for name, value in read.items() if not (steers(name) or name in STEERING)}
