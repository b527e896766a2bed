"""Pipelines: all of the inventory's answer, nobody gets in without the key, nothing is fetched."""

import json

import httpx
import pytest

from hearth.catalogue.house import House, Service
from hearth.catalogue.pipelines import files
from hearth.machine import engine
from hearth.machine.secrets import Vault
from hearth.project import Project
from hearth.smoke import hosts

pytestmark = pytest.mark.home

WITHIN_S = 10
KEY = "pipelines_key"
# Of what upstream's server serves, these ask for no key of their own.
OPEN = [
    ("POST", "/v1/chat/completions"),
    ("GET", "/{name}/valves"),
    ("POST", "/v1/{name}/valves/update"),
    ("POST", "/{name}/filter/inlet"),
]
CHANGES = [
    ("POST", "/pipelines/add"),
    ("POST", "/pipelines/upload"),
    ("DELETE", "/pipelines/delete"),
    ("POST", "/pipelines/reload"),
    ("POST", "/{name}/valves/update"),
]
CLOSED = ("rejected", "silent")


def asked(pipes: Service, method: str, path: str, key: str | None) -> httpx.Response:
    """Ask the server itself, as only root on the machine and the chat may."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    # Whatever were to be let in by mistake would find nothing to do.
    with httpx.Client(timeout=WITHIN_S, trust_env=False) as client:
        return client.request(method, f"{pipes.url}{path}", headers=headers, json={})


def folder(pipes: Service) -> str:
    """Return where the pipelines lie in the instance."""
    return f"/opt/hearth/{pipes.name}_files/current"


def installed(pipes: Service) -> list[str]:
    """Return the pipelines that the house was given."""
    said = engine.execute(pipes.instance, ["/bin/ls", folder(pipes)], timeout=WITHIN_S).stdout
    return sorted(name.removesuffix(".py") for name in said.split() if name.endswith(".py"))


def test_every_pipeline_of_the_inventory_answers(
    pipes: Service, vault: Vault, project: Project
) -> None:
    listed = asked(pipes, "GET", "/v1/pipelines", vault.get(KEY)).json()["data"]
    given = installed(pipes)
    missing = sorted(set(given) - {one["name"] for one in listed})
    assert not missing, f"left out, its journal says why: {', '.join(missing)}"
    assert set(given) <= files(project.inventory).keys(), "some are no longer in the inventory"


def test_nobody_is_answered_without_the_key(pipes: Service) -> None:
    # A house may do without any.
    name = next(iter(installed(pipes)), "nobody")
    for method, path in OPEN + CHANGES:
        for key in (None, "wrong"):
            answer = asked(pipes, method, path.format(name=name), key)
            assert answer.status_code == 401, f"{method} {path}: HTTP {answer.status_code}"


def test_nothing_is_changed_over_the_wire(pipes: Service, vault: Vault) -> None:
    key = vault.get(KEY)
    # Of a name that is not there: let in by mistake, it would harm nobody.
    for method, path in CHANGES:
        answer = asked(pipes, method, path.format(name="nobody"), key)
        assert answer.status_code == 403, f"{method} {path}: HTTP {answer.status_code}"


def test_nothing_can_be_written_or_fetched_there(pipes: Service) -> None:
    inside = hosts.host(pipes.instance)
    place = folder(pipes)
    # Not even by root, who owns nothing here.
    assert inside.run(f"touch {place}/new.py").rc != 0
    for name in installed(pipes):
        assert json.loads(inside.check_output(f"cat {place}/{name}/valves.json")) is not None
    program = f"PYTHONPATH=/opt/hearth/{pipes.name}/current python3 -P -m"
    assert inside.run(f"{program} pip --version").rc != 0


def test_only_who_needs_it_reaches_it(pipes: Service, house: House) -> None:
    allowed = {flow.source for flow in house.flows if flow.target == pipes.name}
    here = [(str(pipes.address), int(pipes.port or 0))]
    for service in house.services.values():
        if not service.address or service.name == pipes.name:
            continue
        (tried,) = hosts.connections(service.instance, here)
        wanted = ("open",) if service.name in allowed else CLOSED
        assert tried.outcome in wanted, f"from {service.name}: {tried}"
    assert not pipes.publish, "it asks nobody for a password: it must not be published"
