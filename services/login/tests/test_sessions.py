"""How sessions end: here, everywhere, by age, after a new password or a lost file."""

import json
from typing import Any

import pytest

from hearth_login.sessions import MAX_ENDED, EndedSessions

NAME = "__Host-hearth"


def cookie_of(answer: Any) -> str:
    value: str = answer.headers["set-cookie"].split(";")[0].partition("=")[2]
    return value


async def holds(login: Any, cookie: str, host: str = "home.lan") -> bool:
    login.client.cookies.clear()
    status: int = (await login.check(host, Cookie=f"a=b; {NAME}={cookie}")).status_code
    assert status in (204, 401)
    return status == 204


async def test_cookie_is_valid_for_its_host_only(login: Any) -> None:
    cookie = cookie_of(await login.sign_in())
    assert await holds(login, cookie)
    assert not await holds(login, cookie, "status.lan")


async def test_changed_cookie_is_not_valid(login: Any) -> None:
    cookie = cookie_of(await login.sign_in())
    for place in range(0, len(cookie) - 1):
        other = "A" if cookie[place] != "A" else "B"
        assert not await holds(login, cookie[:place] + other + cookie[place + 1 :]), place


async def test_cookie_expires_after_thirty_days(login: Any, clock: Any) -> None:
    cookie = cookie_of(await login.sign_in())
    clock.at += 30 * 24 * 3600
    assert await holds(login, cookie)
    clock.at += 1
    assert not await holds(login, cookie)


async def test_signing_out_also_ends_copies_of_the_cookie(login: Any) -> None:
    cookie = cookie_of(await login.sign_in())
    other = cookie_of(await login.sign_in())
    token = await login.token("status.lan")
    login.client.cookies.set(NAME, cookie)
    headers = {"Cookie": f"{NAME}={cookie}"}
    refused = await login.post({"token": token}, path="logout", **headers)
    assert refused.status_code == 403
    assert 'role="alert"' in refused.text
    answer = await login.post({"token": await form_token(login)}, path="logout", **headers)
    assert (answer.status_code, answer.headers["location"]) == (303, "/hearth-login/")
    assert "max-age=0" in answer.headers["set-cookie"].lower()
    assert not await holds(login, cookie)
    assert await holds(login, other)


async def test_signing_out_survives_a_restart(login: Any, opened: Any) -> None:
    ended, kept = cookie_of(await login.sign_in()), cookie_of(await login.sign_in())
    token = await form_token(login)
    await login.post({"token": token}, path="logout", Cookie=f"{NAME}={ended}")
    async with opened() as client:
        login.client = client
        assert not await holds(login, ended)
        assert await holds(login, kept)


async def test_everywhere_ends_sessions_on_every_name_and_device(login: Any, opened: Any) -> None:
    here = cookie_of(await login.sign_in())
    there = cookie_of(await login.sign_in(host="status.lan"))
    form = {"token": await form_token(login), "everywhere": "yes"}
    await login.post(form, path="logout", Cookie=f"{NAME}={here}")
    assert not await holds(login, here)
    assert not await holds(login, there, "status.lan")
    async with opened() as client:
        login.client = client
        assert not await holds(login, there, "status.lan")


async def test_stranger_cannot_sign_others_out(login: Any) -> None:
    cookie = cookie_of(await login.sign_in())
    login.client.cookies.clear()
    form = {"token": await login.token(), "everywhere": "yes"}
    assert (await login.post(form, path="logout")).status_code == 303
    assert await holds(login, cookie)


@pytest.mark.parametrize("secret", ["house_password", "cookie_secret"])
async def test_changed_secret_signs_everyone_out(
    login: Any, folder: Any, opened: Any, secret: str
) -> None:
    cookie = cookie_of(await login.sign_in())
    async with opened() as client:
        login.client = client
        assert await holds(login, cookie)
    (folder / secret).write_text("another secret that is long enough for it")
    async with opened() as client:
        login.client = client
        assert not await holds(login, cookie)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"epoch": "", "ended": {}}', "[" * 9999])
async def test_damaged_file_signs_everyone_out(
    login: Any, folder: Any, opened: Any, caplog: Any, text: str
) -> None:
    cookie = cookie_of(await login.sign_in())
    (folder / "sessions.json").write_text(text)
    async with opened() as client:
        login.client = client
        assert not await holds(login, cookie)
    assert "everyone must sign in again" in caplog.text


def test_ended_sessions_are_limited_and_expire(tmp_path: Any, clock: Any) -> None:
    path = tmp_path / "sessions.json"
    ended = EndedSessions(path, clock)
    first = ended.epoch
    ended.end("old", 10)
    clock.at += 11
    ended.end("new", 10)
    assert json.loads(path.read_text())["ended"].keys() == {"new"}
    assert path.stat().st_mode & 0o777 == 0o600
    for number in range(MAX_ENDED):
        ended.end(f"{number}", 10)
    assert ended.epoch != first
    assert json.loads(path.read_text()) == {"epoch": ended.epoch, "ended": {}}


def test_sessions_end_even_if_the_file_cannot_be_written(tmp_path: Any, caplog: Any) -> None:
    ended = EndedSessions(tmp_path / "missing" / "sessions.json")
    ended.end("one", 10)
    assert "one" in ended
    assert "cannot be written" in caplog.text


async def form_token(login: Any) -> str:
    login.client.cookies.clear()
    token: str = await login.token()
    return token


async def test_a_clock_that_was_days_off_revives_no_ended_session(login: Any, clock: Any) -> None:
    day = 24 * 3600
    cookie = cookie_of(await login.sign_in())
    await sign_out(login, cookie)
    clock.at += 29 * day
    # The clock is two days fast when another browser signs out, which drops expired entries.
    clock.at += 2 * day
    await sign_out(login, cookie_of(await login.sign_in()))
    clock.at -= 2 * day
    assert not await holds(login, cookie)


async def sign_out(login: Any, cookie: str) -> None:
    token = await form_token(login)
    answer = await login.post({"token": token}, path="logout", Cookie=f"{NAME}={cookie}")
    assert answer.status_code == 303
