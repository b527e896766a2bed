"""A house on another machine: what is run there, and what is brought there."""

import io
import subprocess
import tarfile
from pathlib import Path

import yaml

from hearth.cli.carried import local_settings, take_settings
from hearth.cli.ssh import Target, target


def test_the_ways_to_a_machine() -> None:
    assert target("ssh://ann@house.example:2222") == Target("ann", "house.example", 2222)
    assert target("ssh://192.0.2.10") == Target("root", "192.0.2.10", 22)


def test_who_is_not_root_there_asks_sudo_and_no_word_is_split() -> None:
    argv = Target("ann", "h", 22).argv("hearth logs 'a b'; id")
    assert (argv[:2], argv[-5:-1]) == (["ssh", "-T"], ["-p", "22", "ann@h", "--"])
    wanted = """sudo -- env "SSH_CONNECTION=$SSH_CONNECTION" /bin/bash -c """
    assert argv[-1] == wanted + """'hearth logs '"'"'a b'"'"'; id'"""
    assert Target("root", "h", 22).argv("id", terminal=True)[1] == "-t"
    assert Target("root", "h", 22).argv("id")[-1] == "id"


def unpacked(data: bytes) -> dict[str, object]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        found = {}
        for entry in archive.getmembers():
            file = archive.extractfile(entry)
            assert file is not None
            assert entry.mode == 0o600
            found[entry.name] = yaml.safe_load(file.read())
        return found


def test_the_house_is_at_home_there_and_keeps_its_own_digests(tmp_path: Path) -> None:
    (tmp_path / "machines.yml").write_text(
        "machines: {house: {reach: ssh://a@b, domain: home.arpa}}\n"
    )
    (tmp_path / "sources.lock.yml").write_text("mirrors: {'https://a/': /srv/a/}\n")
    recorded = "sources: {'ollama@0.35.0': {sha256: abc}}\nmirrors: {'https://b/': /srv/b/}\n"
    assert unpacked(local_settings(tmp_path, recorded)) == {
        "local/machines.yml": {"machines": {"house": {"domain": "home.arpa"}}},
        "local/sources.lock.yml": {
            "sources": {"ollama@0.35.0": {"sha256": "abc"}},
            "mirrors": {"https://b/": "/srv/b/", "https://a/": "/srv/a/"},
        },
    }


def test_without_settings_only_the_digests_come_back(tmp_path: Path) -> None:
    assert unpacked(local_settings(tmp_path, "")) == {}
    assert unpacked(local_settings(tmp_path, "models: {a: 'sha256:1'}\n")) == {
        "local/sources.lock.yml": {"models": {"a": "sha256:1"}}
    }


def test_settings_come_whole_or_not_at_all(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there" / "local"
    here.mkdir()
    there.mkdir(parents=True)
    (here / "machines.yml").write_text("machines: {house: {domain: home.arpa}}\n")
    before = {"machines.yml": "{}\n", "old.yml": "{}\n", "sources.lock.yml": "models: {a: b}\n"}
    for name, text in before.items():
        (there / name).write_text(text)

    def found() -> dict[str, str]:
        return {path.name: path.read_text() for path in there.iterdir() if path.is_file()}

    def take(data: bytes) -> int:
        command = ["bash", "-c", take_settings(str(there.parent))]
        done = subprocess.run(command, input=data, check=False, capture_output=True, timeout=10)
        return done.returncode

    whole = local_settings(here, before["sources.lock.yml"])
    assert take(whole[:700]) != 0
    assert found() == before
    assert take(whole) == 0
    assert set(found()) == {"machines.yml", "sources.lock.yml"}
    assert "home.arpa" in found()["machines.yml"]
    assert [path.name for path in there.parent.iterdir()] == ["local"]
    assert take(local_settings(tmp_path, "")) == 0
    assert found() == {}


def test_pipelines_come_along_and_those_that_are_gone_go(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there" / "local"
    for folder, name in ((here, "new"), (there, "old")):
        (folder / "pipelines").mkdir(parents=True)
        (folder / f"pipelines/{name}.py").write_text(f"# {name}\n")

    def take(folder: Path) -> list[str]:
        command = ["bash", "-c", take_settings(str(there.parent))]
        data = local_settings(folder, "")
        subprocess.run(command, input=data, check=True, capture_output=True, timeout=10)
        return [path.read_text() for path in (there / "pipelines").iterdir()]

    assert take(here) == ["# new\n"]
    assert take(tmp_path) == []
