"""Caddy's question: may this request go on to its service, and whose is it?"""

from dataclasses import dataclass
from urllib.parse import quote

from .edge import Asked
from .house import House


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one question: a status, and what belongs to it."""

    status: int
    consumer: str | None = None
    reason: str = ""
    location: str = ""
    retry_s: int = 0


def decide(house: House, asked: Asked) -> Verdict:
    """Judge one request by its site's `auth`; a name that we do not guard gets 421."""
    if house.guards(asked.host, "key"):
        return _by_key(house, asked)
    if house.guards(asked.host, "house"):
        return _by_cookie(house, asked)
    return Verdict(421, reason="no site of this name asks for the login")


def _by_cookie(house: House, asked: Asked) -> Verdict:
    # The cookie first: pages of a signed-in browser use the Authorization header for themselves.
    if house.sessions.holder(asked.host, asked.cookie) is not None:
        if asked.from_elsewhere:
            return Verdict(403, reason="another site's page sent this")
        return Verdict(204)
    if asked.key is None and asked.navigates:
        return Verdict(302, location="/hearth-login/?next=" + quote(asked.uri or "/", safe=""))
    return _by_key(house, asked)


def _by_key(house: House, asked: Asked) -> Verdict:
    if asked.key is None:
        return Verdict(401, reason="a key is missing; send it as 'Authorization: Bearer KEY'")
    consumer = house.keyring.owner(asked.key)
    # The right key passes however many wrong ones came from its address: keys are too long to be
    # found by trying, and one program's old key must not lock out its neighbour's good one.
    if consumer is None:
        return _wrong_key(house, asked)
    service = house.config.sites[asked.host].service
    if service not in house.config.consumers[consumer]:
        return Verdict(403, consumer, reason=f"{consumer} may not use {service}")
    return Verdict(204, consumer)


def _wrong_key(house: House, asked: Asked) -> Verdict:
    retry_s = house.wrong_keys.wait_s(asked.client)
    if retry_s:
        return Verdict(429, reason="too many wrong keys", retry_s=retry_s)
    house.wrong_keys.failed(asked.client)
    return Verdict(401, reason="this key is wrong")
