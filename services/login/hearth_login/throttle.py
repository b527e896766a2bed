"""Token buckets: how many failures one address, and all of them together, may make."""

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allowance:
    """`burst` failures at once, then one more every `every_s` seconds."""

    burst: int
    every_s: float


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Throttle:
    """Counts failures per address and over all; holds at most `remembered` addresses."""

    def __init__(
        self,
        each: Allowance,
        together: Allowance,
        now: Callable[[], float],
        remembered: int = 4096,
    ) -> None:
        """Begin with full buckets; `now` gives seconds that never go back."""
        self._each, self._together, self._now = each, together, now
        self._remembered = remembered
        self._all = _Bucket(together.burst, now())
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, address: str) -> int:
        """Return the seconds until this address may fail again; 0 is now."""
        now = self._now()
        bucket = self._buckets.get(bucket_name(address))
        own = _wait(bucket, self._each, now) if bucket else 0.0
        return math.ceil(max(own, _wait(self._all, self._together, now)))

    def failed(self, address: str) -> None:
        """Take one token from this address and one from all."""
        now = self._now()
        name = bucket_name(address)
        bucket = self._buckets.pop(name, None) or _Bucket(self._each.burst, now)
        # The one that failed longest ago goes first. Whoever has addresses enough to push others
        # out gains nothing by it: the bucket that all share is empty by then.
        if len(self._buckets) >= self._remembered:
            self._buckets.popitem(last=False)
        self._buckets[name] = bucket
        _take(bucket, self._each, now)
        _take(self._all, self._together, now)


def bucket_name(address: str) -> str:
    """Return the bucket of an address: itself, its /64 for IPv6, one for all that is no address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        # One household, and one attacker, has 2**64 of these.
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)


def _filled(bucket: _Bucket, allowance: Allowance, now: float) -> float:
    return min(float(allowance.burst), bucket.tokens + (now - bucket.at) / allowance.every_s)


def _wait(bucket: _Bucket, allowance: Allowance, now: float) -> float:
    return max(0.0, 1.0 - _filled(bucket, allowance, now)) * allowance.every_s


def _take(bucket: _Bucket, allowance: Allowance, now: float) -> None:
    bucket.tokens = max(0.0, _filled(bucket, allowance, now) - 1.0)
    bucket.at = now
