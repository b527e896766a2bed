"""Each alert fires when it should and is silent when it should be, by Prometheus' own test runner.

One run of promtool takes all cases; they are the house's rules as they are rendered.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearth.catalogue.house import House
from hearth.doctor.kinds import ALL
from hearth.render import metrics
from tests.documents import shipped_house

ROOT = Path(__file__).parents[3]
RULES = ROOT / "incus/rules.yml"
END_S = 300
# Of a quiet house: one sample every 15 s, and times that begin with 0, as promtool's clock does.
QUIET = {
    "hearth_run_active": "0x40",
    "hearth_watch_timestamp_seconds": "0+15x40",
    "node_textfile_scrape_error": "0x40",
    'hearth_up{name="kokoro"}': "1x40",
    'up{job="kokoro"}': "1x40",
    'probe_success{job="sites",instance="chat.lan"}': "1x40",
    'alertmanager_notifications_failed_total{integration="email"}': "3x40",
}
RUN = {"hearth_run_active": "1x40"}
DOWN = {'hearth_up{name="kokoro"}': "0x40"}
REPORTED = {'hearth_finding{name="HEARTH-DISK-FULL",about="kokoro"}': "1x40"}
Series = Mapping[str, str]
# What only Prometheus sees: cases that fire, each with what the alert is about, and silent ones.
SEEN: Mapping[str, tuple[list[tuple[str, Series]], list[Series]]] = {
    "HEARTH-SERVICE-DOWN": (
        [("kokoro", DOWN)],
        # A program that restarts at once, and one of which the watcher says more.
        [{'hearth_up{name="kokoro"}': "1x17 0 1x22"}, DOWN | REPORTED, DOWN | RUN],
    ),
    "HEARTH-SERVICE-LOOPS": (
        [("kokoro", {'hearth_up{name="kokoro"}': "1 0 1 1 0 1 0 0 1 0 1 1 0 1 0 1 0 1 0 1 1"})],
        [{'hearth_up{name="kokoro"}': "1x5 0 0 1x5 0 1x20"}],
    ),
    "HEARTH-WATCHER-SILENT": (
        [
            ("", {"hearth_watch_timestamp_seconds": "0x40"}),
            # Its file is gone, and the exporter is there.
            ("", {"hearth_watch_timestamp_seconds": "_x40"}),
            # A run that was never ended must not silence this for ever.
            ("", {"hearth_watch_timestamp_seconds": "0x40"} | RUN),
        ],
        [{"hearth_watch_timestamp_seconds": "0 0 0 0+15x40"}],
    ),
    "HEARTH-METRICS-MISSING": (
        [("kokoro", {'up{job="kokoro"}': "0x40"})],
        [{'up{job="kokoro"}': "0x40"} | DOWN, {'up{job="sites",instance="chat.lan"}': "0x40"}],
    ),
    "HEARTH-SITE-UNREACHABLE": (
        [("chat.lan", {'probe_success{job="sites",instance="chat.lan"}': "0x40"})],
        [{'probe_success{job="sites",instance="chat.lan"}': "0x40"} | DOWN],
    ),
    "HEARTH-ALERT-NOT-SENT": (
        [("email", {'alertmanager_notifications_failed_total{integration="email"}': "0+1x40"})],
        [{'alertmanager_notifications_failed_total{integration="email"}': "3x9 4x40"}],
    ),
}


@pytest.fixture(scope="module")
def house() -> House:
    return shipped_house()


@pytest.fixture(scope="module")
def rules() -> dict[str, Any]:
    """The rules for errors by their names."""
    return rules_of("error")


@pytest.fixture(scope="module")
def warnings() -> dict[str, Any]:
    """The rules for warnings by their names."""
    return rules_of("warning")


def rules_of(severity: str) -> dict[str, Any]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    every = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    return {one["alert"]: one for one in every if one["labels"]["severity"] == severity}


def run(*argv: str | Path) -> str:
    """Run one of Debian's checkers, which must accept; return what it prints."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def expected(rule: dict[str, Any], about: str | None, at_s: int = END_S) -> dict[str, Any]:
    """Return what promtool expects: the alert about this, or silence (None)."""
    labels = {**rule["labels"], **({"about": about} if about else {})}
    fires = [{"exp_labels": labels, "exp_annotations": rule["annotations"]}]
    return {
        "eval_time": f"{at_s}s",
        "alertname": rule["alert"],
        "exp_alerts": [] if about is None else fires,
    }


def case(series: Series, *alerts: dict[str, Any]) -> dict[str, Any]:
    """Return one test for promtool: a quiet house with other series, and what is expected."""
    return {
        "name": str(series),
        "interval": "15s",
        "input_series": [{"series": k, "values": v} for k, v in (QUIET | {**series}).items()],
        "alert_rule_test": list(alerts),
    }


def findings(names: Iterable[str], about: str, values: str = "1x40") -> Series:
    """Return the series by which the watcher reports these findings."""
    return {
        f'hearth_finding{{name="{name}",about="{about}",severity="error"}}': values
        for name in names
    }


def check(folder: Path, *tests: dict[str, Any]) -> None:
    """Have promtool run the tests with the rendered rules."""
    content = {"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [*tests]}
    (folder / "tests.yml").write_text(yaml.safe_dump(content, width=1000))
    run("promtool", "test", "rules", folder / "tests.yml")


def test_each_finding_is_its_own_alert_and_none_in_a_run_or_a_quiet_house(
    rules: dict[str, Any], tmp_path: Path
) -> None:
    silent = [expected(rule, None) for rule in rules.values()]
    about = {name: f"about {name}" for name in rules}
    each = {key: v for name in rules for key, v in findings([name], about[name]).items()}
    check(
        tmp_path,
        case(each, *(expected(rule, about[name]) for name, rule in rules.items())),
        case(findings(rules, ""), *(expected(rule, "") for rule in rules.values())),
        case(findings(["HEARTH-OTHER"], "kokoro"), *silent),
        case({**each, **RUN}, *silent),
        case({}, *silent),
    )


@pytest.mark.parametrize("name", SEEN)
def test_what_only_prometheus_sees_is_an_alert(
    rules: dict[str, Any], name: str, tmp_path: Path
) -> None:
    fires, silent = SEEN[name]
    check(
        tmp_path,
        *(case(series, expected(rules[name], about)) for about, series in fires),
        *(case(series, expected(rules[name], None)) for series in silent),
    )


def test_what_fired_before_a_run_goes_on_and_ends_with_its_cause(
    rules: dict[str, Any], tmp_path: Path
) -> None:
    # A run from 60 s to 240 s; the fault is gone at 180 s.
    name = "HEARTH-SERVICE-HUNG"
    series = {"hearth_run_active": "0x3 1x11 0x20", **findings([name], "kokoro", "1x11 stale")}
    rule = rules[name]
    check(tmp_path, case(series, expected(rule, "kokoro", 150), expected(rule, None, 210)))


# An hour and a quarter, in which nothing else happens.
LONG = {"hearth_run_active": "0x300", "hearth_watch_timestamp_seconds": "0+15x300"}
HOUR_S, EVALUATED_S = 3600, 60


def test_a_warning_is_an_alert_after_an_hour_and_not_before(
    warnings: dict[str, Any], tmp_path: Path
) -> None:
    about = {name: f"about {name}" for name in warnings}
    each = {
        key: v for name in warnings for key, v in findings([name], about[name], "1x300").items()
    }
    before, after = HOUR_S - EVALUATED_S, HOUR_S + EVALUATED_S
    silent = [expected(rule, None, after) for rule in warnings.values()]
    check(
        tmp_path,
        case(
            {**LONG, **each},
            *(expected(rule, None, before) for rule in warnings.values()),
            *(expected(rule, about[name], after) for name, rule in warnings.items()),
        ),
        case(LONG, *silent),
        case({**LONG, **each, "hearth_run_active": "1x300"}, *silent),
    )


def test_a_warning_that_comes_and_goes_waits_for_its_own_hour(
    warnings: dict[str, Any], tmp_path: Path
) -> None:
    name = "HEARTH-BACKUP-OLD"
    rule, after = warnings[name], HOUR_S + EVALUATED_S
    # A run from minute 63 on, and the warning ends in minute 70.
    run = {"hearth_run_active": "0x251 1x50"}
    check(
        tmp_path,
        # A check that fails for half a minute.
        case({**LONG, **findings([name], "", "1x100 stale _ 1x200")}, expected(rule, "", after)),
        case(
            {**LONG, **findings([name], "", "1x120 stale _x60 1x120")}, expected(rule, None, after)
        ),
        case({**LONG, **findings([name], "", "1x220 stale")}, expected(rule, None, after)),
        case(
            {**LONG, **run, **findings([name], "", "1x280 stale")},
            expected(rule, "", 4140),
            expected(rule, None, 4440),
        ),
    )


def test_every_kind_of_finding_is_an_alert_with_its_page(
    rules: dict[str, Any], warnings: dict[str, Any]
) -> None:
    assert {*rules, *warnings} == set(ALL)
    assert set(rules) >= set(SEEN)
    for name, rule in (rules | warnings).items():
        assert rule["labels"] == {"severity": ALL[name].severity}
        assert rule["annotations"]["link"] == f"https://home.lan/findings/{name}"
        assert rule["annotations"]["todo"]


def test_prometheus_accepts_its_configuration(tmp_path: Path) -> None:
    text = (ROOT / "incus/prometheus.yml").read_text()
    (tmp_path / "prometheus.yml").write_text(text.replace("/etc/hearth/rules.yml", str(RULES)))
    run("promtool", "check", "config", tmp_path / "prometheus.yml")
    jobs = {job["job_name"]: job for job in yaml.safe_load(text)["scrape_configs"]}
    assert {"kokoro", "node_exporter", "prometheus", "alertmanager", "sites"} <= set(jobs)
    for job in jobs.values():
        assert set(metrics.BOUNDS) <= set(job)
    (sites,) = jobs["sites"]["static_configs"]
    assert "https://chat.lan/" in sites["targets"]


EMAIL = {"to": "you@example.org", "from": "house@example.org", "server": "mail.example.org:587"}


def test_alertmanager_accepts_every_receiver(house: House, tmp_path: Path) -> None:
    run("amtool", "check-config", ROOT / "incus/alertmanager.yml")
    service = replace(
        house.services["alertmanager"],
        secrets={metrics.MAIL_SECRET: "given", metrics.WEBHOOK_SECRET: "given"},
    )
    config = metrics.alertmanager_config(house, service, EMAIL | {"user": "house"}, "/run/secrets")
    receiver, calm = config["receivers"]
    push, webhook = receiver["webhook_configs"]
    # The same ways lead to people, the push service's without a sound.
    quiet = {**push, "url": f"{push['url']}&priority=low"}
    assert calm == {**receiver, "name": calm["name"], "webhook_configs": [quiet, webhook]}
    assert push["url"].startswith("http://10.140.30.42:2586/house?template=yes&title=")
    assert push["http_config"]["basic_auth"]["password_file"] == "/run/secrets/ntfy_password"
    assert webhook == {"url_file": "/run/secrets/alert_webhook_url"}
    (email,) = receiver["email_configs"]
    assert email["auth_password_file"] == "/run/secrets/alert_mail_password"
    # Debian 12, which also runs these tests, has an Alertmanager without files for URLs.
    for one in (receiver, calm):
        one["webhook_configs"][1] = {"url": "https://example.org/hook"}
    (tmp_path / "alertmanager.yml").write_text(yaml.safe_dump(config, width=1000))
    run("amtool", "check-config", tmp_path / "alertmanager.yml")


def test_a_warning_has_a_way_of_its_own_which_is_calm() -> None:
    path = ROOT / "incus/alertmanager.yml"
    receivers = {
        severity: run(
            *("amtool", "config", "routes", "test", "--config.file", path),
            *("alertname=HEARTH-X", f"severity={severity}"),
        ).strip()
        for severity in ("error", "warning")
    }
    config = yaml.safe_load(path.read_text())
    ways = {one["name"]: one["webhook_configs"][0]["url"] for one in config["receivers"]}
    assert "priority=" not in ways[receivers["error"]]
    assert ways[receivers["warning"]].endswith("&priority=low")
    (calmly,) = config["route"]["routes"]
    # It waits for others of its kind, and comes once a day.
    waits = {key: calmly[key] for key in ("group_wait", "group_interval", "repeat_interval")}
    assert waits == {"group_wait": "1m", "group_interval": "1h", "repeat_interval": "24h"}


@pytest.mark.parametrize(
    ("email", "line"),
    [
        (EMAIL | {"host": "x"}, "has no host; known are to, from, server, user"),
        ({"to": "you@example.org"}, "from is missing; write e.g. {to: you@example.org, "),
    ],
)
def test_a_wrong_setting_for_email_is_one_line(
    house: House, email: dict[str, str], line: str
) -> None:
    with pytest.raises(metrics.MetricsError, match=line):
        metrics.alertmanager_config(house, house.services["alertmanager"], email, "/run/secrets")
