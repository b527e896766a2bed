"""The first call in LiteLLM's life imports for two seconds: nobody should have to wait for it."""

from __future__ import annotations

from hearth_gateway.call import App, Call, Message, Refused, Send
from hearth_gateway.settings import House

_PATH = "/v1/chat/completions"


def before_ready(app: App, house: House, send: Send) -> Send:
    """Return a `send` for the lifespan that makes one call without a member before it is ready."""

    async def send_warm(message: Message) -> None:
        if message["type"] == "lifespan.startup.complete" and house.names:
            await _call(app, house)
        await send(message)

    return send_warm


async def _call(app: App, house: House) -> None:
    member = next(iter(house.names.values())).members[0]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": _PATH,
        "raw_path": _PATH.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer " + house.own_key.encode())],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
    }
    body = {
        "model": member,
        "stream": True,
        "mock_response": "warm",  # LiteLLM answers by itself
        "messages": [{"role": "user", "content": "warm"}],
    }
    try:
        async with Call(app, scope, body, frozenset({member})) as call:
            await call.until_token()
            async for _ in call.rest():
                pass
    except Refused as refused:
        # LiteLLM runs; whatever is wrong with it will be said to the first caller too.
        print(f"hearth_gateway: the warm-up call failed: {refused.body}", flush=True)
