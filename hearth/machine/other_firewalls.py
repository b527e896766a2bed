"""Find rules of other programs that would stop the house's packets, and name the fix in one line.

Every base chain of a hook must accept a packet, so another program's drop is final. Docker's is
none: hearth-firewall-watch adds the house's exception to the chain that Docker reserves for that.
"""

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from hearth.machine.facts import LINKS

_OURS = "hearth"
_DOCKER = "DOCKER-USER"
_HOOKS = {
    "forward": 'add rules that accept `iifname "to-*"` and `oifname "to-*"`',
    "input": 'add rules that accept `iifname "to-*"`, and ports 53, 80 and 443 from the LAN',
}
# A program's name, how its tables or chains are recognised, and its commands for the house.
_KNOWN = {
    "ufw": "ufw route allow from {0}; ufw route allow to {0}; ufw allow from {0}; "
    "ufw allow 53; ufw allow 80,443/tcp",
    "firewalld": "firewall-cmd --permanent --zone=trusted --add-source={0}; firewall-cmd "
    "--permanent --add-service=dns --add-service=http --add-service=https; firewall-cmd --reload",
}
_VERDICTS = {"counter", "log", "drop", "reject", "jump", "goto"}
_LIMIT_S = 10


def firewall_problems(instances: str, root: Path = Path("/")) -> list[str]:
    """Return a line, with the fix, for each firewall that stops packets of the range `instances`.

    Nothing is found where there is no nft, or for a user who may not list rules.
    """
    return [*find(ruleset(), instances), *legacy(root)]


def ruleset() -> list[dict[str, Any]]:
    """Return all rules of this machine, as `nft --json` lists them."""
    # Terse: without what sets hold, which may be lists of the whole internet's attackers.
    text = _output("/usr/sbin/nft", "--json", "--terse", "list", "ruleset")
    listed: list[dict[str, Any]] = json.loads(text or '{"nftables": []}')["nftables"]
    return listed


def docker_drops(rules: Iterable[dict[str, Any]], instances: str) -> bool:
    """Return whether Docker's rules drop forwarded packets, without the house's exception."""
    return any(
        chain.get("hook") == "forward" and _blocks(chain, known) and _DOCKER in reached
        for known in _tables(rules).values()
        if _DOCKER in known and not _is_about(known[_DOCKER]["rules"], instances)
        for chain in known.values()
        for reached in [_reached(chain["name"], known)]
    )


def find(rules: Iterable[dict[str, Any]], instances: str) -> list[str]:
    """Return the lines about a ruleset as `nft --json` lists it."""
    found = dict.fromkeys(
        _line(family, table, chain, reached, instances)
        for (family, table), known in _tables(rules).items()
        if family in ("ip", "inet") and table != _OURS
        for chain in known.values()
        if chain.get("hook") in _HOOKS
        for reached in [_reached(chain["name"], known)]
        if _blocks(chain, known) and _DOCKER not in reached
        if not any(_is_about(known[name]["rules"], instances) for name in reached)
    )
    return list(found)


def _tables(rules: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """Return the chains of each table, each with the expressions of its rules."""
    chains: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for item in rules:
        if chain := item.get("chain"):
            table = chains.setdefault((chain["family"], chain["table"]), {})
            table[chain["name"]] = {**chain, "rules": []}
        elif rule := item.get("rule"):
            chains[rule["family"], rule["table"]][rule["chain"]]["rules"].append(rule["expr"])
    return chains


def _line(
    family: str, table: str, chain: dict[str, Any], reached: Iterable[str], instances: str
) -> str:
    program = "ufw" if any(name.startswith("ufw-") for name in reached) else table
    if program in _KNOWN:
        fix = f"run `{_KNOWN[program].format(instances)}`"
        return f"{program} would drop packets of the house's instances and devices: {fix}"
    name, hook = f"`{family} {table} {chain['name']}`", _HOOKS[chain["hook"]]
    return f"the chain {name} of another firewall drops packets of the house: {hook}"


def _blocks(chain: dict[str, Any], known: dict[str, dict[str, Any]]) -> bool:
    """Return whether a chain ends in a drop or reject of everything that no rule accepted."""
    rules = [
        rule for name in _reached(chain["name"], known, _every) for rule in known[name]["rules"]
    ]
    return chain.get("policy") == "drop" or any(
        "drop" in one or "reject" in one for rule in filter(_every, rules) for one in rule
    )


def _every(rule: Iterable[dict[str, Any]]) -> bool:
    """Return whether the verdict of a rule is for every packet: it matches nothing."""
    return all(key in _VERDICTS for one in rule for key in one)


def _reached(
    start: str, known: dict[str, dict[str, Any]], follows: Callable[[Any], bool] = lambda _: True
) -> set[str]:
    """Return the names of all chains that these rules of a chain jump to, with its own."""
    seen, names = set[str](), [start]
    while names:
        name = names.pop()
        if name in known and name not in seen:
            seen.add(name)
            names += _targets([rule for rule in known[name]["rules"] if follows(rule)])
    return seen


def _targets(part: Any) -> Iterator[str]:
    for key, value in _pairs(part):
        if key in ("jump", "goto"):
            yield value["target"]


def _is_about(rules: Any, instances: str) -> bool:
    """Return whether rules mention the instances' links or their range, or a wider one."""
    ours = IPv4Network(instances)
    for key, value in _pairs(rules):
        if key == "right" and isinstance(value, str) and value.startswith(LINKS):
            return True
        if key == "prefix" and isinstance(value, dict):
            try:
                other = IPv4Network(f"{value['addr']}/{value['len']}", strict=False)
            except ValueError:
                continue
            # The range of all addresses says nothing about the house.
            if other.prefixlen and other.overlaps(ours):
                return True
    return False


def _pairs(part: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key and value of nested JSON."""
    values = part if isinstance(part, list) else []
    if isinstance(part, dict):
        yield from part.items()
        values = list(part.values())
    for value in values:
        yield from _pairs(value)


def legacy(root: Path) -> Iterator[str]:
    """Yield what is wrong with rules that nft does not list: those of the older iptables."""
    try:
        tables = (root / "proc/net/ip_tables_names").read_text().split()
    except OSError:
        return
    if "filter" in tables and "-P FORWARD DROP" in _output(
        "/usr/sbin/iptables-legacy", "-S", "FORWARD"
    ):
        yield (
            "iptables-legacy drops forwarded packets, and the house's exceptions are nftables "
            "rules: run `update-alternatives --set iptables /usr/sbin/iptables-nft`, then reboot"
        )


def _output(*argv: str) -> str:
    """Return what a program prints; nothing if it is not there or fails."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            argv, capture_output=True, text=True, check=False, timeout=_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
