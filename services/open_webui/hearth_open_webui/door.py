"""Nobody becomes the keeper of the accounts by being the first to come.

Open WebUI makes the first account from a password that it was given. Where that fails it says so
in its log, serves all the same, and hands the keeper's rights to the first who signs up.
"""

import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from typing import Any

from hearth_open_webui.settings import SettingsError

WHERE = "open_webui_admin_password"
SIGN_UP = "/auths/signup"
# Shorter ones are guessed, and Open WebUI does not look at the first one; of longer ones its
# library of hashes makes an error.
LEAST, MOST_BYTES = 10, 72
NOBODY = (
    "hearth_open_webui: nobody has an account and none could be made, so nothing is served: what "
    "was wrong stands above, e.g. a full disk; mend it, then restart"
)
REFUSED = json.dumps({"detail": "Whoever keeps this house adds the accounts."}).encode()

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Coroutine[Any, Any, None]]


def check_password(environment: Mapping[str, str]) -> None:
    """Accept a first password that Open WebUI can make an account with.

    Raises:
        SettingsError: It is too short or too long.
    """
    password = environment.get("WEBUI_ADMIN_PASSWORD", "")
    if len(password) < LEAST:
        what = f"has {len(password)} characters, {LEAST} are the least"
    elif (size := len(password.encode())) > MOST_BYTES:
        what = f"has {size} bytes, {MOST_BYTES} are the most"
    else:
        return
    raise SettingsError(f"{WHERE}: {what}: hearth secret set {WHERE}, then converge the house")


def guarded(app: App, anybody: Callable[[], Awaitable[bool]], sign_up: bool) -> App:
    """Return `app`, which serves only where `anybody` has an account and closes its sign-up."""

    async def guard(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, _with(anybody, send))
        elif scope["type"] == "http" and not sign_up and _is_sign_up(scope["path"]):
            await _refuse(send)
        else:
            await app(scope, receive, send)

    return guard


def _with(anybody: Callable[[], Awaitable[bool]], send: Send) -> Send:
    async def tell(message: Message) -> None:
        if message["type"] == "lifespan.startup.complete" and not await anybody():
            message = {"type": "lifespan.startup.failed", "message": NOBODY}
        await send(message)

    return tell


def _is_sign_up(path: str) -> bool:
    # Routes are matched with `$`, for which the end is also before a line's end.
    return path.strip().rstrip("/").endswith(SIGN_UP)


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(REFUSED))]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": REFUSED})
