"""The dashboard is valid by Grafana's own types, and asks only for figures that there are."""

from __future__ import annotations

import json
import re
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import grafana

ROOT = Path(__file__).parents[3]
# Where programs of ours name their figures; a name may be composed of its start and its end.
OURS = [
    path
    for top in ("hearth", "services")
    for path in (ROOT / top).rglob("*.py")
    if "tests" not in path.parts and path.name != "figures.py"
] + [ROOT / "services/gateway/hearth_gateway/figures.py"]
# Figures of Debian's exporters, as they name them.
THEIRS = {
    *("node_cpu_seconds_total", "node_memory_MemTotal_bytes", "node_memory_MemAvailable_bytes"),
    *("node_filesystem_avail_bytes", "node_hwmon_temp_celsius", "node_drm_gpu_busy_percent"),
    *("node_drm_memory_vram_used_bytes", "probe_ssl_earliest_cert_expiry"),
    *("probe_duration_seconds", "prometheus_tsdb_head_series"),
}
NAME = re.compile(r"\b(?:hearth|gen_ai|kokoro|whisper|nvidia|node|probe|prometheus)_[a-z_A-Z]+")


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    """The dashboard as it is committed."""
    found: dict[str, Any] = json.loads((ROOT / "docs/grafana-dashboard.json").read_text())
    return found


def expressions(written: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in written["panels"] for target in panel.get("targets", [])]


def test_grafanas_own_types_read_and_write_it_unchanged(written: dict[str, Any]) -> None:
    # It has no types for mypy, and is needed here only.
    models = import_module("grafana_foundation_sdk.models.dashboard")
    plugins = import_module("grafana_foundation_sdk.cog.plugins")
    encoder = import_module("grafana_foundation_sdk.cog.encoder").JSONEncoder
    plugins.register_default_plugins()
    read = models.Dashboard.from_json(written)
    again = json.loads(encoder(sort_keys=True).encode(read))
    # A field that Grafana does not know would be lost.
    assert lost(written, again) == []


def lost(given: Any, found: Any, at: str = "") -> list[str]:
    """Return the places in `given` whose values are not in `found`."""
    if isinstance(given, dict) and isinstance(found, dict):
        return [place for key in given for place in lost(given[key], found.get(key), f"{at}.{key}")]
    if isinstance(given, list) and isinstance(found, list) and len(given) == len(found):
        pairs = enumerate(zip(given, found, strict=True))
        return [place for n, (one, other) in pairs for place in lost(one, other, f"{at}[{n}]")]
    return [] if given == found else [at]


def test_a_wrong_field_is_found(written: dict[str, Any]) -> None:
    assert lost({"panels": [{"titel": "x"}]}, {"panels": [{"title": ""}]}) == [".panels[0].titel"]


def test_prometheus_reads_every_query(written: dict[str, Any], tmp_path: Path) -> None:
    rules = [
        {"record": f"query{n}", "expr": expr.replace("$__rate_interval", "1m")}
        for n, expr in enumerate(expressions(written))
    ]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "x", "rules": rules}]}))
    argv = ["promtool", "check", "rules", str(tmp_path / "rules.yml")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


def test_every_figure_has_a_program_that_measures_it(written: dict[str, Any]) -> None:
    text = "\n".join(path.read_text() for path in OURS)
    names = {name for expr in expressions(written) for name in NAME.findall(expr)}
    plain = {re.sub("_(bucket|total)$", "", name) for name in names - THEIRS}
    assert {"kokoro_ttfa_seconds", "hearth_up", "nvidia_busy_ratio"} <= plain
    missing = [name for name in sorted(plain) if name not in text and short(name) not in text]
    assert not missing


def short(name: str) -> str:
    """Return a name without the word of its program, which servers add themselves."""
    return f'"{name.partition("_")[2]}"'


def test_panels_do_not_overlap(written: dict[str, Any]) -> None:
    places = set[tuple[int, int]]()
    for panel in written["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & places, panel["title"]
        places |= cells
    assert len(expressions(written)) > 15
    assert grafana.dashboard()
