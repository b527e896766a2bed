"""Everything that should run runs, and says what only the working program can say."""

import time

import httpx
import pytest

from hearth.catalogue.house import House, Part, Service
from hearth.machine import systemd
from hearth.smoke.plugin import Notes, NotMeasured

pytestmark = pytest.mark.home


def test_unit_runs(owner: Service | Part) -> None:
    state = systemd.unit_state(getattr(owner, "instance", None), owner.unit)
    assert state.up, f"{owner.unit} is {state.active} ({state.sub}, {state.result})"


def test_health_says_what_it_must(service: Service, notes: Notes) -> None:
    health = service.health
    began = time.monotonic()
    with httpx.Client(timeout=health.within_s, trust_env=False) as client:
        answer = client.get(service.url + health.path)
    took = time.monotonic() - began
    assert answer.status_code == 200, f"HTTP {answer.status_code} from {answer.url}"
    assert health.contains in answer.text, f"{answer.url} does not say {health.contains}"
    assert took <= health.within_s, f"{answer.url} took {took:.1f} s, not {health.within_s:g} s"
    notes.figure(f"health of {service.name}", "ms", [took * 1000])


@pytest.mark.unit(None, "hearth-login.service")
def test_login_answers(house: House) -> None:
    login = house.parts.get("login")
    if login is None:
        raise NotMeasured("this house has no login")
    answer = httpx.get(f"{login.url}/health", timeout=5, trust_env=False)
    assert answer.json() == {"status": "ok"}
