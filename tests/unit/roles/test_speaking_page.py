"""Who may open the page that speaks is a choice in the inventory, and Caddy does as it says."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, StrictUndefined

from hearth.catalogue import derive, load
from hearth.catalogue.records import FILES

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "roles/caddy/templates/Caddyfile.j2"
PAGE, API = "kokoro-web.lan", "kokoro-stream.lan"
# As docs/text-to-speech.md shows it.
OPENED = "services:\n  kokoro:\n    publish:\n      kokoro-web: {auth: lan}\n"


def routes_of(folder: Path, own: str | None) -> dict[str, str]:
    """Host -> the JSON of what Caddy does for it over HTTPS, with `own` as a user's settings."""
    (folder / "local").mkdir()
    for name in FILES:
        shutil.copy(ROOT / "inventory" / f"{name}.yml", folder)
    if own:
        (folder / "local/services.yml").write_text(own)
    house = derive(load(folder))
    jinja = Environment(trim_blocks=True, undefined=StrictUndefined, autoescape=False)  # noqa: S701
    template = jinja.from_string(TEMPLATE.read_text())
    file = folder / "Caddyfile"
    file.write_text(
        template.render(
            house=house.as_vars(),
            caddy_authority="a",
            caddy_leaf_lifetime="168h",
            caddy_renew_every="10m",
            caddy_read_body="10m",
            caddy_retry_after_s=5,
            __caddy_intermediate_key="/k",
            __caddy_away_page="away",
            __caddy_away_policy="default-src 'none'",
        )
    )
    command = ["caddy", "adapt", "--adapter", "caddyfile", "--config", str(file)]
    adapted = subprocess.run(command, check=True, capture_output=True, timeout=30).stdout
    servers: dict[str, Any] = json.loads(adapted)["apps"]["http"]["servers"]
    (https,) = (server for server in servers.values() if server["listen"] == [":443"])
    return {
        host: json.dumps(route)
        for route in https["routes"]
        for match in route.get("match", [])
        for host in match["host"]
    }


@pytest.mark.parametrize(("own", "asks"), [(None, True), (OPENED, False)])
def test_the_page_asks_for_the_login_unless_the_inventory_opens_it(
    tmp_path: Path, own: str | None, asks: bool
) -> None:
    routes = routes_of(tmp_path, own)
    assert ('"/check"' in routes[PAGE], "/hearth-login/*" in routes[PAGE]) == (asks, asks)
    assert '"10.140.30.18:8880"' in routes[PAGE]
    # Whatever the page is, programs need a key.
    assert '"/check"' in routes[API]


def test_only_the_page_and_its_requests_are_served(tmp_path: Path) -> None:
    route = routes_of(tmp_path, None)[PAGE]
    jobs = ("/v1/audio/jobs", "/v1/audio/jobs/*")
    paths = ["/", "/page/*", "/v1/audio/speech", *jobs, "/v1/audio/voices"]
    assert json.dumps(paths) in route
    assert "/metrics" not in route
    assert "/status" not in route
