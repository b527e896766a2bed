"""Wrong passwords and keys are throttled; correct keys are not."""

from typing import Any

import pytest

from hearth_login.throttle import Allowance, Throttle, bucket_name

KEY = "webui-key-" + "0123456789" * 3
PASSWORD = "correct horse battery staple"


async def test_wrong_keys_of_one_address_end_in_429(login: Any, clock: Any) -> None:
    for _ in range(20):
        assert (await login.check(key="wrong")).status_code == 401
    answer = await login.check(key="wrong")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"
    assert (await login.check(key="wrong", client="10.0.0.8")).status_code == 401
    clock.at += 3
    assert (await login.check(key="wrong")).status_code == 401
    assert (await login.check(key="wrong")).status_code == 429


async def test_correct_key_is_never_throttled(login: Any) -> None:
    for number in range(300):
        await login.check(key="wrong", client=f"10.0.{number % 3}.{number % 100}")
    assert (await login.check(key="wrong", client="10.9.9.9")).status_code == 429
    assert (await login.check(key=KEY, client="10.9.9.9")).status_code == 204
    assert (await login.check(key=KEY, client="10.0.0.0")).status_code == 204


async def test_missing_key_does_not_count_as_wrong(login: Any) -> None:
    for _ in range(50):
        assert (await login.check()).status_code == 401


async def test_wrong_passwords_of_one_address_end_in_429(login: Any, clock: Any) -> None:
    for _ in range(5):
        assert (await login.sign_in("wrong")).status_code == 403
    answer = await login.sign_in("wrong")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "30")
    assert "wait 30 seconds" in answer.text
    # Otherwise the wait would not stop an attacker.
    assert (await login.sign_in(PASSWORD)).status_code == 429
    assert (await login.sign_in(PASSWORD, client="10.0.0.8")).status_code == 303
    clock.at += 30
    assert (await login.sign_in(PASSWORD)).status_code == 303


async def test_many_addresses_also_share_one_bucket(login: Any, clock: Any) -> None:
    for number in range(30):
        answer = await login.sign_in("wrong", client=f"10.1.0.{number}")
        assert answer.status_code == 403
    assert (await login.sign_in("wrong", client="10.2.0.1")).status_code == 429
    assert (await login.check(key=KEY)).status_code == 204
    clock.at += 5
    assert (await login.sign_in(PASSWORD, client="10.2.0.1")).status_code == 303


async def test_only_the_last_hop_is_trusted(login: Any) -> None:
    for number in range(20):
        await login.check(key="wrong", client=f"10.3.0.{number}, 10.0.0.7")
    assert (await login.check(key="wrong", client="10.3.0.99, 10.0.0.7")).status_code == 429
    assert (await login.check(key="wrong", client="10.0.0.7, 10.0.0.9")).status_code == 401


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("-", "unknown"),
        ("x" * 9999, "unknown"),
    ],
)
def test_bucket_of_an_address(address: str, name: str) -> None:
    assert bucket_name(address) == name


def test_memory_is_bounded(clock: Any) -> None:
    throttle = Throttle(Allowance(1, 60), Allowance(10**6, 1), clock, max_addresses=100)
    for number in range(1000):
        throttle.failed(f"10.0.{number // 250}.{number % 250}")
    assert len(throttle._buckets) == 100
    assert throttle.wait_s("10.0.3.249") == 60
    assert throttle.wait_s("10.0.0.0") == 0


async def attempt(login: Any, client: str, host: str = "chat.lan") -> Any:
    """Ask whether a device may try to sign in to a program with its own login."""
    headers = {"X-Forwarded-Host": host, "X-Forwarded-For": client, "Host": host}
    return await login.client.get("/attempt", headers=headers)


async def test_a_device_cannot_try_often_enough_to_lock_an_account(login: Any, clock: Any) -> None:
    # Open WebUI locks an account after 15 tries in its last four minutes, from all devices.
    admitted = 0
    for _ in range(240):
        admitted += (await attempt(login, "10.0.0.7")).status_code == 204
        clock.at += 1
    assert 7 < admitted < 13
    answer = await attempt(login, "10.0.0.7")
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) <= 45
    assert answer.json()["detail"].startswith("Too many tries from this device. Please wait ")
    assert (await attempt(login, "10.0.0.8")).status_code == 204


async def test_the_machines_own_programs_sign_in_as_often_as_they_need(login: Any) -> None:
    for _ in range(30):
        assert (await attempt(login, "127.0.0.1")).status_code == 204
    # An unknown address is not the machine's.
    assert [(await attempt(login, "")).status_code for _ in range(10)][-1] == 429


@pytest.mark.parametrize("host", ["llm.lan", "home.lan", "evil.example"])
async def test_only_sites_with_their_own_login_count_attempts(login: Any, host: str) -> None:
    assert (await attempt(login, "10.0.0.7", host)).status_code == 421


async def test_each_decision_is_counted_by_its_outcome(login: Any) -> None:
    async def counted() -> dict[str, int]:
        return dict((await login.client.get("/status")).json()["requests"])

    # Every one is there from the start, so that Prometheus sees the first of each.
    none = {"done": 0, "asked": 0, "refused": 0, "busy": 0, "signed_in": 0, "not_signed_in": 0}
    assert await counted() == none
    await login.check(key=KEY)
    await login.check(key="wrong")
    await login.check("home.lan", Sec_Fetch_Mode="navigate", Accept="text/html")
    assert (await login.sign_in("wrong")).status_code == 403
    assert (await login.sign_in()).status_code == 303
    found = await counted()
    assert found == {
        **none,
        "done": 1,
        "asked": 1,
        "refused": 1,
        "signed_in": 1,
        "not_signed_in": 1,
    }
    for _ in range(30):
        await login.check(key="wrong")
    assert (await counted())["busy"] > 0
