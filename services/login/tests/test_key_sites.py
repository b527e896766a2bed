"""Sites for programs: which key is valid for which service."""

import hmac
from typing import Any

import pytest

from hearth_login.credentials import Keyring

KEY = "webui-key-" + "0123456789" * 3


async def test_correct_key_passes_and_names_its_consumer(login: Any) -> None:
    answer = await login.check(key=KEY)
    assert (answer.status_code, answer.headers["x-hearth-consumer"]) == (204, "webui")
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER "])
async def test_scheme_is_parsed_as_http_specifies(login: Any, scheme: str) -> None:
    assert (await login.check(Authorization=f"{scheme} {KEY}")).status_code == 204


@pytest.mark.parametrize(
    "header", [KEY, f"Basic {KEY}", "Bearer", "Bearer ", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", ""]
)
async def test_anything_else_is_401_in_openai_format(login: Any, header: str) -> None:
    answer = await login.check(Authorization=header)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="llm.lan"'
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["code"] == "invalid_api_key"
    assert "x-hearth-consumer" not in answer.headers


async def test_missing_key_is_401_also_for_a_browser(login: Any) -> None:
    answer = await login.check(Accept="text/html")
    assert answer.status_code == 401


async def test_correct_key_for_another_service_is_403(login: Any) -> None:
    answer = await login.check(key="status-key-" + "0123456789" * 3)
    assert answer.status_code == 403
    assert answer.json()["error"]["message"] == "status may not use litellm"


async def test_a_path_of_a_shared_name_needs_the_key_of_its_service(login: Any) -> None:
    both = "agents-key-" + "0123456789" * 3
    assert (await login.check(key=both, query="?service=kokoro")).status_code == 204
    answer = await login.check(key=KEY, query="?service=kokoro")
    assert answer.json()["error"]["message"] == "webui may not use kokoro"
    # No client sets it; and what does not share this name opens nothing.
    for query in ("?service=prometheus", "?service=", "?service=kokoro2"):
        assert (await login.check(key=KEY, query=query)).status_code == 204
    uri = "/v1/models?service=kokoro"
    assert (await login.check(key=KEY, uri=uri)).status_code == 204


@pytest.mark.parametrize("host", ["llm.lan", "home.lan"])
async def test_a_service_of_the_house_gets_403_everywhere(login: Any, host: str) -> None:
    answer = await login.check(host, key="chat-key-" + "0123456789" * 3)
    assert answer.status_code == 403
    message = "the key of chat is for use inside the house"
    assert answer.json()["error"]["message"] == message


async def test_key_without_a_consumer_is_not_valid(login: Any, folder: Any, opened: Any) -> None:
    stored = (folder / "consumer_keys").read_text()
    (folder / "consumer_keys").write_text(stored[:-1] + ', "gone": "gone-key-and-long-enough"}')
    async with opened() as client:
        login.client = client
        assert (await login.check(key="gone-key-and-long-enough")).status_code == 401


async def test_cookie_is_not_valid_for_key_sites(login: Any) -> None:
    assert (await login.sign_in()).status_code == 303
    assert (await login.check("home.lan")).status_code == 204
    assert (await login.check("llm.lan")).status_code == 401


async def test_two_keys_at_once_are_rejected(login: Any) -> None:
    headers = [
        ("X-Forwarded-Host", "llm.lan"),
        ("Authorization", f"Bearer {KEY}"),
        ("Authorization", "Bearer other"),
    ]
    answer = await login.client.get("/check", headers=headers)
    assert answer.status_code == 401


@pytest.mark.parametrize("host", ["chat.lan", "other.lan", "10.0.0.1", "", "llm.lan.evil.example"])
async def test_name_without_the_login_is_421(login: Any, host: str) -> None:
    assert (await login.check(host, key=KEY)).status_code == 421


@pytest.mark.parametrize("host", ["LLM.lan", "llm.lan.", "llm.lan:8443"])
async def test_host_is_parsed_as_http_specifies(login: Any, host: str) -> None:
    assert (await login.check(host, key=KEY)).status_code == 204


async def test_two_hosts_are_rejected(login: Any) -> None:
    headers = [("X-Forwarded-Host", "llm.lan"), ("X-Forwarded-Host", "home.lan")]
    assert (await login.client.get("/check", headers=headers)).status_code == 421


async def test_host_header_is_ignored(login: Any) -> None:
    headers = {"Host": "llm.lan", "Authorization": f"Bearer {KEY}"}
    assert (await login.client.get("/check", headers=headers)).status_code == 421


@pytest.mark.parametrize("owner", ["first", "second", "third", None])
def test_every_key_is_compared_by_digest_found_or_not(
    monkeypatch: pytest.MonkeyPatch, owner: str | None
) -> None:
    names = ("first", "second", "third")
    ring = Keyring({name: f"key of {name}" for name in names})
    seen: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def counted(left: bytes, right: bytes) -> bool:
        seen.append((left, right))
        return compare(left, right)

    monkeypatch.setattr("hearth_login.credentials.hmac.compare_digest", counted)
    assert ring.owner(f"key of {owner}") == owner
    assert len(seen) == len(names)
    assert {len(digest) for pair in seen for digest in pair} == {32}
