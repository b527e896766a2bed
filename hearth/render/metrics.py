"""What is measured, when that is an alert, and who is told: files of Prometheus and Alertmanager.

All are plain data for YAML. The names of figures of the house itself are those of hearth.prom.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from hearth.catalogue.house import House, Service

SCRAPE_S = 15
# Each probe is a TLS handshake and a request; the watcher looks at the services themselves.
PROBE_S = 60
# A scrape beyond them fails as a whole, and an alert says so: one program with 100,000 series, or
# with a label of a megabyte, must not take the memory of all figures.
BOUNDS: Mapping[str, Any] = {
    "body_size_limit": "4MB",
    "sample_limit": 5000,
    "label_limit": 24,
    "label_name_length_limit": 128,
    "label_value_length_limit": 256,
}
# Figures about a program's own runtime, which no rule and no page reads.
_LEFT_OUT = "go_.+|promhttp_.+|net_conntrack_.+|prometheus_(engine|sd|http|template|treecache)_.+"


class MetricsError(ValueError):
    """A setting is not valid; the text is one line with the change to make."""


def prometheus_config(house: House, service: Service, rules: str) -> dict[str, Any]:
    """Return the configuration of the scraper, which reads its alerts from the file `rules`."""
    targets = {
        owner.name: f"{owner.address}:{owner.metrics_port}"
        for owner in house.services.values()
        if owner.address and owner.metrics_port
    }
    targets |= {
        part.name: f"{house.machine.resolver_address}:{part.metrics_port}"
        for part in house.parts.values()
        if part.metrics_port
    }
    alertmanagers = [urlsplit(house.services[need].url).netloc for need in service.needs]
    return {
        "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"},
        "rule_files": [rules],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": alertmanagers}]}]},
        "scrape_configs": [
            *(_job(name, [target]) for name, target in targets.items()),
            *(
                _probes(house, targets[part.name])
                for part in house.parts.values()
                if part.probes and part.metrics_port
            ),
        ],
    }


def _job(name: str, targets: list[str]) -> dict[str, Any]:
    return {
        "job_name": name,
        **BOUNDS,
        "target_limit": len(targets),
        "static_configs": [{"targets": targets}],
        "metric_relabel_configs": [
            {"source_labels": ["__name__"], "regex": _LEFT_OUT, "action": "drop"}
        ],
    }


def _probes(house: House, prober: str) -> dict[str, Any]:
    """Return the job that has every published name probed, by the prober at an address."""
    return {
        **_job("sites", [f"https://{site.fqdn}/" for site in house.sites]),
        "scrape_interval": f"{PROBE_S}s",
        "metrics_path": "/probe",
        "params": {"module": ["site"]},
        "relabel_configs": [
            {"source_labels": ["__address__"], "target_label": "__param_target"},
            {
                "source_labels": ["__address__"],
                "regex": "https://([^/]+)/",
                "target_label": "instance",
            },
            {"target_label": "__address__", "replacement": prober},
        ],
    }


def _about(expr: str, label: str) -> str:
    """Return the expression with one label of its result as `about`, and without the others."""
    return f'max by (about) (label_replace({expr}, "about", "$1", "{label}", "(.+)"))'


# A run stops and starts programs. Where the watcher has died meanwhile, nothing is known of a run.
_RUN = "hearth:run_active"
_RUN_EXPRESSION = "hearth_run_active == 1 and on() (time() - hearth_watch_timestamp_seconds < 60)"
# What the watcher reports has an alert of its own; a second one would be about the same.
_REPORTED = 'count by (about) (hearth_finding{about!=""})'
_UP = 'up{job!="sites"} == 0'
# Rows that are no programs, such as the disk's, have findings of other names.
_NAMES = "NAMES"
_PROGRAM = f'hearth_up{{name=~"{_NAMES}"}}'
# What only Prometheus sees: an expression for each kind, and how long it must be so.
_SEEN: Mapping[str, tuple[str, str]] = {
    # A finding usually says more. Two scrapes, since a program may restart by itself.
    "HEARTH-SERVICE-DOWN": (
        f"{_about(f'max_over_time({_PROGRAM}[25s]) == 0', 'name')} unless on(about) {_REPORTED}",
        "15s",
    ),
    # A program that ends again and again may be up at each look, and is never `failed`.
    "HEARTH-SERVICE-LOOPS": (
        f"{_about(f'changes({_PROGRAM}[15m]) >= 12', 'name')} unless on(about) {_REPORTED}",
        "15s",
    ),
    "HEARTH-WATCHER-SILENT": (
        "time() - max(hearth_watch_timestamp_seconds) > 60"
        " or absent(hearth_watch_timestamp_seconds) and on() count(node_textfile_scrape_error)",
        "2m",
    ),
    "HEARTH-METRICS-MISSING": (
        f"{_about(_UP, 'job')}"
        f" unless on(about) {_about('hearth_up == 0', 'name')} unless on(about) {_REPORTED}",
        "3m",
    ),
    "HEARTH-SITE-UNREACHABLE": (
        f"{_about('probe_success == 0', 'instance')} unless on() count(hearth_up == 0)",
        "2m",
    ),
    "HEARTH-ALERT-NOT-SENT": (
        # One may fail while its receiver restarts.
        _about("increase(alertmanager_notifications_failed_total[10m]) > 2", "integration"),
        "1m",
    ),
}


# A warning waits for a person; most end by themselves or by that person's own work before that.
_WARNING, _STANDS, _EVALUATED = "warning", "1h", "60s"
# A check that fails once does not start the hour again.
_GAP = "2m"


def alert_rules(house: House, kinds: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rules for alerts: one for each kind of finding.

    `kinds` has the severity, the title, the remedy (`todo`) and the page of each by its name.
    """
    record = {"record": _RUN, "expr": _RUN_EXPRESSION}
    errors, warnings = list[dict[str, Any]](), list[dict[str, Any]]()
    for name, kind in kinds.items():
        if kind["severity"] == _WARNING:
            found = f'max by (about) (max_over_time(hearth_finding{{name="{name}"}}[{_GAP}]))'
            warnings.append(_alert(house, name, kind, found, _STANDS))
        else:
            errors.append(_error(house, name, kind))
    return {
        "groups": [
            {"name": "hearth", "rules": [record, *errors]},
            {"name": "hearth warnings", "interval": _EVALUATED, "rules": warnings},
        ]
    }


def _error(house: House, name: str, kind: Mapping[str, Any]) -> dict[str, Any]:
    found = f'max by (about) (hearth_finding{{name="{name}"}})'
    seen, wait = _SEEN.get(name, ("", "15s"))
    names = "|".join([*house.services, *house.parts])
    expr = f"({found} or {seen.replace(_NAMES, names)})" if seen else found
    return _alert(house, name, kind, expr, wait)


def _alert(
    house: House, name: str, kind: Mapping[str, Any], expr: str, wait: str
) -> dict[str, Any]:
    """Return one rule. During a run nothing new fires, and what fired before goes on."""
    firing = f'ALERTS{{alertname="{name}",alertstate="firing"}}'
    return {
        "alert": name,
        "expr": f"{expr} unless on() {_RUN} or ({expr} and on(about) {firing})",
        "for": wait,
        "labels": {"severity": kind["severity"]},
        "annotations": {
            "title": kind["title"],
            # ntfy accepts 4 kB for the whole message.
            "todo": kind["todo"][:600],
            "link": f"https://home.{house.machine.domain}{kind['page']}",
        },
    }


# ntfy's own templates, filled from Alertmanager's JSON: all alerts of a group are of one kind.
_TITLE = '{{if eq .status "resolved"}}Resolved: {{end}}{{.commonAnnotations.title}}'
_MESSAGE = (
    '{{range .alerts}}{{if .labels.about}}{{if eq .status "resolved"}}Resolved: {{end}}'
    "{{.labels.about}}\n{{end}}{{end}}"
    '{{if eq .status "firing"}}{{.commonAnnotations.todo}}\n{{end}}{{.commonAnnotations.link}}'
)
# ntfy reads at most 32 kB of JSON.
_MOST_ALERTS = 12
_EMAIL_FIELDS = ("to", "from", "server", "user")
_TEXT = (
    '{{ if eq .Status "resolved" }}Resolved: {{ end }}{{ .CommonAnnotations.title }}\n\n'
    '{{ range .Alerts }}{{ if .Labels.about }}{{ if eq .Status "resolved" }}Resolved: {{ end }}'
    "{{ .Labels.about }}\n{{ end }}{{ end }}\n"
    "{{ .CommonAnnotations.todo }}\n{{ .CommonAnnotations.link }}\n"
)
_PEOPLE, _CALMLY = "people", "people-calmly"
MAIL_SECRET, WEBHOOK_SECRET = "alert_mail_password", "alert_webhook_url"


def alertmanager_config(
    house: House, service: Service, email: Mapping[str, Any], secrets: str
) -> dict[str, Any]:
    """Return the configuration of the service that sends alerts; `secrets` is their folder.

    Raises:
        MetricsError: a setting for e-mail is missing or unknown.
    """
    return {
        "route": {
            "receiver": _PEOPLE,
            "group_by": ["alertname"],
            "group_wait": "10s",
            "group_interval": "30s",
            "repeat_interval": "24h",
            "routes": [
                {
                    "matchers": [f'severity="{_WARNING}"'],
                    "receiver": _CALMLY,
                    "group_wait": "1m",
                    "group_interval": "1h",
                    "repeat_interval": "24h",
                }
            ],
        },
        "receivers": [
            _receiver(house, service, email, secrets, _PEOPLE),
            _receiver(house, service, email, secrets, _CALMLY, "low"),
        ],
    }


def _receiver(
    house: House,
    service: Service,
    email: Mapping[str, Any],
    secrets: str,
    name: str,
    priority: str = "",
) -> dict[str, Any]:
    webhooks = [_push(house.services[need], secrets, priority) for need in service.needs]
    if WEBHOOK_SECRET in service.secrets:
        webhooks.append({"url_file": f"{secrets}/{WEBHOOK_SECRET}"})
    return {
        "name": name,
        **({"webhook_configs": webhooks} if webhooks else {}),
        **({"email_configs": [_email(service, email, secrets)]} if email else {}),
    }


def _push(service: Service, secrets: str, priority: str) -> dict[str, Any]:
    """Return the receiver for a push service like ntfy, with one topic and one account."""
    options = f"template=yes&title={quote(_TITLE)}&message={quote(_MESSAGE)}"
    # A phone shows one of low priority without a sound.
    options += f"&priority={priority}" if priority else ""
    name, *_ = service.secrets
    return {
        "url": f"{service.url}/house?{options}",
        "max_alerts": _MOST_ALERTS,
        "http_config": {"basic_auth": {"username": "house", "password_file": f"{secrets}/{name}"}},
    }


def _email(service: Service, email: Mapping[str, Any], secrets: str) -> dict[str, Any]:
    if unknown := [key for key in email if key not in _EMAIL_FIELDS]:
        raise MetricsError(
            f"{service.name}.settings alertmanager_email has no {unknown[0]}; "
            f"known are {', '.join(_EMAIL_FIELDS)}"
        )
    if missing := [key for key in _EMAIL_FIELDS[:3] if not email.get(key)]:
        raise MetricsError(
            f"{service.name}.settings alertmanager_email: {missing[0]} is missing; write e.g. "
            "{to: you@example.org, from: house@example.org, server: 'mail.example.org:587'}"
        )
    sign_in = {"auth_username": email.get("user"), "auth_password_file": f"{secrets}/{MAIL_SECRET}"}
    return {
        "to": email["to"],
        "from": email["from"],
        "smarthost": email["server"],
        "send_resolved": True,
        "headers": {"Subject": _TEXT.partition("\n")[0]},
        "html": "",
        "text": _TEXT,
        **(sign_in if MAIL_SECRET in service.secrets else {}),
    }
