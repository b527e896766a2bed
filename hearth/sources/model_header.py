"""Read the header of a registry's model without downloading the model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx

from hearth.plan import PlanError
from hearth.plan.headers import Header, header_of
from hearth.sources import SourceError, address_of
from hearth.sources.download import MANIFEST_TYPE, manifest_address, system_trust

_MODEL_LAYER = "application/vnd.ollama.image.model"
_WITHIN_S = 8.0
_MOST_MANIFEST, _MOST_HEADER = 2**20, 24 * 2**20


def registry_header(
    model_id: str,
    mirrors: Mapping[str, str],
    transport: httpx.AsyncBaseTransport | None = None,
    within_s: float = _WITHIN_S,
) -> Header:
    """Return the header of the model that a registry serves under this name.

    At most 24 MiB are read, and it ends after `within_s` seconds.

    Raises:
        PlanError: the registry is away, or has no such model.
    """
    try:
        address = address_of(manifest_address(model_id), mirrors)
        return asyncio.run(_read(model_id, address, transport, within_s))
    except SourceError as error:
        raise PlanError(str(error)) from None
    except TimeoutError:
        why = f"no answer within {within_s:g} s"
    except httpx.HTTPStatusError as error:
        why = f"HTTP {error.response.status_code}"
    except httpx.HTTPError as error:
        why = type(error).__name__
    except (ValueError, KeyError, TypeError):
        why = "its manifest is not one of a model"
    raise PlanError(f"{model_id}: the registry's header cannot be read: {why}: check the name")


async def _read(
    model_id: str, address: str, transport: httpx.AsyncBaseTransport | None, within_s: float
) -> Header:
    # httpx bounds each read, not the whole answer.
    async with (
        asyncio.timeout(within_s),
        httpx.AsyncClient(
            transport=transport, follow_redirects=True, verify=system_trust(), timeout=within_s
        ) as client,
    ):
        text = await _start(client, address, {"Accept": MANIFEST_TYPE}, _MOST_MANIFEST)
        layer = _model_layer(json.loads(text))
        blob = f"{address.partition('/manifests/')[0]}/blobs/{layer['digest']}"
        wanted = {"Range": f"bytes=0-{_MOST_HEADER - 1}"}
        start = await _start(client, blob, wanted, _MOST_HEADER)
    return header_of(start, model_id, int(layer["size"]))


async def _start(
    client: httpx.AsyncClient, address: str, headers: Mapping[str, str], most: int
) -> bytes:
    """Return the start of an answer; a server that ignores the range is cut off."""
    found = bytearray()
    async with client.stream("GET", address, headers=headers) as answer:
        answer.raise_for_status()
        async for part in answer.aiter_bytes():
            found += part
            if len(found) >= most:
                break
    return bytes(found[:most])


def _model_layer(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    for layer in manifest["layers"]:
        if layer["mediaType"] == _MODEL_LAYER:
            return dict(layer)
    raise ValueError("no model")
