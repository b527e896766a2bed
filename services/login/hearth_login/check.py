"""Decide for Caddy whether a request may pass to its service, and as which consumer."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

from .config import Config
from .credentials import Credentials, Keyring, digest
from .edge import EdgeRequest, is_own_address
from .sessions import EndedSessions, Sessions
from .throttle import Allowance, Throttle

OUTCOMES = ("done", "asked", "refused", "busy", "signed_in", "not_signed_in")
"""`asked` was sent to the form, `busy` has to wait after wrong tries."""


def outcome_of(status: int) -> str:
    """Return the name of a decision with this HTTP status."""
    return {204: "done", 302: "asked", 429: "busy"}.get(status, "refused")


@dataclass(frozen=True, slots=True)
class LoginState:
    """The configuration, the sessions and the counters of a running login."""

    config: Config
    keyring: Keyring
    password: bytes
    sessions: Sessions
    wrong_keys: Throttle
    wrong_passwords: Throttle
    sign_ins: Throttle
    requests: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(OUTCOMES, 0)))
    """How many checks and forms ended in each way, for the figures of the house."""

    def guards(self, host: str, *auths: str) -> bool:
        """Return whether this is the name of a site with one of these kinds of `auth`."""
        site = self.config.sites.get(host)
        return site is not None and site.auth in auths


def make_state(
    config: Config,
    credentials: Credentials,
    ended: EndedSessions,
    now: Callable[[], float] = time.monotonic,
) -> LoginState:
    """Assemble the login; it keeps the cookie secret, and only digests of the other secrets."""
    return LoginState(
        config=config,
        keyring=Keyring(credentials.consumer_keys),
        password=digest(credentials.house_password),
        sessions=Sessions(credentials, ended),
        wrong_keys=Throttle(Allowance(20, 3), Allowance(200, 0.1), now),
        wrong_passwords=Throttle(Allowance(5, 30), Allowance(30, 5), now),
        # At most 12 in four minutes: Open WebUI locks an account after 15, from all devices.
        sign_ins=Throttle(Allowance(7, 45), Allowance(100, 1), now),
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about one request: a status, and its details."""

    status: int
    consumer: str | None = None
    reason: str = ""
    location: str = ""
    retry_s: int = 0


def decide(state: LoginState, request: EdgeRequest) -> Verdict:
    """Decide about one request by its site's `auth`; 421 for a name without the login."""
    if state.guards(request.host, "key"):
        return _by_key(state, request)
    if state.guards(request.host, "house"):
        return _by_cookie(state, request)
    return Verdict(421, reason="no site of this name uses the login")


def admit_sign_in(state: LoginState, request: EdgeRequest) -> Verdict:
    """Count an attempt to sign in to a program with its own login; 429 after too many.

    An attempt counts before its outcome is known. The machine's own programs are not counted.
    """
    if not state.guards(request.host, "own"):
        return Verdict(421, reason="no site of this name has its own login")
    if is_own_address(request.client):
        return Verdict(204)
    retry_s = state.sign_ins.wait_s(request.client)
    if retry_s:
        reason = f"Too many tries from this device. Please wait {retry_s} seconds."
        return Verdict(429, reason=reason, retry_s=retry_s)
    state.sign_ins.failed(request.client)
    return Verdict(204)


def _by_cookie(state: LoginState, request: EdgeRequest) -> Verdict:
    # The cookie first: a page may use the Authorization header for its own purposes.
    if state.sessions.holder(request.host, request.cookie) is not None:
        if request.cross_site:
            return Verdict(403, reason="another site's page sent this")
        return Verdict(204)
    if request.key is None and request.navigates:
        return Verdict(302, location="/hearth-login/?next=" + quote(request.uri or "/", safe=""))
    return _by_key(state, request)


def _by_key(state: LoginState, request: EdgeRequest) -> Verdict:
    if request.key is None:
        return Verdict(401, reason="a key is missing; send it as 'Authorization: Bearer KEY'")
    consumer = state.keyring.owner(request.key)
    # A correct key passes despite many wrong ones from its address: keys are too long to guess,
    # and one program's old key must not lock out another program on the same address.
    if consumer is None:
        return _wrong_key(state, request)
    site, opened = state.config.sites[request.host], state.config.consumers[consumer]
    service = request.service if request.service in site.shared else site.service
    if not opened:
        return Verdict(403, consumer, reason=f"the key of {consumer} is for use inside the house")
    if service not in opened:
        return Verdict(403, consumer, reason=f"{consumer} may not use {service}")
    return Verdict(204, consumer)


def _wrong_key(state: LoginState, request: EdgeRequest) -> Verdict:
    retry_s = state.wrong_keys.wait_s(request.client)
    if retry_s:
        return Verdict(429, reason="too many wrong keys", retry_s=retry_s)
    state.wrong_keys.failed(request.client)
    return Verdict(401, reason="this key is wrong")
