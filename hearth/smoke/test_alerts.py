"""Figures are read and kept within bounds, and alerts have a way to people."""

import asyncio
import base64
import time
from typing import Any

import pytest

from hearth.catalogue.house import House, Part, Service, Site
from hearth.clients import health
from hearth.clients.endpoints import Edge, get_json
from hearth.machine.secrets import Vault
from hearth.render.metrics import SCRAPE_S
from hearth.smoke.hosts import ask

pytestmark = pytest.mark.home

WITHIN_S = 5
# The probe itself gives up after eight.
PROBE_S = 10
# The topic and the account of the push service.
NAME = "house"


def fetch(service: Service, path: str) -> Any:
    """Return what a server of metrics answers to the machine's root."""
    answer = get_json(f"{service.url}{path}", WITHIN_S)
    return answer["data"] if isinstance(answer, dict) and "data" in answer else answer


def test_the_figures_of_every_program_are_read(scraper: Service, house: House) -> None:
    owners: list[Service | Part] = [*house.services.values(), *house.parts.values()]
    wanted = {owner.name for owner in owners if owner.metrics_port}
    end = time.monotonic() + SCRAPE_S + WITHIN_S
    while True:
        targets = fetch(scraper, "/api/v1/targets?state=active")["activeTargets"]
        read = [target for target in targets if target["labels"]["job"] in wanted]
        # What started after its last reading is read again within one interval.
        if all(target["health"] == "up" for target in read) or time.monotonic() > end:
            break
        time.sleep(1)
    unread = {t["labels"]["job"]: t["lastError"] for t in read if t["health"] != "up"}
    missing = wanted - {target["labels"]["job"] for target in read}
    assert not missing, f"not read: {', '.join(sorted(missing))}"
    assert not unread, "; ".join(f"{name}: {why}" for name, why in sorted(unread.items()))


def test_published_names_answer_the_probe(scraper: Service) -> None:
    targets = fetch(scraper, "/api/v1/targets?state=active")["activeTargets"]
    # Asked now: what Prometheus knows may be a minute old, from before a program had started.
    probes = {
        t["labels"]["instance"]: t["scrapeUrl"] for t in targets if "/probe?" in t["scrapeUrl"]
    }
    assert probes, "no published name is probed"
    answers = {name: asyncio.run(health.get(url, PROBE_S)) for name, url in probes.items()}
    failed = [name for name, (_, text) in answers.items() if b"\nprobe_success 1\n" not in text]
    assert not failed, f"no answer from {', '.join(sorted(failed))}"


def test_the_rules_for_alerts_are_loaded(scraper: Service) -> None:
    groups = fetch(scraper, "/api/v1/rules?type=alert")["groups"]
    rules = {rule["name"]: rule for group in groups for rule in group["rules"]}
    assert rules, "there is no rule"
    broken = {name: rule["lastError"] for name, rule in rules.items() if rule["health"] == "err"}
    assert not broken, str(broken)


def test_what_is_kept_is_bounded(scraper: Service) -> None:
    flags = fetch(scraper, "/api/v1/status/flags")
    size = flags["storage.tsdb.retention.size"]
    assert size not in ("", "0", "0B"), "figures are kept without a limit in bytes"
    config = fetch(scraper, "/api/v1/status/config")["yaml"]
    assert config.count("sample_limit:") == config.count("job_name:"), "a scrape has no limit"


def test_alerts_are_handed_on(scraper: Service, house: House) -> None:
    active = fetch(scraper, "/api/v1/alertmanagers")["activeAlertmanagers"]
    for need in scraper.needs:
        sender = house.services[need]
        assert any(sender.url in one["url"] for one in active), f"{need} gets no alerts"
        receivers = [one["name"] for one in fetch(sender, "/api/v2/receivers")]
        config = fetch(sender, "/api/v2/status")["config"]["original"]
        kinds = [kind for kind in ("webhook_configs", "email_configs") if f"{kind}:" in config]
        assert receivers, f"{need} has no receiver"
        assert kinds, f"{need} has a receiver without a way to people"


def test_only_the_houses_own_password_opens_its_alerts(
    push_site: Site, house: House, edge: Edge, vault: Vault
) -> None:
    (secret,) = house.services[push_site.service].secrets
    for password, status in ((vault.get(secret), 200), ("wrong", 401), (None, 403)):
        pair = base64.b64encode(f"{NAME}:{password}".encode()).decode()
        headers = {"Authorization": f"Basic {pair}"} if password else {}
        ask(edge, push_site.fqdn, f"/{NAME}/auth", status, headers=headers)
