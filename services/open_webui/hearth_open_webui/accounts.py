"""Keep the first visitor from becoming the administrator.

Open WebUI creates the first account from a given password. If that fails, it only logs the error,
serves nevertheless, and makes the first person who signs up the administrator.
"""

import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from typing import Any

from hearth_open_webui.settings import SettingsError

NAME = "open_webui_admin_password"
SIGN_UP = "/auths/signup"
# Shorter ones can be guessed, and Open WebUI does not check the first one; its hash library
# rejects longer ones.
LEAST, MOST_BYTES = 10, 72
NO_ACCOUNT = (
    "hearth_open_webui: there is no account and none could be created, so nothing is served: the "
    "cause is logged above, e.g. a full disk; fix it, then restart"
)
REFUSED = json.dumps({"detail": "Ask the administrator of this house for an account."}).encode()

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Coroutine[Any, Any, None]]


def check_password(environment: Mapping[str, str]) -> None:
    """Check that Open WebUI can create an account with the first password.

    Raises:
        SettingsError: it is too short or too long.
    """
    password = environment.get("WEBUI_ADMIN_PASSWORD", "")
    if len(password) < LEAST:
        problem = f"has {len(password)} characters, the minimum is {LEAST}"
    elif (size := len(password.encode())) > MOST_BYTES:
        problem = f"has {size} bytes, the maximum is {MOST_BYTES}"
    else:
        return
    raise SettingsError(f"{NAME}: {problem}: run `hearth secret set {NAME}`, then `hearth up`")


def guarded(app: App, has_users: Callable[[], Awaitable[bool]], sign_up: bool) -> App:
    """Return `app` so that it starts only with an account, and only `sign_up` allows new ones."""

    async def guard(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, _checking(has_users, send))
        elif scope["type"] == "http" and not sign_up and _is_sign_up(scope["path"]):
            await _refuse(send)
        else:
            await app(scope, receive, send)

    return guard


def _checking(has_users: Callable[[], Awaitable[bool]], send: Send) -> Send:
    async def checked(message: Message) -> None:
        if message["type"] == "lifespan.startup.complete" and not await has_users():
            message = {"type": "lifespan.startup.failed", "message": NO_ACCOUNT}
        await send(message)

    return checked


def _is_sign_up(path: str) -> bool:
    # Routes match with `$`, which also matches before a final line end.
    return path.strip().rstrip("/").endswith(SIGN_UP)


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(REFUSED))]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": REFUSED})
