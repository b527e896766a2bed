"""The fields of a request that go on to a member; every other one ends here.

A field can choose another model, server, key or made-up answer, at LiteLLM (`api_base`,
`fallbacks`, `mock_response`, ...) and at a provider (`models`, `route`, `plugins`). Their lists
grow with each version, so the fields that may pass are listed, not those that may not.
"""

from __future__ import annotations

from typing import Any

from hearth_gateway.interfaces import CHAT, COMPLETIONS, MESSAGES, RESPONSES, THOUGHT
from hearth_serving.errors import ServiceError

_SAMPLING = {"temperature", "top_p", "top_k", "min_p", "seed", "user"}
_PENALTIES = {"presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias"}
_COMPLETION = _SAMPLING | _PENALTIES | {"n", "stop", "stream", "stream_options", "max_tokens"}
_TOOLS = {"tools", "tool_choice", "parallel_tool_calls"}
_CHAT = {"messages", "max_completion_tokens", "response_format", "logprobs", "top_logprobs"}
_CHAT |= {"functions", "function_call", "prediction", "modalities", "audio", "verbosity"}
_RESPONSES = {"input", "instructions", "max_output_tokens", "max_tool_calls", "stream", "text"}
_RESPONSES |= {"include", "top_logprobs", "truncation", "stream_options"}
_MESSAGES = {"messages", "system", "max_tokens", "stop_sequences", "stream", "output_config"}
_PASSED = {
    CHAT: _COMPLETION | _TOOLS | {*THOUGHT} | _CHAT,
    COMPLETIONS: _COMPLETION | {"prompt", "suffix", "echo", "best_of", "logprobs"},
    "/v1/embeddings": {"input", "dimensions", "encoding_format", "user"},
    RESPONSES: _SAMPLING | _TOOLS | {"reasoning"} | _RESPONSES,
    MESSAGES: _SAMPLING | {"tools", "tool_choice", "thinking"} | _MESSAGES,
}
# Without these an answer would be about another conversation, so they are not just dropped.
_STORED = ("previous_response_id", "conversation", "prompt")


def passed_fields(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return `model` and the fields of `body` that the interface at `path` needs.

    Raises:
        ServiceError: the request continues an answer that is stored nowhere.
    """
    stored = next((name for name in _STORED if body.get(name) is not None), None)
    if path == RESPONSES and stored:
        message = f"nothing is stored here, so `{stored}` names nothing; send everything in `input`"
        raise ServiceError(message, param=stored, code="not_stored")
    known = _PASSED[path] | {"model"}
    return {name: value for name, value in body.items() if name in known}
