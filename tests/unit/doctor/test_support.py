"""A canary secret in every place where secrets live is never in the archive for a helper."""

import base64
import html
import json
import subprocess
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
import yaml

from hearth.clients.models import Overview
from hearth.doctor import support
from hearth.doctor.finding import Context
from hearth.machine.engine import Completed
from hearth.machine.secrets import Vault
from hearth.project import Project
from tests.unit.doctor.conftest import HOUSE

# Every place has its own, so that a leak names its place.
VAULT = 'canary+vault/"Zq8xW2vN4rT6yU1iO3pA'
PASSWORD = "canary-password-file-Lm5nB7vC9xZ2"
CREDENTIAL = "canary-credential-Gh4jK6lQ8wE1rT3y"
FOREIGN = "Kd93kfLs02mdPq71"  # known to nobody: only its place gives it away
RANDOM = (
    "tN3vYq8RkZ1mWc5LdXb7JhPs_0GfU2eAoVi9x-Ty4Qw"  # no place gives it away, only what it looks like
)
PEM = (
    "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIcanaryPemLineOneTwoThree\nAAbbCC==\n"
    "-----END EC PRIVATE KEY-----"
)
PLACES = {
    "a vault's value": f"key {VAULT} rejected",
    "a value in JSON": json.dumps({"a": VAULT}),
    "a value in a URL": f"GET /?k={quote(VAULT, safe='')}",
    "a value in base64": base64.b64encode(VAULT.encode()).decode(),
    "a value in hex": VAULT.encode().hex(),
    "a value in hex, as another program writes it": VAULT.encode().hex().upper(),
    "a value in a URL, as another program writes it": quote(VAULT, safe="").replace("%2F", "%2f"),
    "a value in a form": quote_plus(f"canary {VAULT}").replace("canary+", "", 1),
    "a value in YAML": yaml.safe_dump({"x": f"a: {VAULT}"}),
    "a value in HTML": html.escape(VAULT),
    "a user and a value in base64": base64.b64encode(f"house:{VAULT}".encode()).decode(),
    "a name and a value in base64": base64.urlsafe_b64encode(f"ab{VAULT}cd".encode()).decode(),
    "the vault's password": PASSWORD,
    "a credential of a unit": CREDENTIAL,
    "a line of a private key": "MHcCAQEEIcanaryPemLineOneTwoThree",
    "a private key that nobody knows": PEM.replace("canaryPem", FOREIGN),
    "a unit's environment": f"Environment=OPENAI_API_KEY={FOREIGN} HOME=/root",
    "a quoted environment": f'Environment="HF_TOKEN={FOREIGN}"',
    "a header": f"Authorization: Bearer {FOREIGN}",
    "a header of curl": f"-H 'x-api-key: {FOREIGN}'",
    "a cookie": f"Cookie: session={FOREIGN}; other={FOREIGN}",
    "a user of an address": f"proxy http://anna:{FOREIGN}@10.0.0.1:3128/",
    "a parameter of a request": f"GET https://api.example.com/v1?api_key={FOREIGN}&n=1",
    "a short parameter": f"GET https://files.example.com/a?n=1&sig={FOREIGN}",
    "a provider's key": f"using sk-or-v1-{FOREIGN} now",
    "a token of the web": f"eyJhbGciOiJIUzI1NiJ9.eyJ{FOREIGN}.{FOREIGN}",
    "Caddy's own configuration": f"acme_dns cloudflare_api_token={FOREIGN}",
    "LiteLLM's configuration": f"  api_key: {FOREIGN}\n",
    "LiteLLM's JSON": f'{{"litellm_params": {{"api_key": "{FOREIGN}"}}}}',
    "Open WebUI's settings": f"WEBUI_SECRET_KEY='{FOREIGN}'",
    "a text over several lines of YAML": f"x:\n  a_password: >-\n    {FOREIGN}\n  y: 1\n",
    "a list of YAML": f"api_keys:\n- {FOREIGN}\n- {FOREIGN}\n",
    "a list on one line": f"api_keys: [x, {FOREIGN}]",
    "settings below a name": f"my_token:\n  value: {FOREIGN}\n",
    "a Caddyfile's module": f"    dns cloudflare {RANDOM}\n",
    "a Caddyfile's header": f'    header_up X-Api-Key "{FOREIGN}"\n',
    "a Caddyfile's account": f"anna $2a$14$Zkx19XLiW6VYouLHR5NmfO{FOREIGN}x\n",
    "an instance's environment": f"  environment.FOO: {FOREIGN}\n",
    "data for a new instance": f"  cloud-init.user-data: |\n    passwd {FOREIGN}\n",
    "a sentence of a log": f"the password is {FOREIGN}, they said",
    "a log that says nothing about it": f"starting with {RANDOM} now",
    "a recovery key": "AGE-SECRET-KEY-1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "a vault": "$ANSIBLE_VAULT;1.1;AES256\n6333613661\n",
}
SECRET = (
    *(VAULT, PASSWORD, CREDENTIAL, FOREIGN, RANDOM, "canaryPem", "QQPZRY9X8GF2", "6333613661"),
    *(VAULT.encode().hex(), quote(VAULT, safe=""), json.dumps(VAULT)[1:-1]),
    base64.b64encode(VAULT.encode()).decode().rstrip("="),
    # The middle of it in base64, wherever it starts.
    *(
        encode(f"{'x' * before}{VAULT}".encode()).decode()[4:-4]
        for encode in (base64.b64encode, base64.urlsafe_b64encode)
        for before in range(3)
    ),
    *(
        VAULT.encode().hex().upper(),
        quote(VAULT, safe="").replace("%2F", "%2f"),
        html.escape(VAULT),
    ),
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    inventory, password = tmp_path / "inventory", tmp_path / "vault-password"
    (inventory / "local").mkdir(parents=True)
    local = {"services": {"x": {"settings": {"my_api_key": FOREIGN, "port": 8000}}}}
    (inventory / "local" / "services.yml").write_text(yaml.safe_dump(local))
    password.write_text(PASSWORD)
    password.chmod(0o600)
    Vault(inventory / "secrets.yml", password).update({"a_key": VAULT, "house_key": PEM})
    return Project(tmp_path)


@pytest.fixture
def packed(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the files of an archive of a house with a canary in every place."""
    planted = "\n".join(PLACES.values())

    def execute(instance: str | None, argv: Sequence[str], *, timeout: float) -> Completed:
        words = " ".join(argv)
        if "/etc/hearth/credentials/" in words:
            return Completed(0, f"{CREDENTIAL}\0", "")
        if "/converged/" in words:
            return Completed(0, json.dumps({"files": ["/etc/hearth/Caddyfile"]}) + "\n", "")
        return Completed(0, f"{planted}\nserved by {instance or 'the machine'}\n", "")

    receipts = tmp_path / "receipt"
    receipts.mkdir()
    (receipts / "receipt.json").write_text(json.dumps({"remarks": list(PLACES.values())}))
    logs = project.logs / "up-20261123-120000.log"
    logs.write_text(planted)
    context = Context(HOUSE, list, lambda: Overview({}, {}), now=0.0)
    monkeypatch.setattr("hearth.doctor.support.engine.execute", execute)
    monkeypatch.setattr(support, "RECEIPT_FOLDER", receipts)
    monkeypatch.setattr(support, "context_here", lambda _: context)
    monkeypatch.setattr(support, "examine", lambda _: [])
    monkeypatch.setattr(
        Project,
        "vault",
        property(lambda self: Vault(self.inventory / "secrets.yml", tmp_path / "vault-password")),
    )
    path = tmp_path / "support.tar.gz"
    made = support.pack(project, path, lambda _: None)
    assert path.stat().st_mode & 0o777 == 0o600
    assert made.redacted > len(PLACES)
    with tarfile.open(path) as archive:
        found = {}
        for entry in archive:
            content = archive.extractfile(entry)
            assert content
            found[entry.name.removeprefix("hearth-support/")] = content.read().decode()
    assert made.files == len(found)
    return found


def test_no_planted_secret_is_in_the_archive(packed: dict[str, str]) -> None:
    for name, text in packed.items():
        for secret in SECRET:
            assert secret not in text, f"{secret} in {name}"
            assert secret not in name


def test_it_holds_what_a_helper_needs(packed: dict[str, str]) -> None:
    wanted = {
        *("doctor.json", "status.json", "models.json", "versions.json", "receipts/receipt.json"),
        *("inventory/local/services.yml", "logs/up-20261123-120000.log"),
        *("machine/hearth-caddy.service.log", "instances/kokoro/kokoro.service.log"),
        *("instances/open-webui/open-webui.service.txt", "machine/files/etc/hearth/Caddyfile"),
        "machine/listeners.txt",
    }
    assert wanted <= packed.keys(), wanted - packed.keys()
    assert "inventory/secrets.yml" not in packed
    assert "served by kokoro" in packed["instances/kokoro/kokoro.service.log"]
    # What is not secret stays readable.
    assert yaml.safe_load(packed["inventory/local/services.yml"])["services"]["x"]["settings"][
        "port"
    ]


def test_one_command_collects_each_text_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(instance: Any, argv: Sequence[str], *, timeout: float) -> Completed:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return Completed(done.returncode, done.stdout, done.stderr)

    file = tmp_path / "its settings.json"
    file.write_text("{'quoted': \"$HOME\"}\n")
    monkeypatch.setattr("hearth.doctor.support.engine.execute", execute)
    monkeypatch.setattr(support, "_managed", lambda place: [str(file), str(tmp_path / "gone")])
    monkeypatch.setattr(support, "_SYSTEMCTL", ("/bin/echo", "systemctl"))
    found = dict(support._of_place(HOUSE, "kokoro"))
    assert found[f"instances/kokoro/files{file}"] == file.read_text()
    assert "No such file" in found[f"instances/kokoro/files{tmp_path}/gone"]
    assert found["instances/kokoro/kokoro.service.txt"] == "systemctl cat kokoro.service\n"
    assert found["instances/kokoro/units.txt"] == "systemctl list-units --all\n"


@pytest.mark.parametrize("place", PLACES)
def test_each_place_is_redacted_by_itself(place: str) -> None:
    redactor = support.Redactor([VAULT, PASSWORD, CREDENTIAL, PEM])
    text = redactor.clean(f"before {PLACES[place]} after")
    assert not [secret for secret in SECRET if secret in text], text
    assert redactor.count
    assert text.startswith("before ")
    assert support.GONE in text


@pytest.mark.parametrize(
    "text",
    [
        "secrets: {litellm_master_key: random, open_webui_secret_key: random}",
        "publish: {llm: {auth: key}, home: {auth: house}}",
        '"tokens_per_s": 41.5, "first_token_timeout_s": 120',
        "Nov 23 12:00:01 house systemd[1]: Started kokoro.service - Text to speech.",
        "https://chat.lan returns HTTP 502",
        "h2.exceptions.Http2ProtocolError: bad token at position 12",
        "style-src 'sha256-PB78p3PEHfBAPK8DF4xB3SYLpq0AK5RxW4Cnh3xmDDY='",
        "Qwen2.5-VL-7B-Instruct-Q4_K_M.gguf, hf.co/unsloth/Qwen3-4B-Instruct-2507-GGUF:Q4_K_M",
        "sha256:4c27e0f5b5adf02ac956c7322bd2ee7636fe3f45a8512c9aba5385242cb6e09a",
        "prometheus 2.53.3+ds1-2+b4, 5.10.0-1~deb13u1, 20261125T213843Z, 2026-11-25T21:38:43Z",
        "secrets:\n  ntfy_password: random\n  alert_mail_password: given\n",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert support.Redactor([]).clean(text) == text


@pytest.mark.parametrize("word", ["x", "x-", "aB1", "password", "token:\n", "%2b", "a="])
def test_a_line_of_a_megabyte_takes_no_minutes(word: str) -> None:
    began = time.process_time()
    support.Redactor([VAULT]).clean(word * (2**20 // len(word)))
    assert time.process_time() - began < 5


CAT = f"""# /etc/systemd/system/kokoro.service
[Service]
Environment="GOGC=50" HOME=/var/lib/kokoro
ExecStart=/usr/bin/kokoro

# /etc/systemd/system/kokoro.service.d/by hand.conf
[Service]
Environment=PLAIN={FOREIGN} "SPACED={FOREIGN} {FOREIGN}" \\
    MORE={FOREIGN}
SetCredential=mine:{FOREIGN}
CPUWeight=50

# /run/systemd/system/kokoro.service.d/later.conf
[Service]
CPUWeight=60
"""
SHOW = f"MemoryMax=1024\nEnvironment=GOGC=50 PLAIN={FOREIGN} 'SPACED={FOREIGN} x'\nNice=0\n"


def test_what_a_drop_in_sets_is_left_out_and_what_hearth_sets_stays() -> None:
    shown = support.without_drop_ins(CAT)
    gone = support.GONE
    assert FOREIGN not in shown
    assert 'Environment="GOGC=50" HOME=/var/lib/kokoro\nExecStart=/usr/bin/kokoro\n' in shown
    assert f"Environment=PLAIN={gone} SPACED={gone} \\\n  MORE={gone}\n" in shown
    assert f"SetCredential=mine:{gone}\nCPUWeight=50\n" in shown
    assert shown.endswith(CAT[CAT.index("\n# /run") :])
    merged = f"MemoryMax=1024\nEnvironment=GOGC={gone} PLAIN={gone} SPACED={gone}\nNice=0\n"
    assert support.without_drop_ins(SHOW) == merged


def test_units_are_packed_without_what_drop_ins_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemctl = tmp_path / "systemctl"
    texts = {"cat": CAT, "show": SHOW}
    cases = "".join(f"{verb}) cat {tmp_path}/{verb} ;;\n" for verb in texts)
    systemctl.write_text(f'#!/bin/sh\ncase "$1" in\n{cases}esac\n')
    systemctl.chmod(0o755)
    for verb, text in texts.items():
        (tmp_path / verb).write_text(text)

    def execute(instance: Any, argv: Sequence[str], *, timeout: float) -> Completed:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return Completed(done.returncode, done.stdout, done.stderr)

    monkeypatch.setattr("hearth.doctor.support.engine.execute", execute)
    monkeypatch.setattr(support, "_managed", lambda place: [])
    monkeypatch.setattr(support, "_SYSTEMCTL", (str(systemctl),))
    found = dict(support._of_place(HOUSE, "kokoro"))
    assert [name for name, text in found.items() if FOREIGN in text] == []
    assert "ExecStart=/usr/bin/kokoro" in found["instances/kokoro/kokoro.service.txt"]
    assert "MemoryMax=1024" in found["instances/kokoro/kokoro.service.status"]


@pytest.mark.parametrize(
    "content", [json.dumps({"a": CREDENTIAL, "n": 1}), f"USER=house\nPASS='{CREDENTIAL}'\n"]
)
def test_the_values_in_a_credential_are_known(
    content: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(instance: Any, argv: Sequence[str], *, timeout: float) -> Completed:
        return Completed(0, f"{content}\0", "")

    monkeypatch.setattr("hearth.doctor.support.engine.execute", execute)
    assert CREDENTIAL in support.known_secrets(project, HOUSE)


def test_without_a_vault_the_handed_in_secrets_are_still_left_out(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.inventory / "secrets.yml").write_text("not a vault")

    def execute(instance: Any, argv: Sequence[str], *, timeout: float) -> Completed:
        return Completed(0, f"{CREDENTIAL}\0short\0", "")

    monkeypatch.setattr("hearth.doctor.support.engine.execute", execute)
    found = support.known_secrets(project, HOUSE)
    assert CREDENTIAL in found
    assert "short" not in found
