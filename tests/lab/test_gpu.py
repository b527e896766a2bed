"""Mesa's software device: never taken for a GPU, used when asked for by its name."""

import json
from collections.abc import Iterator

import pytest

from tests.lab.house import OVERLAY, SMOKE, TREES, House
from tests.lab.saved import HOUSE

pytestmark = pytest.mark.lab

# What a deploy measures of its model, and the device that it computes on.
ON_WHAT = (
    f"({SMOKE} -m home -k test_the_accelerator --hearth-events=/root/events) >&2; "
    "cat /root/events; rm /root/events"
)
IMAGE = "    image: debian/forky\n"


@pytest.fixture(scope="module", autouse=True)
def _unspoilt(house: House) -> Iterator[None]:
    """Restore the house if a failed test has left its settings changed."""
    before = house.shell(f"cat {OVERLAY}")
    yield
    if house.shell(f"cat {OVERLAY}") != before:
        house.back_to(HOUSE)


def journal(house: House, words: str) -> str:
    """Return the lines that Ollama has logged since its last start with this text."""
    return house.shell(
        "run=$(incus exec ollama -- systemctl show -p InvocationID --value ollama </dev/null)\n"
        "incus exec ollama -- journalctl --no-pager -o cat _SYSTEMD_INVOCATION_ID=$run "
        f"</dev/null | grep -E '{words}' || true"
    )


def test_auto_chose_the_cpu(house: House) -> None:
    # An earlier test may have filled the disk, and then journald drops its oldest lines.
    house.shell("incus exec ollama -- systemctl restart ollama </dev/null")
    house.wait_green()
    found = journal(house, "inference compute")
    assert "library=cpu" in found, found
    assert "llvmpipe" not in found


def test_vulkan_is_refused_before_anything_is_made(house: House) -> None:
    before, pids = house.state(*TREES), house.processes()
    house.edit("services.yml", IMAGE, f"{IMAGE}    gpu: vulkan\n")
    done = house.up()
    assert done.returncode == 1
    error = " ".join(done.stderr.split())
    assert "ollama asks for gpu: vulkan" in error, error
    assert "llvmpipe is a software device and not a GPU" in error
    after = house.state(*TREES)
    assert [tree for tree in before if before[tree] != after[tree]] == []
    assert house.processes() == pids


def test_software_runs_on_mesa_and_is_called_software(house: House) -> None:
    house.edit("services.yml", "gpu: vulkan", "gpu: software")
    house.converge("ollama")
    house.wait_green()
    events = house.shell(ON_WHAT)
    assert "llvmpipe" in journal(house, "inference compute.*library=Vulkan")
    # llama.cpp's own log of where it computes, once it has loaded a model.
    assert journal(house, "Vulkan0.*llvmpipe|llvmpipe.*Vulkan0")
    *_, notes = map(json.loads, events.splitlines())
    found = notes["accelerator"]
    assert found["measured"] == "software", found
    assert "llvmpipe" in found["device"]
    assert "no GPU" in found["device"]


def test_auto_chooses_the_cpu_again(house: House) -> None:
    house.edit("services.yml", "    gpu: software\n", "")
    house.converge("ollama")
    found = journal(house, "inference compute")
    assert "library=cpu" in found, found
    assert "llvmpipe" not in found
    house.wait_green()
