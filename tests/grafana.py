"""Writes docs/grafana-dashboard.json, from the figures that the house's own page shows."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
PANELS_PER_ROW, WIDTH, HEIGHT = 3, 8, 7
_UNITS = {"ms": "ms", "/s": "short"}
# A panel: its title, Grafana's unit, and queries with their legends.
Panel = tuple[str, str, Sequence[tuple[str, str]]]


def _page() -> ModuleType:
    """Return the page's module of figures, which is not installed here."""
    path = ROOT / "services/health/hearth_health/figures.py"
    spec = importlib.util.spec_from_file_location("hearth_page_figures", path)
    assert spec
    assert spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows() -> Iterator[tuple[str, list[Panel]]]:
    """Yield the dashboard's rows: a title and panels."""
    yield (
        "House",
        [
            ("Services that are up", "bool", [("hearth_up", "{{name}}")]),
            ("Findings", "short", [("sum by (name) (hearth_finding)", "{{name}}")]),
            ("Real work every few minutes", "s", [("hearth_canary_seconds", "{{what}}")]),
        ],
    )
    page = _page()
    yield (
        "Answers",
        [
            (
                figure.title,
                _UNITS[figure.unit],
                [
                    (
                        page.quantile_query(figure, quantile, 300).replace(
                            "[300s]", "[$__rate_interval]"
                        ),
                        name,
                    )
                    for name, quantile in (("median", 0.5), ("p95", 0.95))
                ],
            )
            for figure in page.FIGURES
        ],
    )
    tokens = "rate(gen_ai_client_token_usage_total[$__rate_interval])"
    by_model = f"sum by (gen_ai_response_model, gen_ai_token_type) ({tokens})"
    cloud = 'increase(hearth_gateway_requests_total{hearth_cloud="true"}[1h])'
    yield (
        "Models",
        [
            ("Tokens", "short", [(by_model, "{{gen_ai_response_model}} {{gen_ai_token_type}}")]),
            ("Requests to the cloud per hour", "short", [(f"sum({cloud})", "requests")]),
            (
                "Models in memory",
                "bytes",
                [("hearth_loaded_model_bytes", "{{model}} ({{where}})")],
            ),
        ],
    )
    busy = 'rate(node_cpu_seconds_total{mode="idle"}[$__rate_interval])'
    yield (
        "Machine",
        [
            ("Processors busy", "percentunit", [(f"1 - avg({busy})", "busy")]),
            (
                "Memory",
                "bytes",
                [
                    ("node_memory_MemTotal_bytes", "total"),
                    ("node_memory_MemAvailable_bytes", "available"),
                ],
            ),
            ("Free disk", "bytes", [("node_filesystem_avail_bytes", "{{mountpoint}}")]),
            (
                "Temperature",
                "celsius",
                [
                    ("max by (chip) (node_hwmon_temp_celsius)", "{{chip}}"),
                    ("nvidia_temperature_celsius", "card {{card}}"),
                ],
            ),
            (
                "Cards busy",
                "percentunit",
                [
                    ("nvidia_busy_ratio", "card {{card}}"),
                    ("node_drm_gpu_busy_percent / 100", "{{card}}"),
                ],
            ),
            (
                "Cards' memory in use",
                "bytes",
                [
                    ("nvidia_memory_used_bytes", "card {{card}}"),
                    ("node_drm_memory_vram_used_bytes", "{{card}}"),
                ],
            ),
        ],
    )
    left = "probe_ssl_earliest_cert_expiry - time()"
    yield (
        "Names and figures",
        [
            ("Time to open a name", "s", [("probe_duration_seconds", "{{instance}}")]),
            ("Certificates end in", "s", [(left, "{{instance}}")]),
            ("Figures kept", "short", [("prometheus_tsdb_head_series", "series")]),
        ],
    )


def dashboard() -> str:
    """Return the dashboard as Grafana imports it."""
    numbers, panels, top = count(1), list[dict[str, Any]](), 0
    source = {"type": "prometheus", "uid": "${datasource}"}
    for title, row in rows():
        at = {"x": 0, "y": top, "w": PANELS_PER_ROW * WIDTH, "h": 1}
        panels.append(
            {
                "id": next(numbers),
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": at,
                "panels": [],
            }
        )
        top += 1
        for place, (name, unit, queries) in enumerate(row):
            x, y = place % PANELS_PER_ROW * WIDTH, top + place // PANELS_PER_ROW * HEIGHT
            panels.append(
                {
                    "id": next(numbers),
                    "type": "timeseries",
                    "title": name,
                    "datasource": source,
                    "gridPos": {"x": x, "y": y, "w": WIDTH, "h": HEIGHT},
                    "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
                    "targets": [
                        {"refId": chr(ord("A") + n), "expr": expr, "legendFormat": legend}
                        for n, (expr, legend) in enumerate(queries)
                    ],
                }
            )
        top += -(-len(row) // PANELS_PER_ROW) * HEIGHT
    chosen = {"name": "datasource", "label": "Prometheus", "type": "datasource"}
    whole = {
        "uid": "hearth-house",
        "title": "Hearth",
        "description": "A house's figures. Published by Hearth as docs/grafana-dashboard.json.",
        "tags": ["hearth"],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": [chosen | {"query": "prometheus", "refresh": 1}]},
        "annotations": {"list": []},
        "panels": panels,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
