"""A clock two days off, in one process of the house and in a device that connects to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from html import unescape
from urllib.parse import urlencode

import pytest
from cryptography import x509

from hearth.clients.chat import Person
from hearth.clients.endpoints import Edge
from tests.lab import chat
from tests.lab.clocks import LIBRARY, clock_of, installed
from tests.lab.house import House
from tests.lab.test_faults import keep
from tests.lab.watching import edge_of, watching

pytestmark = [pytest.mark.lab, pytest.mark.long]

DAYS, WITHIN_S = 2, 15
SITE, LOGIN = "home.lan", "/hearth-login/"
PAGE = {"Accept": "text/html"}
# Where each unit's own clock is visible: in the Date header of its response.
SHOWN = {
    "login": (SITE, LOGIN),
    "trust": ("trust.lan", "/"),
    "litellm": ("llm.lan", "/v1/models"),
    "open-webui": ("chat.lan", "/api/config"),
}
CERTIFICATE = "/etc/hearth/pki/root.crt"
ASK = {
    "curl": f"curl --silent --show-error --output /dev/null --cacert {CERTIFICATE} "
    "https://trust.lan/",
    "python": "python3 -c 'import ssl, urllib.request as r; "
    f'r.urlopen("https://trust.lan/", context=ssl.create_default_context(cafile="{CERTIFICATE}"))'
    "'",
}
CHAIN = (
    "openssl s_client -connect trust.lan:443 -servername trust.lan -showcerts </dev/null "
    f"2>/dev/null; cat {CERTIFICATE}"
)
_PEM = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


@pytest.fixture(scope="module", autouse=True)
def faketime(house: House) -> Iterator[None]:
    """Install Debian's libfaketime, and remove it at the end."""
    with installed(house):
        yield


@dataclass(frozen=True, slots=True)
class Browser:
    """A person's browser, at a page that requires the house's password."""

    edge: Edge
    password: str

    def token(self) -> str:
        """Open the form."""
        page = self.edge.request(SITE, LOGIN, within_s=WITHIN_S, headers=PAGE)
        found = re.search(r'name="token" value="([^"]+)"', page.text)
        assert found, page.text
        return unescape(found[1])

    def sign_in(self, token: str = "") -> str:
        """Send the form; return the cookie, or what the page shows."""
        form = {"token": token or self.token(), "next": "/", "password": self.password}
        head = {"Origin": f"https://{SITE}"}
        answer = self.edge.request(
            SITE, LOGIN, within_s=WITHIN_S, send=urlencode(form), headers=head
        )
        if answer.status != 303:
            found = re.search(r'role="alert"[^>]*>([^<]+)<', answer.text)
            return f"HTTP {answer.status}: {found[1] if found else answer.text}"
        return str(answer.headers["set-cookie"]).partition(";")[0]

    def opens(self, cookie: str) -> bool:
        """Whether a page of the house opens with it; otherwise the login's form does."""
        answer = self.edge.request(SITE, "/", within_s=WITHIN_S, headers={**PAGE, "Cookie": cookie})
        assert answer.status in (200, 302, 404), answer.text
        return answer.status != 302


def shows(house: House, name: str, days: int) -> None:
    """Check that the program really has that clock: its response has that date."""
    host, path = SHOWN[name]
    answer = edge_of(house).request(host, path, within_s=WITHIN_S, key=house.key())
    # Where Caddy forwards a response, the program's own date comes first.
    dated = parsedate_to_datetime(str(answer.headers["date"]).partition("GMT")[0] + "GMT")
    off = dated - datetime.now(UTC)
    assert abs(off - timedelta(days=days)) < timedelta(minutes=2), off


@pytest.mark.parametrize("name", ["trust", "litellm"])
def test_a_wrong_clock_changes_nothing_for_clients(house: House, name: str) -> None:
    with clock_of(house, name) as clock, watching(house, f"{name}, two days off") as seen:
        for days in (DAYS, -DAYS, 0):
            clock.off_by(days)
            shows(house, name, days)
    assert seen.reds() == {}


def test_a_login_two_days_off_requires_a_new_login_and_locks_out_no_one(house: House) -> None:
    done = house.hearth("secret", "show", "house_password", "--plain")
    browser = Browser(edge_of(house), done.stdout.strip())
    with clock_of(house, "login") as clock, watching(house, "the login, two days off") as seen:
        before, form = browser.sign_in(), browser.token()
        clock.off_by(DAYS)
        shows(house, "login", DAYS)
        assert browser.opens(before)
        assert browser.sign_in(form).startswith("HTTP 403: This page was open for a long time")
        early = browser.sign_in()
        assert browser.opens(early)
        clock.off_by(0)
        # The cookie is from the future: its owner has to sign in once more.
        assert not browser.opens(early)
        assert browser.opens(before)
        clock.off_by(-DAYS)
        shows(house, "login", -DAYS)
        assert not browser.opens(before)
        late = browser.sign_in()
        assert browser.opens(late)
        clock.off_by(0)
        assert browser.opens(late)
        assert browser.opens(before)
    assert seen.reds() == {}
    assert browser.opens(before)


def test_the_chat_two_days_off_keeps_its_people_and_their_files(
    house: House, admin: Person
) -> None:
    paper = b"The garden gate opens to the left. "
    found: dict[str, bool] = {}

    def here(person: Person) -> bool:
        return person.send("GET", "/api/v1/auths/").is_success

    with clock_of(house, "open-webui") as clock, watching(house, "the chat, two days off") as seen:
        kept = keep(admin, paper)
        people = {"before": admin}
        for days, name in ((DAYS, "early"), (-DAYS, "late")):
            clock.off_by(days)
            shows(house, "open-webui", days)
            found[f"before, {days:+} days"] = here(admin)
            people[name] = chat.first(house)
            found[f"{name}, {days:+} days"] = here(people[name])
            clock.off_by(0)
            found[f"{name}, right again"] = here(people[name])
    print(f"who is signed in to the chat: {found}", flush=True)
    assert here(admin)
    assert admin.send("GET", f"/api/v1/files/{kept}/content").content == paper
    admin.request("DELETE", f"/api/v1/files/{kept}")
    assert seen.reds() == {}
    # A session from the future has to sign in once more, and can.
    away = {"early, right again", "before, -2 days"}
    assert found == {name: name not in away for name in found}


def device(house: House, program: str, clock: str) -> str:
    """Let a program with this clock connect to the house; return its error."""
    done = house.inside(
        *("/usr/bin/env", "TZ=UTC", f"LD_PRELOAD={LIBRARY}", f"FAKETIME={clock}"),
        *("FAKETIME_DONT_FAKE_MONOTONIC=1", "/bin/sh", "-c", ASK[program]),
    )
    if not done.returncode:
        return ""
    found = re.search(r"certificate (?:is|has) [a-z ]+", done.stderr)
    return found[0] if found else done.stderr


@pytest.mark.parametrize("program", ["curl", "python"])
def test_a_device_with_a_fast_clock_trusts_the_house_and_a_slow_one_must_wait(
    house: House, program: str
) -> None:
    def ask(clock: str) -> str:
        return device(house, program, clock)

    assert ask("+0") == ""
    assert ask(f"+{DAYS}d") == ""
    slow, late = ask(f"-{DAYS}d"), ask("+8d")
    print(f"{program}, two days slow: {slow}\n{program}, eight days fast: {late}", flush=True)
    assert "not yet valid" in slow
    assert "expired" in late
    # The youngest certificate of the chain decides, to the minute.
    chain = [x509.load_pem_x509_certificate(p.encode()) for p in _PEM.findall(house.shell(CHAIN))]
    assert len(chain) == 3
    begins = max(one.not_valid_before_utc for one in chain)
    minute = timedelta(minutes=1)
    assert "not yet valid" in ask(f"@{begins - minute:%Y-%m-%d %H:%M:%S}")
    assert ask(f"@{begins + minute:%Y-%m-%d %H:%M:%S}") == ""
