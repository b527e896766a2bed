"""Any input gets one of our responses, and the log contains no secret."""

import asyncio
import logging
import random
from typing import Any
from urllib.parse import quote

import pytest
from starlette.requests import Request
from starlette.types import Message

from hearth_login.pages import read_form

KEY = "webui-key-" + "0123456789" * 3
PASSWORD = "correct horse battery staple"
HEADERS = (
    b"authorization",
    b"cookie",
    b"x-forwarded-host",
    b"x-forwarded-for",
    b"x-forwarded-uri",
    b"x-forwarded-method",
    b"accept",
    b"origin",
    b"sec-fetch-site",
    b"content-type",
    b"content-length",
    b"host",
)
PIECES = (
    b"home.lan",
    b"llm.lan",
    b"Bearer ",
    b"__Host-hearth=",
    b"GET",
    b"text/html",
    b"application/x-www-form-urlencoded",
    b"https://",
    b"/",
    b"//[",
    b"%00",
    b"%ff%fe",
    b"=;,.",
    b'"\\303"',
    b"\xff\x80",
    b"\xc3\x28",
    b"a.b.c",
    b"-1",
    b"A" * 9000,
    b"::1%eth0",
    b"10.0.0.1",
    b" \t",
)


async def test_fuzz(login: Any) -> None:
    dice = random.Random(2)  # noqa: S311 - repeatable on purpose
    statuses: set[int] = set()
    for _ in range(3000):
        headers = [
            (dice.choice(HEADERS), b"".join(dice.choices(PIECES, k=dice.randrange(4))))
            for _ in range(dice.randrange(8))
        ]
        if dice.random() < 0.7:
            headers.append((b"x-forwarded-host", dice.choice((b"home.lan", b"llm.lan"))))
        if dice.random() < 0.3:
            headers += [(b"x-forwarded-method", b"GET"), (b"accept", b"text/html")]
        path = dice.choice(("/check", "/hearth-login/", "/hearth-login/logout", "/x", "/health"))
        url = f"{path}?next=" + quote(b"".join(dice.choices(PIECES, k=2)), safe="%/=;[")
        method = dice.choice(("GET", "POST", "HEAD", "PUT"))
        body = b"&".join(dice.choices(PIECES, k=3)) if method == "POST" else None
        login.client.cookies.clear()
        answer = await login.client.request(method, url, headers=headers, content=body)
        statuses.add(answer.status_code)
        assert answer.headers.get("set-cookie", "=").split("=")[1][:2] in ("", '""')
    # The fuzz reached the answers that matter, and never 204 or a session.
    assert statuses <= {200, 302, 303, 401, 403, 404, 405, 421, 429}
    assert statuses >= {200, 302, 303, 401, 403, 404, 405, 421}


@pytest.mark.parametrize("cookie", ["", "a", ".", "..", "a.b.c", "\x00", "é.é.é", "x" * 20000])
async def test_garbled_cookie_is_ignored(login: Any, cookie: str) -> None:
    value = f"__Host-hearth={cookie}".encode()
    headers = [(b"x-forwarded-host", b"home.lan"), (b"cookie", value)]
    assert (await login.client.get("/check", headers=headers)).status_code == 401


async def test_form_that_is_too_long_or_of_another_type_is_rejected(login: Any) -> None:
    form = {"token": await login.token(), "password": PASSWORD, "more": "x" * 9000}
    assert (await login.post(form)).status_code == 403
    headers = {"X-Forwarded-Host": "home.lan", "Origin": "https://home.lan"}
    answer = await login.client.post("/hearth-login/", json=form, headers=headers)
    assert answer.status_code == 403


async def test_form_that_never_ends_times_out() -> None:
    async def drip() -> Message:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"a", "more_body": True}

    kind = (b"content-type", b"application/x-www-form-urlencoded; charset=utf-8")
    request = Request({"type": "http", "method": "POST", "headers": [kind]}, drip)
    async with asyncio.timeout(5):
        assert await read_form(request, deadline_s=0.1) == {}


async def test_log_names_consumer_site_and_status_and_no_secret(login: Any, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    await login.check(key=KEY, uri="/v1?secret-in-the-path")
    await login.check(key="a-wrong-key-all-the-same")
    await login.check("evil\nsite=home.lan", key=KEY)
    await login.sign_in("a-wrong-password")
    cookie = (await login.sign_in()).headers["set-cookie"].split(";")[0].partition("=")[2]
    await login.check("home.lan")
    log = [r.getMessage() for r in caplog.records if r.name == "hearth_login"]
    assert log == [
        "check site=llm.lan consumer=webui client=10.0.0.7 status=204",
        "check site=llm.lan consumer=- client=10.0.0.7 status=401",
        "check site=- consumer=- client=10.0.0.7 status=421",
        "sign-in site=home.lan client=10.0.0.7 status=403",
        "sign-in site=home.lan client=10.0.0.7 status=303",
        "check site=home.lan consumer=- client=10.0.0.7 status=204",
    ]
    for secret in (KEY, "a-wrong", PASSWORD, cookie, "secret-in-the-path"):
        assert secret not in caplog.text


async def test_health(login: Any) -> None:
    answer = await login.client.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
