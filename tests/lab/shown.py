"""What the house's page shows in a browser that stays open, and which alerts reached a phone."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests import lab_machine as lab
from tests.lab import visitor
from tests.lab.house import House
from tests.lab.visitor import Visit
from tests.lab.watching import edge_of

PAGE = "https://home.lan/"
PLAY, BROWSER = "watchingOver", "chromium"
FOLDER = f"/home/visitor/found/{PLAY}/{BROWSER}"
OPEN_S = 60
# ntfy allows a phone a request every five seconds.
ASK_S = 6


@dataclass(slots=True)
class Shown:
    """The page in a browser: the state of each tile, row and finding, at each change."""

    guest: str
    visits: list[Visit] = field(default_factory=list)

    def changes(self) -> list[tuple[float, dict[str, str]]]:
        """Return the Unix times of all changes until now, each with what was shown then."""
        done = lab.run(self.guest, ["cat", f"{FOLDER}/shown.jsonl"])
        # The last line may be half written.
        lines = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
        return [(line["at"], line["states"]) for line in lines]

    def now(self) -> dict[str, str]:
        """Return what is shown now."""
        return self.changes()[-1][1]

    def wait(
        self, since: float, wanted: Mapping[str, str | None], within_s: float
    ) -> dict[str, float]:
        """Return when each id first had its state (None: it was gone), from `since` on.

        What has not come until `within_s` later is left out.
        """
        while True:
            known = self.changes()
            then = [states for at, states in known if at < since][-1:]
            line = [*((since, states) for states in then), *(c for c in known if c[0] >= since)]
            found: dict[str, float] = {}
            for at, states in line:
                for name, state in wanted.items():
                    if states.get(name) == state:
                        found.setdefault(name, at)
            if found.keys() == wanted.keys() or time.time() > since + within_s:
                return found
            time.sleep(0.3)


@contextmanager
def open_page(house: House, guest: str, within_s: float) -> Iterator[Shown]:
    """Keep the house's page open in a browser, signed in, until the block ends."""
    password = house.hearth("secret", "show", "house_password", "--plain").stdout.strip()
    shown = Shown(guest)

    def visit() -> None:
        found = visitor.visit(
            *(guest, BROWSER, PLAY, PAGE, password),
            idle_ms=1000 * within_s,
            within_s=within_s + OPEN_S,
        )
        shown.visits.append(found)

    lab.run(guest, ["rm", "-rf", FOLDER], check=True)
    thread = threading.Thread(target=visit, daemon=True)
    thread.start()
    deadline = time.monotonic() + OPEN_S
    while lab.run(guest, ["test", "-s", f"{FOLDER}/shown.jsonl"]).returncode:
        assert thread.is_alive(), "the browser ended"
        assert time.monotonic() < deadline, "the page did not open"
        time.sleep(0.3)
    try:
        yield shown
    finally:
        lab.run(guest, ["touch", f"{FOLDER}/enough"])
        thread.join(OPEN_S)


@dataclass(frozen=True, slots=True)
class Alert:
    """One line of a message: which alert, about what, and whether it is over; `at` in whole s."""

    at: float
    name: str
    about: str
    over: bool


@dataclass(slots=True)
class Phone:
    """A phone that subscribes to the house's alerts, as their page in docs/ says."""

    house: House
    since: int = field(default_factory=lambda: int(time.time()))
    password: str = ""

    def messages(self) -> list[dict[str, str]]:
        """Return all messages since this phone came."""
        if not self.password:
            done = self.house.hearth("secret", "show", "ntfy_password", "--plain")
            self.password = done.stdout.strip()
        account = base64.b64encode(f"house:{self.password}".encode()).decode()
        answer = edge_of(self.house).request(
            *("ntfy.lan", f"/house/json?poll=1&since={self.since}"),
            within_s=10,
            headers={"Authorization": f"Basic {account}"},
        )
        assert answer.status == 200, answer.text
        found = [json.loads(line) for line in answer.text.splitlines()]
        return [one for one in found if one["event"] == "message"]

    def alerts(self) -> list[Alert]:
        """Return what the messages say, one entry for each thing that an alert is about."""
        return [alert for one in self.messages() for alert in read(one)]


def read(message: Mapping[str, str]) -> Iterator[Alert]:
    """Yield the alerts of one message: its lines name what they are about, its last is a link."""
    *lines, link = message["message"].strip().split("\n")
    name, over = link.rsplit("/", 1)[-1], message.get("title", "").startswith("Resolved: ")
    abouts = [line for line in lines if " " not in line.removeprefix("Resolved: ")]
    for line in abouts:
        about = line.removeprefix("Resolved: ")
        yield Alert(float(message["time"]), name, about, over or line != about)
    if not abouts:
        yield Alert(float(message["time"]), name, "", over)
