"""The vault: `ansible-vault` opens it, others cannot, and a damaged one is never overwritten."""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hearth.catalogue.secret_rules import PUBLIC, weak
from hearth.files import LockHeldError, locked
from hearth.machine.secrets import Kind, SecretsError, Vault, make_random

BIN = Path(sys.executable).parent
Damage = Callable[[bytes], bytes]


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "inventory.yml", tmp_path / "home" / "vault-password")


def test_makes_random_secrets_once_and_leaves_given_ones_absent(vault: Vault) -> None:
    names: dict[str, Kind] = {"consumer_laptop": "random", "openrouter_api_key": "given"}
    assert vault.ensure(names) == ["consumer_laptop"]
    first = vault.get("consumer_laptop")
    assert len(first) == 43
    assert vault.ensure({**names, "cookie_secret": "random"}) == ["cookie_secret"]
    assert vault.get("consumer_laptop") == first
    assert vault.names() == {"consumer_laptop", "cookie_secret"}
    with pytest.raises(SecretsError, match="hearth secret set openrouter_api_key"):
        vault.get("openrouter_api_key")
    vault.set("openrouter_api_key", " sk-or-0123456789\n")
    assert vault.get("openrouter_api_key") == "sk-or-0123456789"
    vault.remove("openrouter_api_key")
    assert "openrouter_api_key" not in vault.names()


def test_an_unchanged_vault_is_not_rewritten(vault: Vault) -> None:
    vault.ensure({"cookie_secret": "random"})
    before = vault.path.read_bytes()
    assert vault.ensure({"cookie_secret": "random"}) == []
    assert vault.path.read_bytes() == before


def test_people_can_type_the_password(vault: Vault) -> None:
    vault.ensure({"house_password": "random"})
    assert re.fullmatch(r"([2-9a-hjkmnp-z]{4}-){3}[2-9a-hjkmnp-z]{4}", vault.get("house_password"))


def test_both_files_are_private_and_the_vault_is_encrypted(vault: Vault) -> None:
    old = os.umask(0)
    try:
        vault.ensure({"cookie_secret": "random"})
    finally:
        os.umask(old)
    for path in (vault.path, vault.password_file):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(vault.password_file.parent.stat().st_mode) == 0o700
    assert vault.path.read_bytes().startswith(b"$ANSIBLE_VAULT;1.1;AES256\n")


def test_ansible_vault_shows_it(vault: Vault) -> None:
    vault.update({"key": "abc"})
    shown = subprocess.run(
        [BIN / "ansible-vault", "view", "--vault-password-file", vault.password_file, vault.path],
        check=True,
        timeout=30,
        capture_output=True,
        text=True,
    )
    assert shown.stdout == "hearth_secrets:\n  key: abc\n"


def test_every_text_is_read_as_it_was_written(vault: Vault) -> None:
    values = {
        "key": "abc",
        "pem": "-----BEGIN X-----\nAA==\n-----END X-----\n",
        "odd": "{{ 'é }} #'",
        "number": "1_000",
        "yes": "yes",
    }
    vault.update(values)
    assert vault.values() == values


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o700])
def test_refuses_a_password_file_that_others_can_use(vault: Vault, mode: int) -> None:
    vault.ensure({"cookie_secret": "random"})
    vault.password_file.chmod(mode)
    for act in (vault.values, lambda: vault.update({"x": "1"})):
        with pytest.raises(SecretsError, match=r"chmod 600 .*vault-password"):
            act()


def test_a_lost_password_is_one_line_and_nothing_is_overwritten(vault: Vault) -> None:
    vault.ensure({"cookie_secret": "random"})
    before = vault.path.read_bytes()
    vault.password_file.unlink()
    with pytest.raises(SecretsError, match=r"the password of .* is missing: put this file back"):
        vault.ensure({"more": "random"})
    assert not vault.password_file.exists()
    assert vault.path.read_bytes() == before


def test_an_empty_password_file_is_refused(vault: Vault) -> None:
    vault.ensure({"cookie_secret": "random"})
    vault.password_file.write_text("\n")
    with pytest.raises(SecretsError, match="is empty"):
        vault.values()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda old: b"hearth_secrets: {}\n", "not an ansible-vault file"),
        (lambda old: b"", "not an ansible-vault file"),
        (lambda old: old[: len(old) // 2], "does not open it"),
        (lambda old: old[:25], "does not open it"),
        (lambda old: old[:-3] + b"00\n", "does not open it"),
        (lambda old: old.replace(b"AES256", b"AES999"), "does not open it"),
    ],
)
def test_a_damaged_vault_is_one_line_and_is_kept(vault: Vault, damage: Damage, words: str) -> None:
    vault.ensure({"cookie_secret": "random"})
    damaged = damage(vault.path.read_bytes())
    vault.path.write_bytes(damaged)
    with pytest.raises(SecretsError, match=words) as caught:
        vault.ensure({"more": "random"})
    assert "\n" not in str(caught.value)
    assert vault.path.read_bytes() == damaged


def test_another_password_does_not_open_it(vault: Vault) -> None:
    vault.ensure({"cookie_secret": "random"})
    vault.password_file.write_text("another\n")
    with pytest.raises(SecretsError, match="does not open it"):
        vault.values()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("other: 1\n", "one mapping, hearth_secrets"),
        ("hearth_secrets: {a: 5}\n", "secret a is not text"),
        ("hearth_secrets:\n  a: 'topsecret\n", "not YAML inside"),
    ],
)
def test_a_wrong_edit_is_one_line_without_the_secret(vault: Vault, text: str, words: str) -> None:
    vault.ensure({})
    plain = vault.path.with_name("plain")
    plain.write_text(text)
    vault.update({"x": "1"})
    subprocess.run(
        [
            *(BIN / "ansible-vault", "encrypt", "--output", vault.path),
            *("--vault-password-file", vault.password_file, plain),
        ],
        check=True,
        timeout=30,
        capture_output=True,
    )
    with pytest.raises(SecretsError, match=words) as caught:
        vault.values()
    assert "topsecret" not in str(caught.value)


def test_a_password_inside_the_vaults_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    vault = Vault(tmp_path / "secrets.yml", tmp_path / "password")
    with pytest.raises(SecretsError, match="name a file outside"):
        vault.ensure({"a": "random"})
    assert not vault.password_file.exists()


@pytest.mark.parametrize(("name", "value"), [("Bad Name", "x"), ("ok", ""), ("ok", "a\0b")])
def test_refuses_values_that_cannot_be(vault: Vault, name: str, value: str) -> None:
    with pytest.raises(SecretsError):
        vault.set(name, value)


def test_two_runs_do_not_lose_each_others_secrets(vault: Vault) -> None:
    code = (
        "import sys; from pathlib import Path; from hearth.machine.secrets import Vault\n"
        "v = Vault(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "for i in range(5): v.ensure({f's{sys.argv[3]}_{i}': 'random'})\n"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", code, vault.path, vault.password_file, str(n)])
        for n in range(3)
    ]
    assert [run.wait(timeout=60) for run in runs] == [0, 0, 0]
    assert len(vault.names()) == 15


def test_a_held_lock_names_its_holder(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "lock"),
        pytest.raises(LockHeldError, match=f"process {os.getpid()}, "),
        locked(tmp_path / "lock", within_s=0.1),
    ):
        pass


def test_a_lock_that_was_made_for_everybody_is_shut(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    lock.chmod(0o644)
    with locked(lock):
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600


GOOD, SHORT_KEY, SHORT_PASSWORD = "0123456789abcdef", "0123456789abcdefghijklm", "swordfish-m"


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [("consumer_guest", SHORT_KEY, 24), ("house_password", SHORT_PASSWORD, 12)],
)
def test_a_short_secret_is_refused_by_its_name(
    vault: Vault, name: str, value: str, least: int
) -> None:
    vault.set(name, f"{value}z")
    with pytest.raises(SecretsError, match=f"secret {name}: .*fewer than {least} ") as caught:
        vault.set(name, f" {value}\n")
    assert value not in str(caught.value)
    assert vault.get(name) == f"{value}z"
    # It may have been written with Ansible's own editor.
    vault.update({name: value})
    for act in (vault.ensure, partial(vault.ensure, write=False)):
        with pytest.raises(SecretsError, match=f"secret {name}: ") as caught:
            act({name: "random", "cookie_secret": "random"})
        assert value not in str(caught.value)
    assert vault.names() == {name}


def test_all_that_is_missing_is_said_at_once_and_nothing_is_made(vault: Vault) -> None:
    vault.update({"house_password": SHORT_PASSWORD})
    names: dict[str, Kind] = {
        "house_password": "random",
        "weather_key": "given",
        "openrouter_api_key": "given",
        "cookie_secret": "random",
    }
    with pytest.raises(SecretsError) as caught:
        vault.ensure(names, {"weather_key": "forecast"})
    short, missing = str(caught.value).splitlines()
    assert short.startswith("secret house_password: it is too short")
    assert missing == (
        "secret weather_key: forecast needs it and it has no value: give it one with `hearth "
        "secret set weather_key`, or turn forecast off"
    )
    assert vault.names() == {"house_password"}
    vault.update({"house_password": f"{SHORT_PASSWORD}z", "weather_key": GOOD})
    assert vault.ensure(names, {"weather_key": "forecast"}, write=False) == ["cookie_secret"]
    assert vault.ensure(names, {"weather_key": "forecast"}) == ["cookie_secret"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("house_password", "password-password"),
        ("house_password", "PassWord-2026"),
        ("house_password", "1234567812345678"),
        ("house_password", "qwertzuiop11"),
        ("house_password", "hearth222222"),
        ("consumer_guest", 24 * "a"),
        ("consumer_guest", 8 * "abc"),
        ("cookie_secret", 3 * "passwordpassword"),
    ],
)
def test_what_everybody_tries_first_is_refused_by_its_name(
    vault: Vault, name: str, value: str
) -> None:
    with pytest.raises(SecretsError) as caught:
        vault.set(name, value)
    assert str(caught.value) == (
        f"secret {name}: it is easily guessed: a common password, or few different "
        f"characters: give it another value with `hearth secret set {name}`"
    )


@pytest.mark.parametrize("name", ["cookie_secret", "litellm_master_key"])
def test_what_no_person_types_is_as_long_as_a_random_one(vault: Vault, name: str) -> None:
    with pytest.raises(SecretsError, match=f"secret {name}: .*fewer than 32 ") as caught:
        vault.set(name, GOOD)
    assert GOOD not in str(caught.value)


def test_what_hearth_makes_itself_is_never_refused() -> None:
    names = ("house_password", "cookie_secret", "litellm_master_key", "consumer_guest")
    assert [weak(name, make_random(name)) for name in names for _ in range(500)] == 2000 * [None]


@pytest.mark.parametrize("which", ["path", "password_file"])
def test_another_users_file_is_one_line(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    vault.ensure({"cookie_secret": "random"})

    def refuse(*_: object, **__: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    where = "pathlib.Path.read_bytes" if which == "path" else "os.open"
    monkeypatch.setattr(where, refuse)
    with pytest.raises(SecretsError) as caught:
        vault.values()
    assert str(caught.value) == (
        f"{getattr(vault, which)}: only its owner may read this: put `sudo` before the command"
    )


@pytest.mark.parametrize("value", sorted(PUBLIC))
def test_what_everybody_knows_is_no_secret(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    with pytest.raises(SecretsError, match="public default") as caught:
        vault.set("pipelines_key", f" {value}\n")
    assert value not in str(caught.value)
    # It may have been written with Ansible's own editor; then nothing is converged with it.
    with monkeypatch.context() as patch:
        patch.setattr("hearth.catalogue.secret_rules.PUBLIC", frozenset())
        patch.setattr("hearth.catalogue.secret_rules.SHORTEST_KEY", 1)
        vault.set("pipelines_key", value)
    with pytest.raises(SecretsError, match="hearth secret set pipelines_key"):
        vault.ensure({"pipelines_key": "random"})
    vault.set("pipelines_key", "another and a longer one")
    assert vault.ensure({"pipelines_key": "random"}) == []
