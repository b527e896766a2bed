"""What the machine's firewall leaves open to the LAN, as it is rendered."""

from __future__ import annotations

from pathlib import Path

from tests.role_data import reference_house, rendered_file

ELSEWHERE = 'iifname "lan0" ip6 daddr != fe80::/10'


def test_the_houses_ports_are_closed_at_routable_ipv6_addresses(
    tmp_path: Path,
) -> None:
    text = rendered_file("firewall", "firewall.nft.j2", reference_house(tmp_path))
    chain = text.partition("chain input {")[2].partition("\n\t}")[0]
    rules = [line.strip() for line in chain.splitlines()]
    shut = [rules.index(line) for line in rules if line.startswith(ELSEWHERE)]
    assert [rules[at].partition(ELSEWHERE)[2].strip() for at in shut] == [
        "tcp dport { 53, 80, 443 } reject with tcp reset",
        "udp dport 53 reject with icmpx admin-prohibited",
    ]
    # Who is refused takes no place among those whose questions are counted.
    counted = [at for at, line in enumerate(rules) if line.endswith("jump dns_limit")]
    assert counted
    assert max(shut) < min(counted)
