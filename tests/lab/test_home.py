"""The house's page in a real browser: it is live, says what hangs, and heals it by its button."""

from __future__ import annotations

import pytest

from tests.lab import visitor
from tests.lab.heard import quiet
from tests.lab.house import House
from tests.lab.visitor import Visit
from tests.lab.watching import edge_of

pytestmark = pytest.mark.lab

PAGE = "https://home.lan/"
# A service that people open, by its tile.
SERVICE, TILE = "kokoro", "kokoro-web.lan"
SHOWN_MS = 15_000
RUN = f"incus exec {SERVICE} -- systemctl kill --signal={{}} {SERVICE}.service </dev/null"
PEOPLE = {"chat.lan", "kokoro-web.lan", "whisper.lan", "trust.lan"}


@pytest.fixture(scope="module")
def visit(house: House, guest: str) -> Visit:
    """A whole visit, in which one service hangs until the visitor presses a button."""
    password = house.hearth("secret", "show", "house_password", "--plain").stdout.strip()
    # An earlier test may have just booted it.
    house.wait_page_green()
    try:
        return visitor.visit(
            *(guest, "chromium", "atHome", PAGE, password),
            actions={"let it hang": lambda: house.shell(RUN.format("STOP"))},
            service=SERVICE,
            tile=TILE,
        )
    finally:
        house.shell(RUN.format("CONT"))
        house.wait_green()


def test_without_a_login_only_the_form_is_shown(visit: Visit) -> None:
    assert visit["stranger"] == {"secure": True, "password": True, "speaks": False}


def test_without_a_login_a_device_learns_whether_the_house_is_up(house: House) -> None:
    edge = edge_of(house)
    answer = edge.request("home.lan", "/up", within_s=10)
    assert (answer.status, answer.text) == (200, "up\n")
    for path in ("/", "/events", "/figures.json", "/receipt/receipt.json", "/upper"):
        assert edge.request("home.lan", path, within_s=10).status == 401, path


def test_a_healthy_house_has_its_tiles_and_no_finding(visit: Visit) -> None:
    found = visit["login"]
    assert found["address"] == PAGE
    assert set(found["tiles"]) >= PEOPLE
    for name, tile in found["tiles"].items():
        assert (tile["state"], tile["word"], tile["href"]) == ("up", "Ready", f"https://{name}/")
    assert found["findings"] == []
    assert found["verdict"] == "up", found["headline"]
    assert set(found["rows"].values()) == {"up"}
    assert not found["broken"]
    quiet(found)


def test_what_hangs_is_red_in_time_and_its_button_heals_it(visit: Visit, house: House) -> None:
    found = visit["hang"]
    house.figures["a service that hangs to its red tile, ms"] = found["red_ms"]
    house.figures["the button that heals it to its green tile, ms"] = found["green_ms"]
    assert found["seen"]["tiles"][TILE]["word"] == "Not available"
    assert found["seen"]["rows"][SERVICE] == "down"
    assert found["seen"]["verdict"] == "down"
    assert "What to do" in found["text"]
    assert found["red_ms"] < SHOWN_MS
    assert found["green_ms"] < SHOWN_MS
    # A screen reader was told both.
    assert found["announced"] == found["after"]["headline"]
    assert found["after"]["tiles"][TILE]["state"] == "up"
    quiet(found)


def test_without_scripts_it_reloads(visit: Visit) -> None:
    assert visit["without scripts"] == {"reloads": True}


def test_the_keyboard_reaches_the_tiles_first(visit: Visit) -> None:
    reached = visit["keyboard"]["reached"]
    assert reached[:3] == ["Skip to the services", "Chat", "Speech"]


@pytest.mark.parametrize("scene", ["accessibility", "accessibility in the dark"])
def test_it_is_accessible(visit: Visit, scene: str) -> None:
    visit.is_accessible(scene)


def test_a_narrow_phone_shows_all_of_it(visit: Visit) -> None:
    visit.fits_a_phone()


def test_it_is_light_by_day_and_dark_by_night(visit: Visit) -> None:
    visit.is_light_and_dark()


def test_a_button_needs_the_login(visit: Visit) -> None:
    assert visit["login ended"] == {"status": 401}
