"""A remote house: how its machine is reached, and which settings it gets."""

from pathlib import Path

import pytest
import yaml

from hearth.catalogue.pipelines import FOLDER
from hearth.remote.controller import DIGESTS, Target, local_settings, target
from hearth.remote.program import replace_settings


def test_the_address_of_a_machine() -> None:
    assert target("ssh://ann@house.example:2222") == Target("ann", "house.example", 2222)
    assert target("ssh://192.0.2.10") == Target("root", "192.0.2.10", 22)


def test_another_user_than_root_uses_sudo_and_no_word_is_split() -> None:
    argv = Target("ann", "h", 22).argv("hearth logs 'a b'; id")
    assert (argv[:2], argv[-5:-1]) == (["ssh", "-T"], ["-p", "22", "ann@h", "--"])
    wanted = """sudo -- env "SSH_CONNECTION=$SSH_CONNECTION" /bin/bash -c """
    assert argv[-1] == wanted + """'hearth logs '"'"'a b'"'"'; id'"""
    assert Target("root", "h", 22).argv("id", terminal=True)[1] == "-t"
    assert Target("root", "h", 22).argv("id")[-1] == "id"


def parsed(settings: dict[str, str]) -> dict[str, object]:
    return {name: yaml.safe_load(text) for name, text in settings.items()}


def test_the_house_is_local_there_and_keeps_its_own_digests(tmp_path: Path) -> None:
    (tmp_path / "machines.yml").write_text(
        "machines: {house: {reach: ssh://a@b, domain: home.arpa}}\n"
    )
    (tmp_path / "sources.lock.yml").write_text("mirrors: {'https://a/': /srv/a/}\n")
    recorded = "sources: {'ollama@0.35.0': {sha256: abc}}\nmirrors: {'https://b/': /srv/b/}\n"
    assert parsed(local_settings(tmp_path, recorded)) == {
        "machines.yml": {"machines": {"house": {"domain": "home.arpa"}}},
        "sources.lock.yml": {
            "sources": {"ollama@0.35.0": {"sha256": "abc"}},
            "mirrors": {"https://b/": "/srv/b/", "https://a/": "/srv/a/"},
        },
    }


def test_without_settings_only_the_digests_come_back(tmp_path: Path) -> None:
    assert local_settings(tmp_path, "") == {}
    assert parsed(local_settings(tmp_path, "models: {a: 'sha256:1'}\n")) == {
        "sources.lock.yml": {"models": {"a": "sha256:1"}}
    }


class There:
    """The folder of settings on the other machine, and the program that replaces them."""

    def __init__(self, folder: Path) -> None:
        self.local = folder / "there" / "local"
        (self.local / "pipelines").mkdir(parents=True)
        self.accepted = folder / "accepted"
        self.error = ""

    def write(self, name: str, text: str) -> None:
        (self.local / name).write_text(text)

    def take(self, settings: dict[str, str]) -> bool:
        """Replace the settings, and return whether that was accepted."""
        self.accepted.unlink(missing_ok=True)
        self.error = ""
        try:
            replace_settings(self.local.parent, settings, DIGESTS, FOLDER, self.accepted.touch)
        except SystemExit as refused:
            self.error = str(refused)
        return not self.error

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


def test_settings_are_replaced_as_a_whole(here: Path, there: There) -> None:
    for name in ("machines.yml", "old.yml"):
        (here / name).write_text("machines: {}\n")
    lock = "models: {a: b}\n"
    assert there.take(local_settings(here, lock))
    (here / "machines.yml").write_text("machines: {house: {domain: home.arpa}}\n")
    (here / "old.yml").unlink()
    assert there.take(local_settings(here, lock))
    assert there.accepted.exists()
    assert set(there.found()) == {"machines.yml", "sources.lock.yml"}
    assert "home.arpa" in there.found()["machines.yml"]
    assert (there.local / "machines.yml").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in there.local.parent.iterdir()] == ["local"]
    assert there.take(local_settings(here.parent, ""))
    assert there.found() == {}


def test_settings_that_were_made_there_are_refused_by_name_and_stay(
    here: Path, there: There
) -> None:
    (here / "services.yml").write_text("services: {ollama: {limits: {cpus: 2}}}\n")
    assert there.take(local_settings(here, ""))
    there.write("services.yml", "services: {open_webui: {present: false}}\n")
    there.write("consumers.yml", "consumers: {me: {}}\n")
    there.write("pipelines/mine.py", "# mine\n")
    # The digests trusted on first use were recorded there, and come back with the settings.
    there.write("sources.lock.yml", "models: {a: b}\n")
    before = there.found()
    assert not there.take(local_settings(here, "models: {a: b}\n"))
    assert there.found() == before
    assert not there.accepted.exists()
    assert len(there.error.splitlines()) == 1
    assert "(consumers.yml services.yml pipelines/mine.py)" in there.error
    # A file that is the same here is no loss, nor is one that a person has deleted there.
    (here / "consumers.yml").write_text("consumers: {me: {}}\n")
    there.write("consumers.yml", yaml.safe_dump({"consumers": {"me": {}}}))
    for name in ("services.yml", "pipelines/mine.py"):
        (there.local / name).unlink()
    assert there.take(local_settings(here, "models: {a: b}\n"))
    assert set(there.found()) == {"consumers.yml", "services.yml", "sources.lock.yml"}


def test_after_an_interruption_sent_settings_do_not_pass_for_changes_there(
    here: Path, there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "a.yml").write_text("a: 1\n")
    assert there.take(local_settings(here, ""))
    (here / "a.yml").write_text("a: 2\n")
    (here / "b.yml").write_text("b: 1\n")
    data = local_settings(here, "")
    # The first of two files is in its place.
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
    assert there.take(local_settings(here, ""))
    assert there.found()["a.yml"] == "a: 3\n"


def test_pipelines_are_sent_too_and_deleted_ones_are_removed(here: Path, there: There) -> None:
    (here / "pipelines/old.py").write_text("# old\n")
    assert there.take(local_settings(here, ""))
    (here / "pipelines/old.py").rename(here / "pipelines/new.py")
    (here / "pipelines/new.py").write_text("# new\n")
    assert there.take(local_settings(here, ""))
    assert there.found() == {"pipelines/new.py": "# new\n"}
    assert there.take(local_settings(here.parent, ""))
    assert there.found() == {}
