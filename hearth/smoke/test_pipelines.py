"""The pipelines server runs the inventory's pipelines, requires its key, and accepts no changes."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from hearth.catalogue.house import House, Service
from hearth.catalogue.pipelines import files
from hearth.clients.endpoints import Endpoint
from hearth.machine.secrets import Vault
from hearth.project import Project
from hearth.smoke.hosts import connections, host

pytestmark = pytest.mark.home

WITHIN_S = 10
# Upstream's server requires no key for these.
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


def request(pipes: Service, method: str, path: str, key: str | None) -> httpx.Response:
    """Send a request to the server itself, as only the chat and the machine's root can."""
    # Accepted by mistake, an empty body changes nothing.
    return Endpoint(pipes.name, pipes.url, key=key).send(method, path, WITHIN_S, json={})


@pytest.fixture
def own_key(pipes: Service, vault: Vault) -> str:
    (secret,) = pipes.secrets
    return vault.get(secret)


def folder(pipes: Service) -> str:
    """Return the folder of the pipelines in the instance."""
    return f"/opt/hearth/{pipes.name}_files/current"


def installed(pipes: Service) -> list[str]:
    """Return the pipelines that the instance was given."""
    names = host(pipes.instance).file(folder(pipes)).listdir()
    return sorted(name.removesuffix(".py") for name in names if name.endswith(".py"))


def test_every_pipeline_of_the_inventory_runs(
    pipes: Service, own_key: str, project: Project
) -> None:
    listed = request(pipes, "GET", "/v1/pipelines", own_key).json()["data"]
    given = installed(pipes)
    missing = sorted(set(given) - {one["name"] for one in listed})
    assert not missing, f"not loaded, for reasons in the server's journal: {', '.join(missing)}"
    assert set(given) <= files(project.inventory).keys(), "some are no longer in the inventory"


def test_pipelines_require_the_key(pipes: Service) -> None:
    # A house may have no pipeline.
    name = next(iter(installed(pipes)), "nobody")
    for method, path in OPEN + CHANGES:
        for key in (None, "wrong"):
            answer = request(pipes, method, path.format(name=name), key)
            assert answer.status_code == 401, f"{method} {path}: HTTP {answer.status_code}"


def test_pipelines_cannot_be_changed_over_http(pipes: Service, own_key: str) -> None:
    for method, path in CHANGES:
        # There is no such pipeline: accepted by mistake, the request does no harm.
        answer = request(pipes, method, path.format(name="nobody"), own_key)
        assert answer.status_code == 403, f"{method} {path}: HTTP {answer.status_code}"


def test_pipelines_are_read_only_and_cannot_install_packages(pipes: Service) -> None:
    instance, place = host(pipes.instance), folder(pipes)
    # Not even root may write, since root owns nothing here.
    assert instance.run(f"touch {place}/new.py").rc != 0
    for name in installed(pipes):
        assert json.loads(instance.file(f"{place}/{name}/valves.json").content_string) is not None
    python = f"PYTHONPATH=/opt/hearth/{pipes.name}/current python3 -P -m"
    assert instance.run(f"{python} pip --version").rc != 0


def test_only_services_that_need_pipelines_reach_them(pipes: Service, house: House) -> None:
    allowed = {flow.source for flow in house.flows if flow.target == pipes.name}
    others = [s for s in house.services.values() if s.address and s.name != pipes.name]
    target = [(str(pipes.address), int(pipes.port or 0))]
    with ThreadPoolExecutor() as pool:
        attempts = pool.map(lambda service: connections(service.instance, target), others)
    for service, (tried,) in zip(others, attempts, strict=True):
        wanted = ("open",) if service.name in allowed else ("rejected", "silent")
        assert tried.outcome in wanted, f"from {service.name}: {tried}"
    assert not pipes.sites, "it has no login of its own: it must not be published"
