"""How sessions end: here, everywhere, by age, by a new password, by a lost file."""

import json
from typing import Any

import pytest

from hearth_login.ledger import REMEMBERED, Ledger

NAME = "__Host-hearth"


def cookie_of(answer: Any) -> str:
    value: str = answer.headers["set-cookie"].split(";")[0].partition("=")[2]
    return value


async def holds(door: Any, cookie: str, host: str = "home.lan") -> bool:
    door.client.cookies.clear()
    status: int = (await door.check(host, Cookie=f"a=b; {NAME}={cookie}")).status_code
    assert status in (204, 401)
    return status == 204


async def test_cookie_is_good_for_its_host_only(door: Any) -> None:
    cookie = cookie_of(await door.sign_in())
    assert await holds(door, cookie)
    assert not await holds(door, cookie, "status.lan")


async def test_changed_cookie_is_no_cookie(door: Any) -> None:
    cookie = cookie_of(await door.sign_in())
    for place in range(0, len(cookie) - 1):
        other = "A" if cookie[place] != "A" else "B"
        assert not await holds(door, cookie[:place] + other + cookie[place + 1 :]), place


async def test_cookie_ends_after_thirty_days(door: Any, clock: Any) -> None:
    cookie = cookie_of(await door.sign_in())
    clock.at += 30 * 24 * 3600
    assert await holds(door, cookie)
    clock.at += 1
    assert not await holds(door, cookie)


async def test_signing_out_ends_the_cookie_not_only_the_browsers_copy(door: Any) -> None:
    cookie = cookie_of(await door.sign_in())
    other = cookie_of(await door.sign_in())
    token = await door.token("status.lan")
    door.client.cookies.set(NAME, cookie)
    headers = {"Cookie": f"{NAME}={cookie}"}
    refused = await door.post({"token": token}, path="logout", **headers)
    assert refused.status_code == 403
    assert 'role="alert"' in refused.text
    answer = await door.post({"token": await form_token(door)}, path="logout", **headers)
    assert (answer.status_code, answer.headers["location"]) == (303, "/hearth-login/")
    assert "max-age=0" in answer.headers["set-cookie"].lower()
    assert not await holds(door, cookie)
    assert await holds(door, other)


async def test_signing_out_outlives_a_restart(door: Any, opened: Any) -> None:
    ended, kept = cookie_of(await door.sign_in()), cookie_of(await door.sign_in())
    token = await form_token(door)
    await door.post({"token": token}, path="logout", Cookie=f"{NAME}={ended}")
    async with opened() as client:
        door.client = client
        assert not await holds(door, ended)
        assert await holds(door, kept)


async def test_everywhere_means_every_name_and_device(door: Any, opened: Any) -> None:
    here = cookie_of(await door.sign_in())
    there = cookie_of(await door.sign_in(host="status.lan"))
    form = {"token": await form_token(door), "everywhere": "yes"}
    await door.post(form, path="logout", Cookie=f"{NAME}={here}")
    assert not await holds(door, here)
    assert not await holds(door, there, "status.lan")
    async with opened() as client:
        door.client = client
        assert not await holds(door, there, "status.lan")


async def test_stranger_cannot_sign_others_out(door: Any) -> None:
    cookie = cookie_of(await door.sign_in())
    door.client.cookies.clear()
    form = {"token": await door.token(), "everywhere": "yes"}
    assert (await door.post(form, path="logout")).status_code == 303
    assert await holds(door, cookie)


@pytest.mark.parametrize("secret", ["house_password", "cookie_secret"])
async def test_changed_secret_signs_everybody_out(
    door: Any, folder: Any, opened: Any, secret: str
) -> None:
    cookie = cookie_of(await door.sign_in())
    async with opened() as client:
        door.client = client
        assert await holds(door, cookie)
    (folder / secret).write_text("another secret that is long enough for it")
    async with opened() as client:
        door.client = client
        assert not await holds(door, cookie)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"epoch": "", "ended": {}}', "[" * 9999])
async def test_broken_ledger_signs_everybody_out(
    door: Any, folder: Any, opened: Any, caplog: Any, text: str
) -> None:
    cookie = cookie_of(await door.sign_in())
    (folder / "sessions.json").write_text(text)
    async with opened() as client:
        door.client = client
        assert not await holds(door, cookie)
    assert "everybody must sign in again" in caplog.text


def test_ledger_is_bounded_and_forgets_what_is_too_old(tmp_path: Any, clock: Any) -> None:
    path = tmp_path / "sessions.json"
    ledger = Ledger(path, clock)
    first = ledger.epoch
    ledger.end("old", 10)
    clock.at += 11
    ledger.end("new", 10)
    assert json.loads(path.read_text())["ended"].keys() == {"new"}
    assert path.stat().st_mode & 0o777 == 0o600
    for number in range(REMEMBERED):
        ledger.end(f"{number}", 10)
    assert ledger.epoch != first
    assert json.loads(path.read_text()) == {"epoch": ledger.epoch, "ended": {}}


def test_ledger_that_cannot_be_written_still_ends_sessions(tmp_path: Any, caplog: Any) -> None:
    ledger = Ledger(tmp_path / "missing" / "sessions.json")
    ledger.end("one", 10)
    assert ledger.ended("one")
    assert "cannot be written" in caplog.text


async def form_token(door: Any) -> str:
    door.client.cookies.clear()
    token: str = await door.token()
    return token


async def test_a_clock_that_was_days_off_brings_no_ended_session_back(
    door: Any, clock: Any
) -> None:
    day = 24 * 3600
    cookie = cookie_of(await door.sign_in())
    await sign_out(door, cookie)
    clock.at += 29 * day
    # Two days fast, and somebody else signs out: what is too old by then is forgotten.
    clock.at += 2 * day
    await sign_out(door, cookie_of(await door.sign_in()))
    clock.at -= 2 * day
    assert not await holds(door, cookie)


async def sign_out(door: Any, cookie: str) -> None:
    token = await form_token(door)
    answer = await door.post({"token": token}, path="logout", Cookie=f"{NAME}={cookie}")
    assert answer.status_code == 303
