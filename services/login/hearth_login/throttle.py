"""Token buckets that limit the failures of each address and of all addresses together."""

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allowance:
    """Allows `burst` failures at once, then one more every `every_s` seconds."""

    burst: int
    every_s: float


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Throttle:
    """Counts failures per address and in total; stores at most `max_addresses` addresses."""

    def __init__(
        self,
        each: Allowance,
        total: Allowance,
        now: Callable[[], float],
        max_addresses: int = 4096,
    ) -> None:
        # `now` is a monotonic clock in seconds.
        self._each, self._total, self._now = each, total, now
        self._max_addresses = max_addresses
        self._all = _Bucket(total.burst, now())
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, address: str) -> int:
        """Return the seconds until this address may try again, or 0."""
        now = self._now()
        bucket = self._buckets.get(bucket_name(address))
        own = _wait(bucket, self._each, now) if bucket else 0.0
        return math.ceil(max(own, _wait(self._all, self._total, now)))

    def failed(self, address: str) -> None:
        """Take one token from this address's bucket and one from the total."""
        now = self._now()
        name = bucket_name(address)
        bucket = self._buckets.pop(name, None) or _Bucket(self._each.burst, now)
        # Drop the address that failed longest ago. An attacker with enough addresses to push others
        # out gains nothing: by then the total bucket is empty.
        if len(self._buckets) >= self._max_addresses:
            self._buckets.popitem(last=False)
        self._buckets[name] = bucket
        _take(bucket, self._each, now)
        _take(self._all, self._total, now)


def bucket_name(address: str) -> str:
    """Return an address's bucket: itself, its /64 for IPv6, or "unknown" if it is not valid."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        # A single household or attacker has 2**64 of these.
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)


def _filled(bucket: _Bucket, allowance: Allowance, now: float) -> float:
    return min(float(allowance.burst), bucket.tokens + (now - bucket.at) / allowance.every_s)


def _wait(bucket: _Bucket, allowance: Allowance, now: float) -> float:
    return max(0.0, 1.0 - _filled(bucket, allowance, now)) * allowance.every_s


def _take(bucket: _Bucket, allowance: Allowance, now: float) -> None:
    bucket.tokens = max(0.0, _filled(bucket, allowance, now) - 1.0)
    bucket.at = now
