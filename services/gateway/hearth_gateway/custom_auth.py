"""LiteLLM's authentication: only the middleware may call it, and for one model at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hearth_gateway.settings import GatewayConfig

if TYPE_CHECKING:
    from starlette.requests import Request

# The middleware puts the models for this one request here.
GRANT = "hearth.grant"
# Whether this is the warm-up call, which must load no model: its answer is made up.
WARM = "hearth.warm"
# For LiteLLM an empty list means every model; this value means none.
NOTHING = "no-default-models"
_installed: list[GatewayConfig] = []


def install(config: GatewayConfig) -> None:
    """Let `user_api_key_auth` use `config`."""
    _installed[:] = [config]


async def user_api_key_auth(request: Request, api_key: str) -> Any:
    """Return LiteLLM's record of the middleware, or reject any other caller with 401.

    The keys of consumers end at the middleware: LiteLLM could log, cache or pass them on.
    """
    from litellm.proxy._types import ProxyException, UserAPIKeyAuth

    if not _installed[0].is_own(api_key or ""):
        raise ProxyException(
            message="wrong or missing API key", type="auth_error", param="key", code=401
        )
    return UserAPIKeyAuth(
        # The key itself stays here: LiteLLM logs and caches this value.
        api_key="gateway",
        key_alias="gateway",
        models=sorted(request.scope.get(GRANT) or {NOTHING}),
        metadata={"allow_client_mock_response": request.scope.get(WARM) is True},
    )
