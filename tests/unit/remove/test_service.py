"""The secrets and downloads of a removed service are removed, unless data or people need them."""

from dataclasses import replace
from pathlib import Path

from hearth.catalogue import derive, load
from hearth.catalogue.house import House, Source, Volume
from hearth.remove.service import certificates, fetched, forgotten_secrets, unused_parts
from tests.agents_house import WITHOUT, agents_house
from tests.unit.machine.samples import BASE


def house(*volumes: Volume) -> House:
    base = derive(load(BASE))
    some, site = base.services["ollama"], base.sites[0]
    chat, talk = replace(site, fqdn="chat.lan"), replace(site, fqdn="talk.lan")
    gone = replace(
        some,
        name="chat",
        sources=("chat_archive", "weights"),
        volumes=volumes,
        sites=(chat, talk),
        secrets={"chat_key": "random", "cloud_key": "given", "shared": "random"},
    )
    return replace(
        base,
        services={"voice": replace(some, sources=("weights",))},
        removed={"chat": gone},
        sites=(talk,),
        secrets={"shared": "random", "consumer_household": "random"},
        sources={
            name: Source(name, "1", "https://example.org", None, None)
            for name in ("chat_archive", "weights")
        },
    )


def test_random_keys_are_removed_and_given_or_shared_ones_stay() -> None:
    assert forgotten_secrets(house()) == ["chat_key", "consumer_chat"]


def test_secrets_of_kept_data_stay_as_long_as_the_data() -> None:
    kept = house(Volume(name="chat-data", path="/var/lib/chat", copy="files"))
    assert forgotten_secrets(kept) == ["consumer_chat"]
    assert forgotten_secrets(kept, ["chat"]) == ["chat_key", "cloud_key", "consumer_chat"]


def test_downloads_that_no_other_service_needs_are_removed(tmp_path: Path) -> None:
    names = ("chat_archive-1-a.tar", ".chat_archive-1-a.tar.lock", "weights-1-w.onnx", "chat_b-1")
    for name in names:
        (tmp_path / name).touch()
    for trace in fetched(house(), tmp_path):
        trace.remove()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chat_b-1", "weights-1-w.onnx"]
    assert fetched(house(), tmp_path) == []


def test_certificates_of_unused_names_are_removed(tmp_path: Path) -> None:
    for name in ("chat.lan", "talk.lan"):
        (tmp_path / "root/certificates/house" / name).mkdir(parents=True)
    for trace in certificates(house(), tmp_path):
        trace.remove()
    assert [path.name for path in tmp_path.glob("*/*/*/*")] == ["talk.lan"]


def test_a_part_that_no_service_needs_any_more_is_stopped_and_removed(tmp_path: Path) -> None:
    unit = tmp_path / "etc/systemd/system/hearth-broker.service"
    program = tmp_path / "var/lib/hearth/programs/broker/1"
    for path in (unit.parent, program):
        path.mkdir(parents=True)
    unit.touch()
    assert unused_parts(agents_house(), tmp_path) == []
    without = agents_house(WITHOUT)
    found = unused_parts(without, tmp_path)
    assert [trace.what for trace in found] == ["unit hearth-broker.service", "program broker"]
    for trace in found:
        trace.remove()
    assert not unit.exists()
    assert not program.parent.exists()
    assert unused_parts(without, tmp_path) == []
