"""A digest is recorded on first use and never forgotten, nor used for another version."""

from pathlib import Path

import pytest
import yaml

from hearth.catalogue import derive, load
from hearth.sources import Source, SourceError, Store, installers
from hearth.sources import lock as locking
from hearth.sources.download import manifest_address
from hearth.sources.unpack import sha256_of

from .test_install import program

INVENTORY = Path(__file__).parents[3] / "inventory"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An inventory, and a mirror folder that holds one release."""
    (tmp_path / "mirror").mkdir()
    program(tmp_path / "mirror" / "tool-1.tar", "one")
    (tmp_path / "inventory").mkdir()
    return tmp_path


def store(place: Path) -> Store:
    mirrors = {"https://example.org/": f"{place}/mirror/"}
    return Store(place / "inventory", mirrors, place / "downloads", place / "programs")


def install(place: Path, source: Source, write: bool = True) -> tuple[str, bool]:
    file = locking.lock_file(place / "inventory")
    before = file.read_text() if file.exists() else ""
    done = installers.install_release(store(place), source, source.name, write=write)
    return done.did, file.exists() and file.read_text() != before


TOOL = Source("tool", "1", "https://example.org/tool-1.tar")


def test_an_unverified_digest_is_recorded_and_then_verified(place: Path) -> None:
    assert install(place, TOOL, write=False) == ("install", False)
    assert not (place / "programs").exists()
    assert install(place, TOOL) == ("install", True)
    recorded = yaml.safe_load(locking.lock_file(place / "inventory").read_text())["sources"]
    digest = sha256_of(place / "mirror/tool-1.tar")
    assert recorded == {"tool@1": {"version": "1", "url": TOOL.url, "sha256": digest}}
    archive = (place / "mirror/tool-1.tar").read_bytes()
    (place / "mirror/tool-1.tar").unlink()
    assert install(place, TOOL) == ("nothing", False)  # an intact program needs no source
    (place / "mirror/tool-1.tar").write_bytes(archive + b"\0" * 512)
    (place / "programs/tool/current/lib/data.txt").unlink()
    with pytest.raises(SourceError, match=f"expected {digest}.*hearth lock tool"):
        install(place, TOOL)
    (place / "mirror/tool-1.tar").write_bytes(archive)
    assert install(place, TOOL) == ("repair", False)


def test_another_version_is_recorded_separately(place: Path) -> None:
    install(place, TOOL)
    program(place / "mirror" / "tool-2.tar", "two")
    newer = Source("tool", "2", "https://example.org/tool-2.tar")
    assert locking.known(place / "inventory", newer).sha256 is None
    assert install(place, newer) == ("install", True)
    assert install(place, TOOL) == ("switch", False)
    moved = Source("tool", "1", "https://example.com/tool-1.tar")
    assert locking.known(place / "inventory", moved).sha256 is None
    # The digest that the project ships wins over the one that this house recorded.
    pinned = Source("tool", "1", TOOL.url, "0" * 64)
    assert locking.known(place / "inventory", pinned).sha256 == "0" * 64


def test_lock_records_verifies_and_replaces_on_demand(place: Path) -> None:
    def lock(source: Source, *names: str) -> str:
        (got,) = locking.lock_sources(store(place), {"tool": source}, names)
        return got.state

    assert lock(TOOL) == "unverified"
    assert lock(TOOL) == "verified"  # a local file is verified each time
    program(place / "mirror" / "tool-1.tar", "changed")
    with pytest.raises(SourceError, match="expected"):
        lock(TOOL)
    assert lock(TOOL, "tool") == "changed"
    assert lock(TOOL) == "verified"
    with pytest.raises(SourceError, match="expected 000"):
        lock(Source("tool", "1", TOOL.url, "0" * 64), "tool")


def test_the_catalogue_accepts_recorded_digests(tmp_path: Path) -> None:
    for path in INVENTORY.glob("*.yml"):
        if path.name != "secrets.yml":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    house = derive(load(tmp_path), frozenset())
    for found in house.sources.values():
        source = Source(found.name, found.version, found.url, found.sha256, found.size)
        locking.record_unverified(tmp_path, source, "1" * 64)
        assert locking.known(tmp_path, source).sha256 in ("1" * 64, found.sha256)
    locking.record_manifest(tmp_path, "qwen3.5:4b", f"sha256:{'2' * 64}")
    derive(load(tmp_path), frozenset())


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("qwen3.5:4b", "registry.ollama.ai/v2/library/qwen3.5/manifests/4b"),
        ("llama3.1", "registry.ollama.ai/v2/library/llama3.1/manifests/latest"),
        ("me/mine:q4", "registry.ollama.ai/v2/me/mine/manifests/q4"),
        ("hf.co/a/b:Q4_K_M", "hf.co/v2/a/b/manifests/Q4_K_M"),
    ],
)
def test_manifest_addresses(model: str, path: str) -> None:
    assert manifest_address(model) == f"https://{path}"


def test_an_invalid_model_name_is_refused() -> None:
    with pytest.raises(SourceError, match="write a registry name"):
        manifest_address("a b:c")
