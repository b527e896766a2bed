"""The existing paths, and the parameters that must not reach LiteLLM."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from .chats import CHAT, MESSAGES, chat
from .conftest import Gateway
from .house import KEYS, MASTER_KEY
from .upstream import Upstream

CLOSED = [
    "/",
    "/ui",
    "/ui/",
    "/login",
    "/sso/key/generate",
    "/docs",
    "/redoc",
    "/openapi.json",
    "/routes",
    "/health",
    "/health/services",
    "/health/history",
    "/key/generate",
    "/key/info",
    "/key/list",
    "/user/new",
    "/team/new",
    "/model/new",
    "/model/info",
    "/v1/model/info",
    "/config/update",
    "/get/config/callbacks",
    "/spend/logs",
    "/global/spend",
    "/debug",
    "/v1/messages/count_tokens",
    "/v1/files",
    "/v1/batches",
    "/v1/audio/speech",
    "/v1/images/generations",
    "/v1/assistants",
    "/chat/completions",
    "/completions",
    "/embeddings",
    "/models",
    "/openai/deployments/good/chat/completions",
    "/engines/good/chat/completions",
    "/mcp",
    "/mcp/",
    "/anthropic/v1/messages",
    "/utils/token_counter",
    "/v1/chat/completions/",
    "/v1/../key/generate",
    "//v1/models",
    "/V1/models",
    "/v1/models%00",
    "/health/liveliness/../services",
]


@pytest.mark.parametrize("path", CLOSED)
@pytest.mark.parametrize("key", [KEYS["owner"], MASTER_KEY])
def test_everything_else_is_404(gateway: Gateway, path: str, key: str) -> None:
    headers = {"authorization": f"Bearer {key}"}
    for method in ("GET", "POST"):
        answer = httpx.request(method, gateway.url + path, headers=headers, trust_env=False)
        # On an existing path a wrong key may be 401; nothing is ever served.
        assert answer.status_code in ({404, 401} if key == MASTER_KEY else {404}), (method, path)
        assert answer.json()["error"]["code"] in {"not_found", "invalid_api_key", "model_not_found"}


@pytest.mark.parametrize("path", ["/health/liveliness", "/health/readiness"])
def test_health_needs_no_key_and_calls_no_model(
    gateway: Gateway, upstream: Upstream, path: str
) -> None:
    before = len(upstream.calls)
    assert httpx.get(gateway.url + path, trust_env=False).status_code == 200
    assert httpx.post(gateway.url + path, trust_env=False).status_code == 404
    assert len(upstream.calls) == before


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 400), (b"[]", 400), (b"{", 400), (b"{}", 400), (b'{"model": 3}', 400), (b"\xff", 400)],
)
def test_an_invalid_body_is_400(owner: httpx.Client, body: bytes, status: int) -> None:
    answer = owner.post(CHAT, content=body)
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "order",
    [
        {"mock_response": "made up"},
        {"api_base": "http://127.0.0.1:9/v1"},
        {"base_url": "http://127.0.0.1:9/v1"},
        {"api_key": "stolen"},
        {"fallbacks": ["slow"]},
        {"timeout": 0.001},
        {"num_retries": 5},
        {"mock_testing_fallbacks": True},
        {"extra_headers": {"x-evil": "1"}},
        {"metadata": {"tags": ["a"]}},
        {"user_config": {"model_list": []}},
        {"Model": "slow"},
        {"specific_deployment": True},
        {"litellm_metadata": {"tags": ["a"]}},
        {"custom_llm_provider": "anthropic"},
        {"deployment_id": "slow"},
        {"guardrails": ["none"]},
        {"prompt_id": "other"},
        {"cache": {"no-cache": True}},
        {"allowed_openai_params": ["x"]},
        {"proxy_server_request": {"url": "http://there"}},
        # A provider's own, such as OpenRouter's list of models to fall back to.
        {"models": ["vendor/costly"], "route": "fallback"},
        {"plugins": [{"id": "web"}], "provider": {"order": ["there"]}},
        {"store": True, "service_tier": "priority"},
    ],
)
def test_a_body_cannot_control_litellm(
    owner: httpx.Client, upstream: Upstream, order: dict[str, Any]
) -> None:
    before = len(upstream.requests_for("good"))
    answer = chat(owner, "fast", **order)
    assert (answer.text, answer.member) == ("one two three four", "good")
    assert len(upstream.requests_for("good")) == before + 1
    assert not set(order) & set(upstream.requests_for("good")[-1])


@pytest.mark.parametrize(
    "content_type",
    [
        *("text/x", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""),
        *("application/octet-stream", "application/json; charset=utf-16"),
    ],
)
def test_a_header_cannot_control_litellm(
    guest: httpx.Client, upstream: Upstream, content_type: str
) -> None:
    before = len(upstream.calls)
    headers = {
        "x-litellm-timeout": "0.001",
        "x-litellm-num-retries": "5",
        "x-litellm-model": "slow",
        "x-litellm-tags": "slow",
        "litellm_user_api_key": "other",
        "api-key": "other",
        "x-http-method-override": "GET",
        "x-original-url": "/key/generate",
        "content-type": content_type,
    }
    answer = guest.post(
        f"{CHAT}?model=slow&api_base=http://there&deployment_id=slow&api-version=1",
        json={"model": "fast", "messages": MESSAGES},
        headers=headers,
    )
    assert answer.status_code == 200
    assert answer.headers["x-hearth-model"] == "good"
    assert [model for model, _ in upstream.calls[before:]] == ["good"]
    assert not [name for name in answer.headers if name.startswith(("x-litellm", "llm_provider"))]


@pytest.mark.parametrize(
    ("first", "last", "status"), [("slow", "fast", 200), ("fast", "slow", 403)]
)
def test_of_a_duplicate_field_the_checked_one_is_used(
    guest: httpx.Client, upstream: Upstream, first: str, last: str, status: int
) -> None:
    before = len(upstream.calls)
    body = f'{{"model": "{first}", "messages": {json.dumps(MESSAGES)}, "model": "{last}"}}'
    assert guest.post(CHAT, content=body).status_code == status
    assert [model for model, _ in upstream.calls[before:]] == (["good"] if status == 200 else [])


def test_an_answer_that_is_stored_nowhere_cannot_be_continued(owner: httpx.Client) -> None:
    body = {"model": "fast", "input": "And then?", "previous_response_id": "resp_1"}
    answer = owner.post("/v1/responses", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "not_stored"


def test_a_caller_cannot_forge_a_line_of_the_log(gateway: Gateway, owner: httpx.Client) -> None:
    forged = "consumer=forged status=200"
    headers = {"user-agent": f"x\t{forged}", "content-type": "application/json"}
    for path in (f"/v1/x%0a{forged}%0d%0a{forged}%00%1b[2J%e2%80%a8", f"/v1/models/%0A{forged}"):
        owner.get(path.replace(" ", "%20"), headers=headers)
    chat(owner, f"fast\n{forged}\r\x1b[2J\u2028")
    lines = [line for line in gateway.log_file.read_text().split("\n") if "consumer=" in line]
    assert len(lines) > 2
    assert all(line.startswith("consumer=") and line.isprintable() for line in lines)
    assert not [line for line in lines if line.startswith("consumer=forged")]


def test_the_log_contains_no_key_and_no_text(gateway: Gateway, owner: httpx.Client) -> None:
    secret = "a-text-that-must-stay-secret"
    for model in ("fast", "500-plain", "crash"):
        chat(owner, model, messages=[{"role": "user", "content": secret}])
    written = gateway.log_file.read_text()
    assert "consumer=owner" in written
    assert not [word for word in (secret, MASTER_KEY, *KEYS.values()) if word in written]


def test_the_process_has_no_secret_in_its_environment(gateway: Gateway) -> None:
    with open(f"/proc/{gateway.process.pid}/environ", "rb") as file:
        environ = file.read().decode()
    assert "CREDENTIALS_DIRECTORY" in environ
    assert not [word for word in (MASTER_KEY, *KEYS.values()) if word in environ]
