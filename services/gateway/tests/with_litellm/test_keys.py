"""Authentication, and the models of each key."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from .chats import CHAT, MESSAGES, chat
from .conftest import Gateway, environment
from .house import KEYS, MASTER_KEY
from .upstream import Upstream

ASK = {"model": "fast", "messages": MESSAGES}


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer wrong", f"Bearer {MASTER_KEY}", f"Basic {KEYS['owner']}", "Bearer ü"],
)
@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/v1/embeddings"])
def test_a_wrong_key_is_401(gateway: Gateway, header: str, path: str) -> None:
    method = "GET" if path == "/v1/models" else "POST"
    headers = [(b"authorization", header.encode())] if header else []
    answer = httpx.request(method, gateway.url + path, headers=headers, json=ASK, trust_env=False)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"


def test_the_log_names_the_consumer(gateway: Gateway, guest: httpx.Client) -> None:
    seen = len(gateway.lines())
    assert chat(guest, "fast").text == "one two three four"
    line = gateway.line_after(seen, "fast")
    assert (line["consumer"], line["alias"]) == ("guest", '"fast"')


@pytest.mark.parametrize("model", ["good", "forever", "no-such-model", "openai/good", "*"])
def test_a_name_outside_the_list_is_403_and_reaches_no_member(
    guest: httpx.Client, upstream: Upstream, model: str
) -> None:
    before = len(upstream.calls)
    answer = chat(guest, model)
    assert answer.status == 403
    assert answer.error is not None
    assert answer.error["code"] == "model_not_allowed"
    assert len(upstream.calls) == before


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings"])
def test_a_model_in_the_query_string_is_not_used(
    guest: httpx.Client, owner: httpx.Client, upstream: Upstream, path: str
) -> None:
    client, alias, member = (guest, "fast", "good") if path == CHAT else (owner, "embed", "vectors")
    body = {"model": alias, "messages": MESSAGES, "input": "a"}
    before = len(upstream.calls)
    answer = client.post(f"{path}?model=llama3.1", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-hearth-model"] == member
    assert [model for model, _ in upstream.calls[before:]] == [member]


def test_the_list_has_only_the_models_of_the_key(owner: httpx.Client, guest: httpx.Client) -> None:
    assert [entry["id"] for entry in guest.get("/v1/models").json()["data"]] == ["fast", "hear"]
    assert {"fast", "good", "embed"} <= {e["id"] for e in owner.get("/v1/models").json()["data"]}
    assert guest.get("/v1/models/fast").json()["id"] == "fast"
    assert guest.get("/v1/models/good").status_code == 404


def test_a_key_without_models_has_no_access(gateway: Gateway) -> None:
    headers = {"authorization": f"Bearer {KEYS['nobody']}"}
    with httpx.Client(base_url=gateway.url, headers=headers, trust_env=False) as nobody:
        assert nobody.get("/v1/models").json()["data"] == []
        assert chat(nobody, "fast").status == 403


def test_litellm_alone_rejects_the_same_requests(settings: Path, upstream: Upstream) -> None:
    """LiteLLM alone, without the gateway, with our custom_auth."""
    before = len(upstream.calls)
    script = Path(__file__).with_name("second_lock.py")
    command = [sys.executable, "-S", str(script), str(settings), json.dumps(KEYS)]
    done = subprocess.run(
        command, env=environment(settings), capture_output=True, text=True, timeout=120, check=False
    )
    statuses = json.loads(done.stdout.splitlines()[-1])
    assert statuses == {
        "wrong key": 401,
        "no key": 401,
        "guest, another's model": 403,
        "guest, granted for this request": 200,
        "nobody, any model": 403,
        "owner, own model": 200,
    }
    assert len(upstream.calls) == before + 2
