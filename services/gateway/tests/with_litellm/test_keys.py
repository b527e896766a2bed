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


@pytest.mark.parametrize(
    ("model", "status", "code"),
    [
        ("good", 403, "model_not_allowed"),
        ("forever", 403, "model_not_allowed"),
        ("no-such-model", 404, "model_not_found"),
        ("openai/good", 404, "model_not_found"),
        ("*", 404, "model_not_found"),
    ],
)
def test_a_name_outside_the_list_reaches_no_member(
    guest: httpx.Client, upstream: Upstream, model: str, status: int, code: str
) -> None:
    before = len(upstream.calls)
    answer = chat(guest, model)
    assert answer.error is not None
    assert (answer.status, answer.error["code"]) == (status, code)
    assert len(upstream.calls) == before


def test_an_unknown_name_gets_similar_ones_of_its_own_key(
    owner: httpx.Client, guest: httpx.Client
) -> None:
    def told(client: httpx.Client, model: str) -> str:
        return str((chat(client, model).error or {})["message"])

    assert told(owner, "Fats") == "no model is named 'Fats'; did you mean fast?"
    # `tools` is near, but not for this key.
    assert told(guest, "toolz") == "no model is named 'toolz'; /v1/models lists those of this key"
    assert told(owner, "toolz").endswith("did you mean tools?")


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
    mine = [entry["id"] for entry in guest.get("/v1/models").json()["data"]]
    assert mine == ["fast", "hear", "helper"]
    assert {"fast", "good", "embed"} <= {e["id"] for e in owner.get("/v1/models").json()["data"]}
    assert guest.get("/v1/models/fast").json()["id"] == "fast"
    assert guest.get("/v1/models/good").status_code == 404


def test_a_key_without_models_has_no_access(gateway: Gateway) -> None:
    headers = {"authorization": f"Bearer {KEYS['nobody']}"}
    with httpx.Client(base_url=gateway.url, headers=headers, trust_env=False) as nobody:
        assert nobody.get("/v1/models").json()["data"] == []
        assert chat(nobody, "fast").status == 403


def test_litellm_alone_rejects_all_but_the_gateway(settings: Path, upstream: Upstream) -> None:
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
        "a consumer's key": 401,
        "nothing granted": 403,
        "another model granted": 403,
        "granted": 200,
    }
    assert len(upstream.calls) == before + 1
