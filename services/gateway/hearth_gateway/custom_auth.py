"""LiteLLM's authentication: the second check, behind our own middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hearth_gateway.settings import Consumer, GatewayConfig

if TYPE_CHECKING:
    from starlette.requests import Request

# The middleware puts the names for this one request here (an alias opens its member).
GRANT = "hearth.grant"
# For LiteLLM an empty list means every model; this value means none.
NOTHING = "no-default-models"
_installed: list[GatewayConfig] = []


def install(config: GatewayConfig) -> None:
    """Let `user_api_key_auth` use `config`."""
    _installed[:] = [config]


async def user_api_key_auth(request: Request, api_key: str) -> Any:
    """Return LiteLLM's record of the consumer whose key this is, or reject it with 401."""
    from litellm.proxy._types import ProxyException, UserAPIKeyAuth

    config = _installed[0]
    consumer = config.consumer(api_key or "")
    own = consumer is None and config.is_own(api_key or "")
    if own:
        consumer = Consumer("gateway", b"", frozenset(config.names))
    if consumer is None:
        raise ProxyException(
            message="wrong or missing API key", type="auth_error", param="key", code=401
        )
    # The key itself stays here: LiteLLM logs and caches this value.
    return UserAPIKeyAuth(
        api_key=f"consumer-{consumer.name}",
        key_alias=consumer.name,
        user_id=consumer.name,
        models=_models(request, consumer),
        # Only the warm-up call may have a made-up answer; it must load no model.
        metadata={"consumer": consumer.name, "allow_client_mock_response": own},
    )


def _models(request: Request, consumer: Consumer) -> list[str]:
    granted = request.scope.get(GRANT)
    names = consumer.names if granted is None else granted
    return sorted(names) or [NOTHING]
