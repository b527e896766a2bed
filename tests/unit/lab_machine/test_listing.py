"""The comparison of two lists of a machine excuses what Debian keeps, and nothing of a house."""

import pytest

from tests.lab.listing import differences, unexplained


@pytest.mark.parametrize(
    "line",
    [
        "files: + /var/cache/hearth d 755 root:root",
        "files: + /var/cache/incus d 700 root:root",
        "files: + /var/log/incus d 700 root:root",
        "files: + /var/log/caddy d 755 caddy:caddy",
        "files: + /root/.cache/uv d 755 root:root",
        "files: + /root/.config/hearth d 755 root:root",
        "files: + /var/backups/hearth d 700 root:root",
        "files: + /var/lib/systemd/timers/stamp-hearth-backup.timer f 644 root:root",
        "files: + /var/tmp/systemd-private-1-hearth-caddy.service-x d 700 root:root",
        "living units: - their-own.service active",
        "living units: + hearth-caddy.service active",
        "routing rules: + 4 302: from 10.140.30.0/24 fwmark 0/0x8000000 prohibit",
        "kernel: + net.ipv4.conf.all.src_valid_mark = 1",
    ],
)
def test_leftovers_of_a_house_are_found(line: str) -> None:
    assert unexplained([line]) == [line]


@pytest.mark.parametrize(
    "line",
    [
        "files: + /var/cache/apt/archives/caddy_2.6.2_amd64.deb f 644 root:root",
        "files: + /var/log/alternatives.log f 644 root:root",
        "files: - /var/tmp/systemd-private-1-systemd-logind.service-x d 700 root:root",
        "living units: - ldconfig.service active",
    ],
)
def test_files_that_debian_keeps_are_ignored(line: str) -> None:
    assert unexplained([line]) == []


def test_added_and_removed_items_are_distinguished() -> None:
    before, after = {"users": {"a", "b"}}, {"users": {"b", "c"}}
    assert differences(before, after) == ["users: + c", "users: - a"]
