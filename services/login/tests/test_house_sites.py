"""Sites for people: the cookie, the form, and where it leads."""

from typing import Any

import pytest

PASSWORD = "correct horse battery staple"
KEY = "status-key-" + "0123456789" * 3


async def test_browser_is_sent_to_the_form_and_back(door: Any) -> None:
    answer = await door.check("home.lan", uri="/a?b=1&c=2", Accept="text/html,*/*;q=0.8")
    assert answer.status_code == 302
    assert answer.headers["location"] == "/hearth-login/?next=%2Fa%3Fb%3D1%26c%3D2"
    page = await door.page(query=answer.headers["location"].partition("/hearth-login/")[2])
    assert page.status_code == 200
    assert 'name="next" value="/a?b=1&amp;c=2"' in page.text
    form = {"token": await door.token(), "next": "/a?b=1&c=2", "password": PASSWORD}
    signed_in = await door.post(form)
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/a?b=1&c=2")
    assert (await door.check("home.lan", Accept="text/html")).status_code == 204


async def test_what_stands_behind_the_hash_of_a_link_is_not_lost_on_the_way(door: Any) -> None:
    # Browsers hand it on from the form's own address, which no form may therefore change.
    page = await door.page(query="?next=%2F")
    assert '<form method="post">' in page.text


@pytest.mark.parametrize(
    ("method", "accept"), [("POST", "text/html"), ("GET", "*/*"), ("GET", "text/event-stream")]
)
async def test_program_gets_401(door: Any, method: str, accept: str) -> None:
    answer = await door.check("home.lan", method=method, Accept=accept)
    assert answer.status_code == 401
    assert "location" not in answer.headers


async def test_consumer_of_the_service_needs_no_cookie(door: Any) -> None:
    answer = await door.check("status.lan", key=KEY)
    assert (answer.status_code, answer.headers["x-hearth-consumer"]) == (204, "status")
    assert (await door.check("home.lan", key=KEY)).status_code == 403


async def test_who_sends_a_key_is_told_about_the_key_not_about_a_form(door: Any) -> None:
    assert (await door.check("status.lan", key=KEY, Accept="text/html")).status_code == 204
    assert (await door.check("status.lan", key="wrong", Accept="text/html")).status_code == 401


async def test_pages_own_bearer_does_not_hurt_who_is_signed_in(door: Any) -> None:
    await door.sign_in()
    answer = await door.check("home.lan", key="a token of the page's own")
    # Caddy copies the header whether it is there or not: it must say that there is none.
    assert (answer.status_code, answer.headers["x-hearth-consumer"]) == (204, "")


async def test_cookie_is_as_closed_as_a_cookie_can_be(door: Any) -> None:
    name, *attributes = (await door.sign_in()).headers["set-cookie"].split("; ")
    assert name.startswith("__Host-hearth=")
    assert {a.lower() for a in attributes} == {
        "httponly",
        "secure",
        "path=/",
        "samesite=lax",
        "max-age=2592000",
    }


@pytest.mark.parametrize("password", ["", PASSWORD[:-1], PASSWORD + "x", PASSWORD + " ", "\udcff"])
async def test_wrong_password_shows_the_form_again(door: Any, password: str) -> None:
    form = {"token": await door.token(), "password": password.encode("utf-8", "replace").decode()}
    answer = await door.post(form)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert 'role="alert"' in answer.text
    assert 'aria-invalid="true"' in answer.text


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        " //evil.example",
        "javascript:alert(1)",
        "evil.example",
        "",
        "/a\r\nSet-Cookie: x=1",
        "/" + "a" * 5000,
        "/hearth-login/?next=/",
        "//[",
    ],
)
async def test_next_never_leaves_the_house(door: Any, wanted: str) -> None:
    form = {"token": await door.token(), "next": wanted, "password": PASSWORD}
    answer = await door.post(form)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


@pytest.mark.parametrize(
    ("wanted", "location"),
    [
        ("/a/b?c=d&e=%20f#g", "/a/b?c=d&e=%20f#g"),
        ("/küche", "/k%C3%BCche"),
        ("/?x=https://a.b/", "/?x=https://a.b/"),
    ],
)
async def test_next_may_be_any_path_of_this_host(door: Any, wanted: str, location: str) -> None:
    form = {"token": await door.token(), "next": wanted, "password": PASSWORD}
    assert (await door.post(form)).headers["location"] == location


async def test_who_is_signed_in_need_not_sign_in_again(door: Any) -> None:
    await door.sign_in()
    assert "Sign out" in (await door.page()).text
    answer = await door.page(query="?next=/a")
    assert (answer.status_code, answer.headers["location"]) == (303, "/a")


async def test_form_from_elsewhere_is_refused(door: Any) -> None:
    form = {"token": await door.token(), "password": PASSWORD}
    for origin in ("https://evil.example", "https://status.lan", "http://home.lan", "null", ""):
        answer = await door.post(form, Origin=origin)
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False), origin
    answer = await door.post(form, Origin="null", **{"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 303


async def test_form_without_our_fresh_token_is_refused(door: Any, clock: Any) -> None:
    token = await door.token()
    for bad in ("", "x", token + "x", token[:-1], await door.token("status.lan")):
        answer = await door.post({"token": bad, "password": PASSWORD})
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    clock.at += 3601
    stale = await door.post({"token": token, "password": PASSWORD})
    assert stale.status_code == 403
    assert "open for a long time" in stale.text


async def test_session_cookie_is_no_form_token(door: Any) -> None:
    cookie = (await door.sign_in()).headers["set-cookie"].split(";")[0].partition("=")[2]
    answer = await door.post({"token": cookie, "password": PASSWORD})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 204),
        ({"Origin": "https://home.lan"}, 204),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "https://status.lan"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "null", "Sec-Fetch-Site": "same-origin"}, 204),
        ({"Sec-Fetch-Site": "none"}, 204),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "websocket"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 204),
    ],
)
async def test_another_sites_page_cannot_use_the_cookie(
    door: Any, headers: dict[str, str], status: int
) -> None:
    await door.sign_in()
    assert (await door.check("home.lan", **headers)).status_code == status


async def test_another_sites_form_cannot_use_the_cookie(door: Any) -> None:
    await door.sign_in()
    headers = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}
    assert (await door.check("home.lan", method="POST", **headers)).status_code == 403


@pytest.mark.parametrize("host", ["llm.lan", "chat.lan", "other.lan"])
async def test_there_is_no_form_on_other_sites(door: Any, host: str) -> None:
    assert (await door.page(host)).status_code == 404
    for path in ("", "logout"):
        answer = await door.post({"password": PASSWORD}, host, path=path)
        assert (answer.status_code, "set-cookie" in answer.headers) == (404, False)


async def test_page_runs_nothing_and_fetches_nothing(door: Any) -> None:
    page = await door.page(query="?next=/%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "frame-ancestors 'none'" in policy
    assert "<script" not in page.text
    assert "http://" not in page.text.replace("http://www.w3.org/2000/svg", "")
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["cache-control"] == "no-store"


async def test_only_post_signs_out(door: Any) -> None:
    await door.sign_in()
    headers = {"X-Forwarded-Host": "home.lan"}
    answer = await door.client.get("/hearth-login/logout", headers=headers)
    assert answer.status_code == 405
    assert (await door.check("home.lan")).status_code == 204
