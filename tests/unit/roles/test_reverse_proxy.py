"""What Caddy itself makes of the reverse proxy's file."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def adapted(errors: bool = False) -> dict[str, Any]:
    """Return Caddy's servers by name: what they do with requests, or with errors."""
    file = str(ROOT / "caddy" / "Caddyfile")
    command = ["caddy", "adapt", "--adapter", "caddyfile", "--config", file]
    output = subprocess.run(command, check=True, capture_output=True, timeout=30).stdout
    servers: dict[str, Any] = json.loads(output)["apps"]["http"]["servers"]
    on_errors = {name: server.pop("errors") for name, server in servers.items()}
    return on_errors if errors else servers


def within(found: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in what Caddy says, the outer ones first."""
    if isinstance(found, dict):
        yield found
    inner = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    for one in inner:
        yield from within(one)


def routes(found: Any) -> Iterator[dict[str, Any]]:
    """Yield every route, with the routes in it, but plain HTTP's, which all send on."""
    for one in within(found):
        if "handle" in one and "Location" not in json.dumps(one):
            yield one


def sent_to(route: dict[str, Any]) -> dict[str, Any]:
    """Return what a request has to be for this route; of ways of its own, the first."""
    found: dict[str, Any] = route.get("match", [{}])[0]
    return found


def test_an_incomplete_request_does_not_occupy_a_connection() -> None:
    servers = adapted()
    assert {port for server in servers.values() for port in server["listen"]} == {":80", ":443"}
    for server in servers.values():
        assert 0 < server["read_header_timeout"] <= 30 * 10**9
        # Time for the largest upload at 8 Mbit/s. Responses may take as long as they need.
        assert 512 * 2**20 * 8 / 8e6 < server["read_timeout"] / 10**9 <= 900
        assert "write_timeout" not in server


def test_a_page_s_policy_is_sent_where_the_answer_has_none_of_its_own() -> None:
    (site,) = (route for route in routes(adapted()) if sent_to(route) == {"host": ["chat.lan"]})
    (sent,) = (
        one["response"]
        for one in within(site)
        if "Content-Security-Policy" in json.dumps(one.get("response", {}).get("set", {}))
    )
    (policy,) = sent["set"]["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self' ")
    assert sent["require"]["headers"] == {"Content-Security-Policy": None}
    # No other site has one: Hearth's own pages say theirs themselves.
    others = (r for r in routes(adapted()) if sent_to(r).get("host", ["chat.lan"]) != ["chat.lan"])
    assert not any("Content-Security-Policy" in json.dumps(route) for route in others)


def test_only_the_trust_page_is_served_without_https() -> None:
    (plain,) = (s for s in adapted().values() if s["listen"] == [":80"])
    answering = [route for route in plain["routes"] if "reverse_proxy" in json.dumps(route)]
    by_name = [sent_to(route) for route in answering if "host" in sent_to(route)]
    assert by_name == [{"host": ["trust.lan"]}]
    # What is no name of the house is answered by the same page where it is an address.
    (other,) = (route for route in answering if "host" not in sent_to(route))
    (condition,) = {
        json.dumps(sent_to(one)) for one in within(other) if "header_regexp" in sent_to(one)
    }
    pattern = json.loads(condition)["header_regexp"]["Host"]["pattern"]
    # A machine's own name by mDNS is as good as its address: it does not need our resolver.
    known = ("192.168.1.10", "192.168.1.10:80", "Server.local", "server.local:80")
    assert [host for host in known if not re.search(pattern, host)] == []
    for host in ("192.168.1.10.evil.example", "example.org", "1.2.3", "a.b.local", "x.local.lan"):
        assert not re.search(pattern, host), host
    upstreams = {
        one["dial"] for found in answering for one in within(found) if set(one) == {"dial"}
    }
    assert upstreams == {"127.0.0.1:9181"}


def test_every_request_is_buffered_except_files_and_checks_of_the_login() -> None:
    proxies = [
        (route, one)
        for route in within(adapted())
        for one in route.get("handle", ())
        if one["handler"] == "reverse_proxy"
    ]
    direct = [route for route, proxy in proxies if not proxy.get("buffer_requests")]
    assert 0 < len(direct) < len(proxies)
    for route in direct:
        (proxy,) = route["handle"]
        # A check has no body; decision 012 explains files.
        assert proxy.get("rewrite", {}).get("method") == "GET" or "{1,7}$" in json.dumps(
            sent_to(route)
        ), route


def test_a_browser_may_return_to_the_trust_page_without_https() -> None:
    for route in routes(adapted()):
        for host in sent_to(route).get("host", []):
            remembered = "Strict-Transport-Security" in json.dumps(route)
            assert remembered is (host != "trust.lan"), host


def test_a_stopped_program_has_an_error_page() -> None:
    errors = adapted(errors=True)
    for name, server in adapted().items():
        handled = [sent_to(one) for one in errors[name]["routes"] if says(one, "is unavailable")]
        proxied = [sent_to(one) for one in server["routes"] if says(one, "reverse_proxy")]
        assert proxied
        assert [one for one in proxied if one not in handled] == []


def says(found: Any, words: str) -> bool:
    """Whether words stand anywhere in what Caddy says."""
    return words in json.dumps(found)


def test_no_device_can_leave_its_requests_out_of_the_figures() -> None:
    mark = '{"delete": ["X-Hearth-Canary"]}'
    sites = [
        json.dumps(one)
        for server in adapted().values()
        for one in server["routes"]
        if "host" in sent_to(one) and says(one, "reverse_proxy")
    ]
    assert len(sites) > 5
    for site in sites:
        # Before anything reads the request.
        assert 0 < site.find(mark) < site.find("reverse_proxy"), site[:200]
