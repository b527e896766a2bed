"""The client of the house's agents: gives one a task, and yields its steps and its answer."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from hearth.catalogue.house import House, Site
from hearth.clients import ClientError
from hearth.clients.endpoints import Edge, one_line, sse

PATH = "/v1/chat/completions"
# Before the name of an agent where it is a model beside others.
_PREFIX = "agent-"
# A run may wait for a person as long as an approval is valid, and for several in turn.
_WAITING_S = 3600.0
_CALL_S = 20.0


@dataclass(frozen=True, slots=True)
class Update:
    """A step of a run, or a piece of its answer; what it has used comes last."""

    text: str = ""
    step: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None


def site_of(house: House) -> Site:
    """Return the name on the LAN under which the agents are called."""
    for service in house.offering("agents"):
        if service.sites:
            return service.sites[0]
    raise ClientError(
        "this house has no agents: remove `agents: {enabled: false}` from "
        "inventory/local/services.yml, then run `hearth up`"
    )


def offered(edge: Edge, site: Site, key: str) -> list[str]:
    """Return the names of the agents; the first one leads the team."""
    answer = edge.request(site.fqdn, "/v1/models", within_s=_CALL_S, key=key)
    if answer.status != 200:
        raise ClientError(_refused(site, answer.status, answer.body))
    try:
        return [str(model["id"]).removeprefix(_PREFIX) for model in answer.json()["data"]]
    except (ValueError, LookupError, TypeError):
        raise ClientError(f"https://{site.fqdn}/v1/models is not a list of models") from None


def play(
    edge: Edge, site: Site, key: str, agent: str, task: str, seconds: float
) -> Generator[Update, None, None]:
    """Give a task to an agent and yield what happens; closing the iterator stops the run.

    `seconds` is the limit of a run, without the time in which it waits for a person.

    Raises:
        ClientError: it was refused, it failed, or the stream ended before the answer was complete.
    """
    body = {
        "model": agent,
        "messages": [{"role": "user", "content": task}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    within_s = seconds + _WAITING_S
    with edge.stream(site.fqdn, PATH, within_s, key=key, send=body) as (response, chunks):
        if not response.is_success:
            raise ClientError(_refused(site, response.status_code, b"".join(chunks)))
        ended = False
        for event in sse(chunks):
            if error := event.get("error"):
                raise ClientError(one_line(error.get("message", error)))
            update, last = _update(event)
            ended = ended or last
            yield from update
        if not ended:
            raise ClientError(f"https://{site.fqdn} ended before the answer was complete")


def _update(event: dict[str, Any]) -> tuple[list[Update], bool]:
    """Return what an event of the stream has, and whether it is the regular end."""
    found, last = [], False
    if step := (event.get("hearth") or {}).get("step"):
        found.append(Update(step=step))
    for choice in event.get("choices") or ():
        last = last or bool(choice.get("finish_reason"))
        if text := (choice.get("delta") or {}).get("content"):
            found.append(Update(text=text))
    if usage := event.get("usage"):
        found.append(Update(usage=usage))
    return found, last


def _refused(site: Site, status: int, body: bytes) -> str:
    text = one_line(body.decode(errors="replace"))
    return f"https://{site.fqdn} answers HTTP {status}: {text}"
