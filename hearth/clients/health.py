"""Judge the health of a service: one rule for `hearth status`, the benchmarks and the smoke tests.

The Ansible module service_converge runs on the target without Hearth and carries its own copy;
tests/unit/plugins/test_health.py holds both to the same answers.
"""

import time
from dataclasses import dataclass

import httpx

from hearth.catalogue.house import Service
from hearth.catalogue.schema import HealthRecord
from hearth.clients.endpoints import body_until, needs_authorities

# A program that systemd has restarted this often is in a crash loop. `hearth up` waits for two more
# (decision 027).
RESTART_LIMIT = 3


@dataclass(frozen=True, slots=True)
class HealthResult:
    """The result of one health check; `reason` is empty when the service is healthy."""

    reason: str
    seconds: float

    @property
    def healthy(self) -> bool:
        """Whether the answer is the one that the record demands."""
        return not self.reason


def fault(health: HealthRecord, status: int, text: str) -> str:
    """Return what is wrong with an answer, or the empty text."""
    if status != httpx.codes.OK:
        return f"health returns HTTP {status}"
    return "" if health.contains in text else f"health returns no {health.contains!r}"


def check(service: Service) -> HealthResult:
    """Request the health of a service within its own deadline."""
    health, verify = service.health, needs_authorities(service.url)
    start = time.monotonic()
    try:
        with (
            httpx.Client(timeout=health.within_s, trust_env=False, verify=verify) as client,
            client.stream("GET", service.url + health.path) as answer,
        ):
            body = b"".join(body_until(answer, start + health.within_s))
        reason = fault(health, answer.status_code, body.decode(errors="replace"))
    except (TimeoutError, httpx.TimeoutException):
        reason = f"no answer in {health.within_s:g} s"
    except httpx.HTTPError as error:
        reason = f"no answer: {type(error).__name__}"
    return HealthResult(reason, time.monotonic() - start)
