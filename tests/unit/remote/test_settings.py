"""A remote house: how its machine is reached, and which settings it gets."""

import io
import tarfile
from pathlib import Path

import pytest
import yaml

from hearth.catalogue.pipelines import FOLDER
from hearth.remote.controller import DIGESTS, Target, local_settings, target
from hearth.remote.program import replace_settings


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


class There:
    """The folder of settings on the other machine, and what takes them."""

    def __init__(self, folder: Path) -> None:
        self.local = folder / "there" / "local"
        (self.local / "pipelines").mkdir(parents=True)
        self.judged = folder / "judged"
        self.said = ""

    def write(self, name: str, text: str) -> None:
        (self.local / name).write_text(text)

    def take(self, data: bytes) -> int:
        self.judged.unlink(missing_ok=True)
        self.said = ""
        try:
            replace_settings(self.local.parent, data, DIGESTS, FOLDER, self.judged.touch)
        except SystemExit as refused:
            self.said = str(refused)
        except tarfile.ReadError as error:
            self.said = str(error)
        return 1 if self.said else 0

    def found(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.local)): path.read_text()
            for path in self.local.rglob("*")
            if path.is_file() and path.name != ".sent"
        }


@pytest.fixture
def there(tmp_path: Path) -> There:
    return There(tmp_path)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The settings of the controller, which it has sent once."""
    folder = tmp_path / "here"
    (folder / "pipelines").mkdir(parents=True)
    return folder


def test_settings_come_whole_or_not_at_all(here: Path, there: There) -> None:
    for name in ("machines.yml", "old.yml"):
        (here / name).write_text("machines: {}\n")
    lock = "models: {a: b}\n"
    assert there.take(local_settings(here, lock)) == 0
    before = there.found()
    (here / "machines.yml").write_text("machines: {house: {domain: home.arpa}}\n")
    (here / "old.yml").unlink()
    whole = local_settings(here, lock)
    assert there.take(whole[:700]) != 0
    assert there.found() == before
    assert there.take(whole) == 0
    assert there.judged.exists()
    assert set(there.found()) == {"machines.yml", "sources.lock.yml"}
    assert "home.arpa" in there.found()["machines.yml"]
    assert [path.name for path in there.local.parent.iterdir()] == ["local"]
    assert there.take(local_settings(here.parent, "")) == 0
    assert there.found() == {}


def test_settings_that_were_made_there_are_refused_by_name_and_stay(
    here: Path, there: There
) -> None:
    (here / "services.yml").write_text("services: {ollama: {limits: {cpus: 2}}}\n")
    assert there.take(local_settings(here, "")) == 0
    there.write("services.yml", "services: {open_webui: {present: false}}\n")
    there.write("consumers.yml", "consumers: {me: {}}\n")
    there.write("pipelines/mine.py", "# mine\n")
    # The digests trusted on first use were made there, and come along.
    there.write("sources.lock.yml", "models: {a: b}\n")
    before = there.found()
    assert there.take(local_settings(here, "models: {a: b}\n")) != 0
    assert there.found() == before
    assert not there.judged.exists()
    assert len(there.said.splitlines()) == 1
    assert "(consumers.yml services.yml pipelines/mine.py)" in there.said
    # What is the same here is nobody's loss; what is deleted there was read by somebody.
    (here / "consumers.yml").write_text("consumers: {me: {}}\n")
    there.write("consumers.yml", yaml.safe_dump({"consumers": {"me": {}}}))
    for name in ("services.yml", "pipelines/mine.py"):
        (there.local / name).unlink()
    assert there.take(local_settings(here, "models: {a: b}\n")) == 0
    assert set(there.found()) == {"consumers.yml", "services.yml", "sources.lock.yml"}


def test_a_hand_over_that_was_cut_off_is_no_change_of_somebody_there(
    here: Path, there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "a.yml").write_text("a: 1\n")
    assert there.take(local_settings(here, "")) == 0
    (here / "a.yml").write_text("a: 2\n")
    (here / "b.yml").write_text("b: 1\n")
    data = local_settings(here, "")
    # The first of two files came into its place.
    real = Path.replace

    def interrupted(path: Path, to: Path) -> Path:
        real(path, to)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            there.take(data)
    assert there.found() == {"a.yml": "a: 2\n"}
    (here / "a.yml").write_text("a: 3\n")
    assert there.take(local_settings(here, "")) == 0
    assert there.found()["a.yml"] == "a: 3\n"


def test_pipelines_come_along_and_those_that_are_gone_go(here: Path, there: There) -> None:
    (here / "pipelines/old.py").write_text("# old\n")
    assert there.take(local_settings(here, "")) == 0
    (here / "pipelines/old.py").rename(here / "pipelines/new.py")
    (here / "pipelines/new.py").write_text("# new\n")
    assert there.take(local_settings(here, "")) == 0
    assert there.found() == {"pipelines/new.py": "# new\n"}
    assert there.take(local_settings(here.parent, "")) == 0
    assert there.found() == {}
