"""The broker's verbs: their schemas, and calls with a deadline and a bound of size."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

import httpx

from hearth_agents.brought import Brought
from hearth_agents.outside import HOUSE

CONNECT_S = 3
# The preview of a proposal takes the longest, up to 310 s in the broker.
CALL_S = 330
DESCRIBE_S = 4
# The broker cuts its texts at 64 KiB; JSON may write a character in six bytes.
MAX_BYTES = 1024 * 1024
_MAX_DOCUMENT = 4 * 1024 * 1024
_NOT_PLAIN = re.compile(r"[^\w:.-]", re.ASCII)


class BrokerGone(Exception):
    """The broker does not answer; one line for a person."""


class VerbRefused(Exception):
    """The broker refused this call; one line for the model and the person, and who wrote it."""

    def __init__(self, line: str, status: int = 0, origin: str = HOUSE) -> None:
        super().__init__(line)
        self.status, self.origin = status, origin


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb as the broker describes it."""

    name: str
    summary: str
    schema: dict[str, Any]
    path: str
    waits: bool
    """Whether it only proposes a change, which a person then approves."""


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf a verb is called."""

    agent: str
    run: str
    chat: str
    client: str = ""
    """The consumer whose task it is."""
    person: str = ""

    def headers(self) -> dict[str, str]:
        """Return the headers that the broker shows and logs."""
        headers = {
            "X-Hearth-Agent": _plain(self.agent),
            "X-Hearth-Run": _plain(self.run),
            "X-Hearth-Chat": _plain(self.chat),
            "X-Hearth-Client": _plain(self.client),
        }
        return headers | ({"X-Hearth-Person": quote(self.person)} if self.person else {})


@dataclass(frozen=True, slots=True)
class Reply:
    """A verb's answer; `origin` says who wrote its text."""

    text: str
    data: Any
    origin: str


class Broker:
    """A client of the broker, with one key."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url.rstrip("/")
        self._client = httpx.AsyncClient(
            base_url=self._url,
            headers={"authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(CALL_S, connect=CONNECT_S),
            trust_env=False,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def verbs(self) -> dict[str, Verb]:
        """Return what this key may call, by name; raises BrokerGone."""
        body, status = await self._exchange("GET", "/openapi.json", DESCRIBE_S, _MAX_DOCUMENT)
        if status != 200:
            raise BrokerGone(f"the broker at {self._url} does not describe itself (HTTP {status})")
        try:
            return read_verbs(json.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise BrokerGone(f"the description of the broker at {self._url} is not valid") from None

    async def call(self, verb: Verb, arguments: Mapping[str, Any], caller: Caller) -> Reply:
        """Call a verb; raises VerbRefused with the broker's line, or BrokerGone."""
        body, status = await self._exchange(
            "POST", verb.path, CALL_S, MAX_BYTES, json=arguments, headers=caller.headers()
        )
        try:
            content = json.loads(body)
        except ValueError:
            content = None
        if status != 200 or not isinstance(content, dict):
            line, origin = _error_line(content, status, verb.name)
            raise VerbRefused(line, status, origin)
        return Reply(
            text=str(content.get("text", "")),
            data=content.get("data"),
            origin=_origin(content, verb.name),
        )

    async def report(self, brought: Sequence[Brought], caller: Caller) -> None:
        """Tell what a run was given by others; raises VerbRefused or BrokerGone."""
        body, status = await self._exchange(
            "POST",
            "/v1/reads",
            DESCRIBE_S,
            MAX_BYTES,
            json={"reads": [asdict(one) for one in brought]},
            headers=caller.headers(),
        )
        if status != 200:
            text = body[:2000].decode(errors="replace")
            line = f"the broker does not take what was read (HTTP {status}): {text}"
            raise VerbRefused(" ".join(line.split())[:500], status)

    async def _exchange(
        self, method: str, path: str, within_s: float, max_bytes: int, **request: Any
    ) -> tuple[bytes, int]:
        try:
            async with (
                asyncio.timeout(within_s),
                self._client.stream(method, path, **request) as response,
            ):
                content = bytearray()
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > max_bytes:
                        line = f"its answer was longer than {max_bytes >> 10} KiB and was dropped"
                        raise VerbRefused(line)
                return bytes(content), response.status_code
        except TimeoutError:
            raise BrokerGone(
                f"the broker at {self._url} did not answer within {within_s:g} s"
            ) from None
        except httpx.HTTPError as error:
            raise BrokerGone(
                f"the broker at {self._url} does not answer ({type(error).__name__})"
            ) from None


def read_verbs(document: Mapping[str, Any]) -> dict[str, Verb]:
    """Return the verbs of an OpenAPI document, each with a schema that stands alone."""
    definitions = document.get("components", {}).get("schemas", {})
    found = {}
    for path, methods in document["paths"].items():
        operation = methods.get("post")
        if not operation or "operationId" not in operation:
            continue
        content = operation.get("requestBody", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema", {})
        name = str(operation["operationId"])
        found[name] = Verb(
            name=name,
            summary=str(operation.get("description") or operation.get("summary") or name),
            schema=_alone(schema, definitions),
            path=str(path),
            waits="change" in operation.get("tags", ()),
        )
    return found


def _alone(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's schema with every reference replaced by what it refers to."""

    def resolve(node: Any, above: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [resolve(one, above) for one in node]
        if not isinstance(node, dict):
            return node
        if reference := node.get("$ref"):
            name = str(reference).rpartition("/")[2]
            # A schema that holds itself cannot be written out; its inner copy stays open.
            return resolve(definitions[name], (*above, name)) if name not in above else {}
        return {key: resolve(value, above) for key, value in node.items() if key != "$defs"}

    local = schema.get("$defs", {})
    definitions = {**definitions, **local}
    resolved = resolve(dict(schema), ())
    return {"type": "object", "properties": {}, **resolved}


def _origin(content: Mapping[str, Any], verb: str) -> str:
    origin = content.get("origin")
    # What does not say where it came from is not trusted.
    return origin if isinstance(origin, str) and origin else f"outside: {verb}"


def _error_line(content: Any, status: int, verb: str) -> tuple[str, str]:
    """Return the line of an error, and who wrote it."""
    error = content.get("error") if isinstance(content, dict) else None
    if not isinstance(error, dict) or not error.get("message"):
        return f"{verb} failed with HTTP {status}", HOUSE
    return " ".join(str(error["message"]).split())[:500], _origin(error, verb)


def _plain(text: str) -> str:
    return _NOT_PLAIN.sub("_", text)[:100]
