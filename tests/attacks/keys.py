"""Callers without a key, with the wrong one, and with one that is not good for this verb."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from tests.attacks import attack
from tests.attacks.answers import refused

if TYPE_CHECKING:
    from tests.attacks.target import Target

GROUP = "Keys"


@attack(GROUP, "calling a verb without any key", stopped="401 before the body is read")
async def no_key(target: Target) -> None:
    refused(await target.verb("service_status", key=None), 401)


@attack(GROUP, "a guessed key", stopped="digests are compared in constant time; 401")
async def guessed_key(target: Target) -> None:
    refused(await target.verb("service_status", key="sk-hearth-default"), 401)
    refused(await target.verb("service_status", key="0p3n-w3bu!"), 401)


@attack(GROUP, "the digest of a key, as its configuration has it, used as the key", stopped="401")
async def digest_as_key(target: Target) -> None:
    digest = hashlib.sha256(target.team.encode()).hexdigest()
    refused(await target.verb("service_status", key=digest), 401)


@attack(GROUP, "the right key with another case, cut, or with a character more", stopped="401")
async def nearly_the_key(target: Target) -> None:
    for near in (target.team.swapcase(), target.team[:-1], f"{target.team}0"):
        refused(await target.verb("service_status", key=near), 401)


@attack(GROUP, "an empty key, and one of a million characters", stopped="401, or 431 by the server")
async def empty_and_endless_key(target: Target) -> None:
    refused(await target.verb("service_status", key=" "), 401)
    refused(await target.verb("service_status", key="a" * 1_000_000))


@attack(
    GROUP,
    "the right key in the query, in a cookie, and as a password of Basic",
    stopped="only `Authorization: Bearer` is read; 401",
)
async def key_in_other_places(target: Target) -> None:
    path = "/v1/verbs/service_status"
    basic = base64.b64encode(f"agents:{target.team}".encode()).decode()
    for place, headers in (
        (f"{path}?key={target.team}&api_key={target.team}", {}),
        (path, {"Cookie": f"key={target.team}; Authorization={target.team}"}),
        (path, {"Authorization": f"Basic {basic}"}),
        (path, {"X-Api-Key": target.team}),
    ):
        refused(await target.send("POST", place, headers=headers, json={}), 401)


@attack(
    GROUP,
    "two Authorization headers: first a key with few verbs, then one with all",
    stopped="a request with two is refused; never the second key's verbs",
)
async def two_keys(target: Target) -> None:
    headers = [
        ("Authorization", f"Bearer {target.reader}"),
        ("Authorization", f"Bearer {target.team}"),
    ]
    answer = await target.send("POST", "/v1/verbs/restart", headers=headers, json=target.restart)
    refused(answer)
    answer = await target.send(
        "POST", "/v1/verbs/restart", headers=headers[::-1], json=target.restart
    )
    refused(answer)


@attack(
    GROUP,
    "a key for reading, used for verbs that change the house",
    stopped="verbs are listed per key; 403",
)
async def key_without_the_verb(target: Target) -> None:
    for name, arguments in (
        ("restart", target.restart),
        ("propose", target.harmless),
        ("sandbox_create", {"service": "kokoro"}),
        ("run_code", {"language": "python", "code": "1"}),
    ):
        refused(await target.verb(name, arguments, key=target.reader))
    assert not target.proposals()


@attack(
    GROUP,
    "the same by MCP: a tool that is not in the key's list",
    stopped="the list shows only its own tools, and a call of another is refused",
)
async def tool_without_the_verb(target: Target) -> None:
    tools = await target.tools(key=target.reader)
    assert "service_status" in tools
    assert not {"restart", "propose", "run_code"} & tools
    assert (await target.mcp("restart", target.restart, key=target.reader)).failed
    assert not target.proposals()


@attack(
    GROUP,
    "MCP without a key, and with a wrong one",
    stopped="401 for every method, the handshake included",
)
async def mcp_without_a_key(target: Target) -> None:
    for key in (None, "wrong"):
        for method in ("initialize", "tools/list", "tools/call"):
            refused(await target.rpc(method, {}, key=key), 401)


@attack(
    GROUP,
    "a verb that does not exist, and names of Python's own (`__class__`, `run`)",
    stopped="names are looked up in a fixed table; 404",
)
async def unknown_verbs(target: Target) -> None:
    for name in ("shell", "container_run", "__class__", "run", "approve", "restart "):
        refused(await target.verb(name))


@attack(
    GROUP,
    "a page of another site that calls the broker with a victim's browser (DNS rebinding: Host "
    "and Origin of the attacker)",
    stopped="no cookie counts, and no CORS header is sent: a page cannot send the key",
)
async def foreign_page(target: Target) -> None:
    headers = {"Origin": "https://evil.example", "Host": "evil.example", "Cookie": "login=1"}
    answer = await target.send("POST", "/v1/verbs/service_status", headers=headers, json={})
    refused(answer)
    assert "access-control-allow-origin" not in answer.headers
    answer = await target.rpc("tools/list", {}, key=None, headers=headers)
    refused(answer)
    preflight = await target.send("OPTIONS", "/v1/verbs/restart", headers=headers)
    assert "access-control-allow-origin" not in preflight.headers
