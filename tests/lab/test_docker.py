"""The house beside Debian's Docker, which drops what it does not know; both keep working."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import httpx
import pytest

from tests import lab_machine as lab
from tests.lab import breaking, packages
from tests.lab.house import CLONE, NAME, House, changed
from tests.lab.saved import HOUSE
from tests.lab.test_firewall import KNOCK, OLLAMA, SHUT, WAYS, inside
from tests.lab.test_remove import UNMEASURED

pytestmark = pytest.mark.lab

CHAIN = "nft list chain ip filter DOCKER-USER"
OURS = f"{CHAIN} | grep --count 'accept comment \"Hearth\"' || true"
WATCH = "hearth-firewall-watch"
OPEN_S, VERDICT_S, GREEN_S = 10, 60, 90
# As on a machine where Docker came first: it turns forwarding on by itself, and drops by default.
DROPS = (
    "systemctl stop docker.socket docker; nft delete table ip filter\n"
    "sysctl --quiet net.ipv4.ip_forward=0; systemctl start docker\n"
    "sysctl net.ipv4.ip_forward; nft list chain ip filter FORWARD"
)
PORT = 8088
# A web server that Docker publishes, from an image of one file.
SERVED = (
    "tar --directory /usr/bin --create busybox | docker import - tiny\n"
    f"docker run --detach --restart always --name served --publish {PORT}:80 tiny "
    "/busybox httpd -f -p 80 -h /"
)
FETCH = "docker exec served /busybox wget -q -T 5 -O /dev/null"


@pytest.fixture(scope="module", autouse=True)
def _docker(house: House) -> Iterator[None]:
    """Install Docker, and afterwards restore the house from before."""
    try:
        packages.install(house, "docker.io", "busybox-static")
        yield
    finally:
        house.back_to(HOUSE)


def met(house: House) -> list[str]:
    """Return what meets two connections that no need allows, and one that is allowed."""
    return [house.shell(inside(source, KNOCK, *target)).split()[0] for source, *target in WAYS]


def opened(house: House) -> float:
    """Wait until the house's rules are in Docker's chain; return how long that took."""
    return breaking.until(house, "Docker's chain", f"test $({OURS}) = 2", OPEN_S)


def answers(house: House) -> None:
    """Check that the LAN reaches the container, and the container the world."""
    url = f"http://{lab.address(NAME)}:{PORT}/busybox"
    assert httpx.get(url, timeout=10, trust_env=False).status_code == 200
    outer = lab.load(NAME).outer_address
    # The package cache beside the lab answers with an error page: an answer all the same.
    done = house.inside("/bin/sh", "-c", f"{FETCH} http://{outer}:3142/ 2>&1")
    assert done.returncode == 0 or "server returned error" in done.stdout, done.stdout


def no_instance_answers_a_container(house: House) -> None:
    done = house.inside("/bin/sh", "-c", f"{FETCH} http://{OLLAMA}:11434/ 2>&1")
    assert done.returncode != 0, "a container reaches an instance"
    assert "server returned error" not in done.stdout, "a container reaches an instance"


def test_rules_that_drop_packets_are_red_at_once_and_reported_once(house: House) -> None:
    # The watch would open Docker's rules before anything is seen.
    house.shell(f"systemctl stop {WATCH}")
    shown = house.shell(DROPS)
    assert "net.ipv4.ip_forward = 1" in shown
    assert "policy drop" in shown
    began = time.monotonic()
    done = house.hearth("status", "--json")
    house.figures["status while Docker drops packets, s"] = time.monotonic() - began
    red = {row["name"]: row["text"] for row in json.loads(done.stdout)["rows"] if not row["up"]}
    assert done.returncode == 1
    assert red["connections"].startswith("no instance reaches another: no packet comes back")
    began = time.monotonic()
    done = house.hearth("verify", "--json")
    house.figures["verify while Docker drops packets, s"] = time.monotonic() - began
    assert time.monotonic() - began < VERDICT_S
    assert done.returncode == 1
    failed = [one for one in house.receipt()["verdicts"] if one["outcome"] == "failed"]
    assert [one["promise"] for one in failed] == ["instances reach each other"], failed
    assert failed[0]["detail"].startswith("no instance reaches another")


def test_the_watch_lets_needs_pass_and_nothing_else(house: House) -> None:
    house.shell(f"systemctl start {WATCH}")
    house.figures["Docker's rules are opened, s"] = opened(house)
    house.wait_green()
    *refused, allowed = met(house)
    assert allowed == "open"
    assert {*refused} <= SHUT
    # Docker keeps its chain, and an upgrade of it restarts it as well.
    house.shell("systemctl restart docker")
    opened(house)
    assert met(house)[-1] == "open"


def test_dockers_containers_work_beside_the_house(house: House) -> None:
    house.shell(SERVED)
    breaking.until(house, "the container", "docker exec served /busybox true", 30)
    answers(house)
    no_instance_answers_a_container(house)


def test_both_are_back_after_a_reboot(house: House) -> None:
    lab.reboot(NAME)
    house.wait_green()
    breaking.until(house, "the container", "docker exec served /busybox true", GREEN_S)
    opened(house)
    assert met(house)[-1] == "open"
    answers(house)
    no_instance_answers_a_container(house)
    # Beside Docker the house needs no other run, and keeps all its promises.
    counts = house.site()
    assert changed(counts) == 0, house.shell("cat /var/lib/hearth/last-run.json")
    # Speech passes no chain of Docker on its way from the reverse proxy; other parts measure it.
    house.shell(f"PYTEST_ADDOPTS='{UNMEASURED}' {CLONE}/scripts/hearth verify", timeout=600)


def test_removal_leaves_docker_as_it_was(house: House) -> None:
    house.shell(f"cd {CLONE}; scripts/hearth remove --all --yes", timeout=300)
    assert house.shell(OURS).strip() == "0"
    assert "jump DOCKER-USER" in house.shell("nft list chain ip filter FORWARD")
    assert "served" in house.shell("docker ps --format '{{.Names}}'")
    answers(house)
