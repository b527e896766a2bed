"""What LiteLLM asks who calls: the second lock behind our own front."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hearth_gateway.settings import Consumer, House

if TYPE_CHECKING:
    from starlette.requests import Request

# The front leaves here which names this one request may reach (an alias opens its member).
GRANT = "hearth.grant"
# LiteLLM takes an empty list for "everything"; this word of its own means nothing at all.
NOTHING = "no-default-models"
_installed: list[House] = []


def install(house: House) -> None:
    """Make `house` the one that `user_api_key_auth` asks."""
    _installed[:] = [house]


async def user_api_key_auth(request: Request, api_key: str) -> Any:
    """Return LiteLLM's record of the consumer whose key this is, or refuse with 401."""
    from litellm.proxy._types import ProxyException, UserAPIKeyAuth

    house = _installed[0]
    consumer = house.consumer(api_key or "")
    own = consumer is None and house.is_own(api_key or "")
    if own:
        consumer = Consumer("gateway", b"", frozenset(house.names))
    if consumer is None:
        raise ProxyException(
            message="wrong or missing API key", type="auth_error", param="key", code=401
        )
    # The key itself stays here: LiteLLM logs and caches by what it is given.
    return UserAPIKeyAuth(
        api_key=f"consumer-{consumer.name}",
        key_alias=consumer.name,
        user_id=consumer.name,
        models=_models(request, consumer),
        # Only the warm-up call may have its answer made up; it must load no model.
        metadata={"consumer": consumer.name, "allow_client_mock_response": own},
    )


def _models(request: Request, consumer: Consumer) -> list[str]:
    granted = request.scope.get(GRANT)
    names = consumer.names if granted is None else granted
    return sorted(names) or [NOTHING]
