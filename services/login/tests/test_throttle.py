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
