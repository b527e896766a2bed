"""The drill beside a house in use, which must not notice it; and its removal after a kill."""

import json
import threading
import time
from typing import Any

import pytest

from hearth.smoke.drill.gateway import AGENT, GATEWAY, IDLE_S
from tests import lab_machine as lab
from tests.lab.house import NAME, SMOKE, House, ask

pytestmark = pytest.mark.lab

EVENTS = "/tmp/drill.jsonl"
DRILL = f"{SMOKE} -m drill --hearth-events={EVENTS}"
LEFT = (
    f"incus exec litellm -- sh -c 'systemctl list-units --all --plain --no-legend {AGENT}*; "
    f"ls -d /run/{AGENT} /run/private/{AGENT}; ss -Hltn src 127.0.0.2' "
    "</dev/null 2>/dev/null || true"
)
# The time that systemd takes to end two units whose agent is gone.
END_S = 15


class Caller:
    """Send the live house one request after the other, and record how each ended."""

    def __init__(self, house: House) -> None:
        self._house, self._enough = house, threading.Event()
        self.statuses: list[int] = []
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> "Caller":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def _ask(self) -> None:
        key = self._house.key()
        root = "/etc/hearth/pki/root.crt"
        while not self._enough.wait(1):
            self.statuses.append(ask(NAME, root, "fast", key).status)


def drilled(house: House) -> list[dict[str, Any]]:
    """Run the drill alone, as `hearth verify --drill` does after the other tests."""
    done = house.inside("/bin/bash", "-c", DRILL, timeout=400)
    assert done.returncode in (0, 1), done.stdout[-3000:] + done.stderr[-2000:]
    return [json.loads(line) for line in house.shell(f"cat {EVENTS}; rm {EVENTS}").splitlines()]


def test_the_next_member_answers_and_other_requests_go_on(house: House) -> None:
    before = house.processes()
    with Caller(house) as caller:
        events = drilled(house)
    verdicts = {
        (event["promise"], event["about"]): event for event in events if event["kind"] == "verdict"
    }
    wrong = [event for event in verdicts.values() if event["outcome"] != "passed"]
    assert not wrong, "\n".join(f"{event['about']}: {event['detail']}" for event in wrong)
    about = {about for _, about in verdicts}
    assert {"fast", "coder", "local", "vision", "embed", "transcribe"} <= about
    # The other aliases' next members were requested where they are.
    assert events[-1]["drill"]["played"] == ["tiny.en"]
    rows = events[-1]["drill"]["rows"]
    # Nine faults of the first member, and of all members the eight that can be told apart.
    assert len(rows) == sum(9 if promise.startswith("the next") else 8 for promise, _ in verdicts)
    assert len(caller.statuses) >= 5
    assert set(caller.statuses) == {200}
    assert house.processes() == before
    assert house.shell(LEFT) == ""
    for name, fault in (("at once", "500"), ("after silence", "hang")):
        took = [r["streamed_s"] for r in rows if r["fault"] == fault and r["broken"] != "all"]
        house.figures[f"next member {name}, s"] = max(seconds for seconds in took if seconds)


@pytest.mark.long
def test_a_drill_that_is_killed_is_gone_soon(house: House) -> None:
    lab.run(NAME, ["/usr/bin/systemd-run", "--unit=drilling", "/bin/bash", "-c", DRILL], check=True)
    deadline = time.monotonic() + 120
    while GATEWAY not in house.shell(LEFT):
        assert time.monotonic() < deadline
        time.sleep(1)
    house.shell("systemctl kill --signal=KILL drilling")
    time.sleep(IDLE_S + END_S)
    assert house.shell(LEFT) == ""
