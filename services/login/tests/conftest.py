"""A house with four sites and three consumers; requests are sent as Caddy sends them."""

import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from itsdangerous import TimestampSigner

sys.path.insert(0, str(Path(__file__).parent.parent))

from hearth_login.app import make_app
from hearth_login.check import make_state
from hearth_login.config import Config, load_config
from hearth_login.credentials import Credentials, load_credentials
from hearth_login.sessions import EndedSessions

KEYS = {name: f"{name}-key-{'0123456789' * 3}" for name in ("webui", "agents", "status", "chat")}
PASSWORD = "correct horse battery staple"
CONFIG = {
    "domain": "lan",
    "consumers": {
        "webui": {"services": ["litellm"]},
        "agents": {"services": ["litellm", "kokoro"]},
        "status": {"services": ["prometheus"]},
        "chat": {"services": []},
    },
    "sites": {
        "llm.lan": {"service": "litellm", "auth": "key", "shared": ["kokoro"]},
        "home.lan": {"service": "caddy", "auth": "house"},
        "status.lan": {"service": "prometheus", "auth": "house"},
        "chat.lan": {"service": "open_webui", "auth": "own"},
    },
}


@dataclass
class Clock:
    """A clock that only the test advances."""

    at: float = 1_000_000.0

    def __call__(self) -> float:
        return self.at


@dataclass
class LoginClient:
    """Caddy's side of the login."""

    client: httpx.AsyncClient
    headers: dict[str, str] = field(default_factory=dict)

    async def check(
        self,
        host: str = "llm.lan",
        *,
        key: str | None = None,
        client: str = "10.0.0.7",
        method: str = "GET",
        uri: str = "/",
        query: str = "",
        **more: str,
    ) -> httpx.Response:
        headers = self._caddy(host, client) | {
            "X-Forwarded-Method": method,
            "X-Forwarded-Uri": uri,
            **{name.replace("_", "-"): value for name, value in more.items()},
        }
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        return await self.client.get(f"/check{query}", headers=headers)

    async def page(
        self, host: str = "home.lan", query: str = "", *, client: str = "10.0.0.7", **more: str
    ) -> httpx.Response:
        return await self.client.get(
            f"/hearth-login/{query}", headers=self._caddy(host, client) | more
        )

    async def post(
        self,
        form: dict[str, str],
        host: str = "home.lan",
        *,
        path: str = "",
        client: str = "10.0.0.7",
        **more: str,
    ) -> httpx.Response:
        headers = self._caddy(host, client) | {"Origin": f"https://{host}"} | more
        return await self.client.post(f"/hearth-login/{path}", data=form, headers=headers)

    async def token(self, host: str = "home.lan") -> str:
        text = (await self.page(host)).text
        return text.split('name="token" value="')[1].split('"')[0]

    async def sign_in(
        self, password: str = PASSWORD, host: str = "home.lan", *, client: str = "10.0.0.7"
    ) -> httpx.Response:
        form = {"token": await self.token(host), "password": password}
        return await self.post(form, host, client=client)

    @staticmethod
    def _caddy(host: str, client: str) -> dict[str, str]:
        return {"X-Forwarded-Host": host, "X-Forwarded-For": client, "Host": host}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What systemd and Hearth put on the machine: configuration, credentials, state."""
    (tmp_path / "login.json").write_text(json.dumps(CONFIG))
    (tmp_path / "consumer_keys").write_text(json.dumps(KEYS))
    (tmp_path / "house_password").write_text(PASSWORD + "\n")
    (tmp_path / "cookie_secret").write_text("s" * 43)
    return tmp_path


@pytest.fixture
def config(folder: Path) -> Config:
    return load_config(folder / "login.json")


@pytest.fixture
def credentials(folder: Path, config: Config) -> Credentials:
    return load_credentials(folder, config.consumers)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Stand still for buckets and for cookies alike."""
    clock = Clock()
    monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda _: int(clock.at))
    return clock


@pytest.fixture
def opened(folder: Path, clock: Clock) -> Callable[[], httpx.AsyncClient]:
    """Start the login again with each call, from the folder's present contents."""

    def start() -> httpx.AsyncClient:
        config = load_config(folder / "login.json")
        credentials = load_credentials(folder, config.consumers)
        state = make_state(
            config, credentials, EndedSessions(folder / "sessions.json", clock), clock
        )
        transport = httpx.ASGITransport(app=_checked(make_app(state)))
        return httpx.AsyncClient(transport=transport, base_url="https://127.0.0.1:9180")

    return start


@pytest.fixture
async def login(opened: Callable[[], httpx.AsyncClient]) -> AsyncIterator[LoginClient]:
    async with opened() as client:
        yield LoginClient(client)


def _checked(app: Any) -> Any:
    """No answer at all may be a failure of ours."""

    async def checked(scope: Any, receive: Any, send: Any) -> None:
        async def watch(message: Any) -> None:
            assert message.get("status", 200) < 500, message
            await send(message)

        await app(scope, receive, watch)

    return checked
