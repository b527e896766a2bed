"""The digest of a model's manifest in a registry, as Ollama's is."""

import asyncio
import hashlib
import re
from collections.abc import Mapping

import httpx

from hearth.sources.download import system_trust
from hearth.sources.errors import SourceError
from hearth.sources.model import address_of, shown
from hearth.sources.transfer import is_page

REGISTRY = "registry.ollama.ai"
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_LIMIT_S = 30.0
_LIMIT_BYTES = 1 << 20


def manifest_address(model_id: str) -> str:
    """Where the manifest of `[host/][namespace/]name[:tag]` lies."""
    path, _, tag = model_id.partition(":")
    parts = path.split("/")
    host = parts.pop(0) if len(parts) > 1 and "." in parts[0] else REGISTRY
    name = "/".join(parts if len(parts) > 1 else ["library", *parts])
    if not re.fullmatch(r"[\w./-]+", name) or not re.fullmatch(r"[\w.-]*", tag):
        raise SourceError(f"model {model_id!r}: write a registry name as qwen3.5:4b")
    return f"https://{host}/v2/{name}/manifests/{tag or 'latest'}"


def manifest_digest(model_id: str, mirrors: Mapping[str, str]) -> str:
    """The "sha256:…" of the manifest's bytes as the registry serves them now."""
    address = address_of(manifest_address(model_id), mirrors)
    try:
        body = asyncio.run(_get(address))
    except TimeoutError:
        raise SourceError(
            f"model {model_id} from {shown(address)}: no answer in {_LIMIT_S:g} s: try again later"
        ) from None
    except httpx.HTTPStatusError as error:
        raise SourceError(
            f"model {model_id} from {shown(address)}: it answered {error.response.status_code}: "
            "see whether models.yml names it as the registry does"
        ) from None
    except httpx.HTTPError as error:
        raise SourceError(
            f"model {model_id} from {shown(address)}: no answer ({error}): see whether this "
            "machine reaches it, or name a mirror prefix in inventory/local/sources.lock.yml"
        ) from None
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


async def _get(address: str) -> bytes:
    headers = {"Accept": _MANIFEST, "User-Agent": "hearth"}
    async with (
        asyncio.timeout(_LIMIT_S),
        httpx.AsyncClient(verify=system_trust(), follow_redirects=True) as client,
        client.stream("GET", address, headers=headers) as response,
    ):
        response.raise_for_status()
        if is_page(response):
            # Its digest would be believed ever after.
            raise httpx.DecodingError("a web page came, not a manifest")
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _LIMIT_BYTES:
                raise httpx.DecodingError("a manifest of more than 1 MiB")
        return body
