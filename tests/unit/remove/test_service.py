"""Of a removed service its secrets and downloads go, but nothing that data or people need."""

from pathlib import Path
from typing import Any

from hearth.remove.service import certificates, fetched, forgotten


def house(**more: Any) -> dict[str, Any]:
    gone = {
        "name": "chat",
        "sources": ["chat_archive", "weights"],
        "volumes": [],
        "publish": [{"fqdn": "chat.lan"}, {"fqdn": "talk.lan"}],
        "secrets": {"chat_key": "random", "cloud_key": "given", "shared": "random"},
        **more,
    }
    return {
        "services": {"voice": {"sources": ["weights"]}},
        "removed": {"chat": gone},
        "sites": [{"fqdn": "talk.lan"}],
        "secrets": {"shared": "random", "consumer_household": "random"},
        "sources": {name: {"name": name} for name in ("chat_archive", "weights")},
    }


def test_made_keys_go_and_given_or_shared_ones_stay() -> None:
    assert forgotten(house()) == ["chat_key", "consumer_chat"]


def test_what_opens_kept_data_stays_until_the_data_go() -> None:
    kept = house(volumes=[{"name": "chat-data", "from": None}])
    assert forgotten(kept) == ["consumer_chat"]
    assert forgotten(kept, ["chat"]) == ["chat_key", "cloud_key", "consumer_chat"]


def test_downloads_go_that_nobody_else_needs(tmp_path: Path) -> None:
    names = ("chat_archive-1-a.tar", ".chat_archive-1-a.tar.lock", "weights-1-w.onnx", "chat_b-1")
    for name in names:
        (tmp_path / name).touch()
    for trace in fetched(house(), tmp_path):
        trace.remove()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chat_b-1", "weights-1-w.onnx"]
    assert fetched(house(), tmp_path) == []


def test_certificates_of_names_go_that_nobody_has(tmp_path: Path) -> None:
    for name in ("chat.lan", "talk.lan"):
        (tmp_path / "root/certificates/house" / name).mkdir(parents=True)
    for trace in certificates(house(), tmp_path):
        trace.remove()
    assert [path.name for path in tmp_path.glob("*/*/*/*")] == ["talk.lan"]
