"""Sites for people: the cookie, the form and its redirects."""

from typing import Any

import pytest

PASSWORD = "correct horse battery staple"
KEY = "status-key-" + "0123456789" * 3


async def test_browser_is_redirected_to_the_form_and_back(login: Any) -> None:
    answer = await login.check("home.lan", uri="/a?b=1&c=2", Accept="text/html,*/*;q=0.8")
    assert answer.status_code == 302
    assert answer.headers["location"] == "/hearth-login/?next=%2Fa%3Fb%3D1%26c%3D2"
    page = await login.page(query=answer.headers["location"].partition("/hearth-login/")[2])
    assert page.status_code == 200
    assert 'name="next" value="/a?b=1&amp;c=2"' in page.text
    form = {"token": await login.token(), "next": "/a?b=1&c=2", "password": PASSWORD}
    signed_in = await login.post(form)
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/a?b=1&c=2")
    assert (await login.check("home.lan", Accept="text/html")).status_code == 204


async def test_fragment_of_a_link_survives_the_redirects(login: Any) -> None:
    # Browsers hand it on from the form's own address, which no form may therefore change.
    page = await login.page(query="?next=%2F")
    assert '<form method="post">' in page.text


@pytest.mark.parametrize(
    ("method", "accept"), [("POST", "text/html"), ("GET", "*/*"), ("GET", "text/event-stream")]
)
async def test_program_gets_401(login: Any, method: str, accept: str) -> None:
    answer = await login.check("home.lan", method=method, Accept=accept)
    assert answer.status_code == 401
    assert "location" not in answer.headers


async def test_consumer_of_the_service_needs_no_cookie(login: Any) -> None:
    answer = await login.check("status.lan", key=KEY)
    assert (answer.status_code, answer.headers["x-hearth-consumer"]) == (204, "status")
    assert (await login.check("home.lan", key=KEY)).status_code == 403


async def test_client_with_a_wrong_key_gets_no_form(login: Any) -> None:
    assert (await login.check("status.lan", key=KEY, Accept="text/html")).status_code == 204
    assert (await login.check("status.lan", key="wrong", Accept="text/html")).status_code == 401


async def test_signed_in_page_may_send_its_own_bearer_token(login: Any) -> None:
    await login.sign_in()
    answer = await login.check("home.lan", key="a token of the page's own")
    # Caddy copies the header whether it is there or not: it must say that there is none.
    assert (answer.status_code, answer.headers["x-hearth-consumer"]) == (204, "")


async def test_cookie_has_the_strictest_attributes(login: Any) -> None:
    name, *attributes = (await login.sign_in()).headers["set-cookie"].split("; ")
    assert name.startswith("__Host-hearth=")
    assert {a.lower() for a in attributes} == {
        "httponly",
        "secure",
        "path=/",
        "samesite=lax",
        "max-age=2592000",
    }


@pytest.mark.parametrize("password", ["", PASSWORD[:-1], PASSWORD + "x", PASSWORD + " ", "\udcff"])
async def test_wrong_password_shows_the_form_again(login: Any, password: str) -> None:
    form = {"token": await login.token(), "password": password.encode("utf-8", "replace").decode()}
    answer = await login.post(form)
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
async def test_next_never_leaves_the_host(login: Any, wanted: str) -> None:
    form = {"token": await login.token(), "next": wanted, "password": PASSWORD}
    answer = await login.post(form)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


@pytest.mark.parametrize(
    ("wanted", "location"),
    [
        ("/a/b?c=d&e=%20f#g", "/a/b?c=d&e=%20f#g"),
        ("/küche", "/k%C3%BCche"),
        ("/?x=https://a.b/", "/?x=https://a.b/"),
    ],
)
async def test_next_may_be_any_path_of_this_host(login: Any, wanted: str, location: str) -> None:
    form = {"token": await login.token(), "next": wanted, "password": PASSWORD}
    assert (await login.post(form)).headers["location"] == location


async def test_signed_in_browser_skips_the_form(login: Any) -> None:
    await login.sign_in()
    assert "Sign out" in (await login.page()).text
    answer = await login.page(query="?next=/a")
    assert (answer.status_code, answer.headers["location"]) == (303, "/a")


async def test_form_of_another_site_is_rejected(login: Any) -> None:
    form = {"token": await login.token(), "password": PASSWORD}
    for origin in ("https://evil.example", "https://status.lan", "http://home.lan", "null", ""):
        answer = await login.post(form, Origin=origin)
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False), origin
    answer = await login.post(form, Origin="null", **{"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 303


async def test_form_without_a_recent_token_is_rejected(login: Any, clock: Any) -> None:
    token = await login.token()
    for bad in ("", "x", token + "x", token[:-1], await login.token("status.lan")):
        answer = await login.post({"token": bad, "password": PASSWORD})
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    clock.at += 3601
    stale = await login.post({"token": token, "password": PASSWORD})
    assert stale.status_code == 403
    assert "open for a long time" in stale.text


async def test_session_cookie_is_not_a_form_token(login: Any) -> None:
    cookie = (await login.sign_in()).headers["set-cookie"].split(";")[0].partition("=")[2]
    answer = await login.post({"token": cookie, "password": PASSWORD})
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
    login: Any, headers: dict[str, str], status: int
) -> None:
    await login.sign_in()
    assert (await login.check("home.lan", **headers)).status_code == status


async def test_another_sites_form_cannot_use_the_cookie(login: Any) -> None:
    await login.sign_in()
    headers = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}
    assert (await login.check("home.lan", method="POST", **headers)).status_code == 403


@pytest.mark.parametrize("host", ["llm.lan", "chat.lan", "other.lan"])
async def test_there_is_no_form_on_other_sites(login: Any, host: str) -> None:
    assert (await login.page(host)).status_code == 404
    for path in ("", "logout"):
        answer = await login.post({"password": PASSWORD}, host, path=path)
        assert (answer.status_code, "set-cookie" in answer.headers) == (404, False)


async def test_page_has_no_scripts_and_loads_nothing(login: Any) -> None:
    page = await login.page(query="?next=/%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "frame-ancestors 'none'" in policy
    assert "<script" not in page.text
    assert "http://" not in page.text.replace("http://www.w3.org/2000/svg", "")
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["cache-control"] == "no-store"


async def test_only_post_signs_out(login: Any) -> None:
    await login.sign_in()
    headers = {"X-Forwarded-Host": "home.lan"}
    answer = await login.client.get("/hearth-login/logout", headers=headers)
    assert answer.status_code == 405
    assert (await login.check("home.lan")).status_code == 204
