"""A device trusts the house, and nothing else by that: with curl and in a real browser.

The device is the guest, whose resolver is the house and whose microphone is a file. Servers that
a thief of the house's keys could run are on the guest itself, under names that only it knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hearth.machine.pki import Authority
from tests import lab_machine as lab
from tests.forged import LEAF_KEY_PEM, leaf_for
from tests.lab import visitor
from tests.lab.house import CLONE, NAME, House
from tests.lab.test_stt_page import write_speech
from tests.lab.visitor import ROOT_THERE, Visit

pytestmark = pytest.mark.lab

SITE, OWN_NAME, FOREIGN = "trust.lan", "forged.lan", "bank.example"
PAGE = f"http://{SITE}/"
SOUND, NOBODY = "/srv/speech.wav", "/home/visitor/nobody"
FORGED = "/srv/forged"
# curl's error for a certificate that it does not trust.
UNBELIEVED = 60
# A forger's server: it presents each port's certificate to any client.
SERVE = """
import json, ssl, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
for port, folder in json.loads(sys.argv[1]).items():
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/chain.pem", f"{folder}/key.pem")
    # A client that rejects the certificate closes its connection on another thread.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    threading.Thread(target=server.serve_forever).start()
"""


@dataclass(frozen=True, slots=True)
class Door:
    """One forger's server: the certificate that it presents, and its name and port."""

    port: int
    host: str
    chain: str

    @property
    def address(self) -> str:
        """Its address for the guest."""
        return f"https://{self.host}:{self.port}/"


def authority(house: House) -> Authority:
    """Return what a thief of the whole vault has."""
    script = (
        "import json; from hearth.project import current; from hearth.machine.pki import SECRETS; "
        "held = current().vault.values(); print(json.dumps([held[name] for name in SECRETS]))"
    )
    return Authority(*json.loads(python(house, script)))


def python(house: House, script: str) -> str:
    """Run a Python program in the project's environment on the machine."""
    done = house.inside("/bin/sh", "-c", f'cd {CLONE} && exec .venv/bin/python -c "$0"', script)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def doors(
    house: House, guest: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Door]]:
    """The forger's servers on the guest."""
    own = authority(house)
    signer = (own.intermediate_cert_pem, own.intermediate_key_pem)
    below = leaf_for("lan", *signer, ca=True)
    by_root = leaf_for(FOREIGN, own.root_cert_pem, own.root_key_pem)
    given = own.intermediate_cert_pem
    found = {
        "a name of the house": Door(9441, OWN_NAME, leaf_for(OWN_NAME, *signer) + given),
        "another domain": Door(9442, FOREIGN, leaf_for(FOREIGN, *signer) + given),
        "an address": Door(9443, "127.0.0.1", leaf_for("127.0.0.1", *signer) + given),
        "a second intermediate": Door(
            9444, OWN_NAME, leaf_for(OWN_NAME, below, LEAF_KEY_PEM) + below + given
        ),
        "another domain, by the root itself": Door(9445, FOREIGN, by_root),
    }
    folder = tmp_path_factory.mktemp("forged")
    for door in found.values():
        (folder / str(door.port)).mkdir()
        (folder / str(door.port) / "chain.pem").write_text(door.chain)
        (folder / str(door.port) / "key.pem").write_text(LEAF_KEY_PEM)
    (folder / "serve.py").write_text(SERVE)
    lab.copy_in(guest, folder, FORGED)
    ports = json.dumps({door.port: f"{FORGED}/{door.port}" for door in found.values()})
    unit = ["systemd-run", "--quiet", "--collect", "--unit=forged"]
    lab.run(guest, [*unit, "python3", f"{FORGED}/serve.py", ports], check=True)
    last = max(door.port for door in found.values())
    wait = f"until (: < /dev/tcp/127.0.0.1/{last}) 2> /dev/null; do sleep 0.1; done"
    lab.run(guest, ["timeout", "30", "bash", "-c", wait], check=True)
    names = f"127.0.0.1 {OWN_NAME} {FOREIGN}"
    lab.run(guest, ["sh", "-c", 'echo "$0" >> /etc/hosts', names], check=True)
    yield found
    lab.run(guest, ["systemctl", "stop", "forged"], check=True)
    lab.run(guest, ["sed", "-i", f"/{FOREIGN}/d", "/etc/hosts"], check=True)


@pytest.fixture(scope="module")
def believed(
    house: House, guest: str, doors: dict[str, Door], tmp_path_factory: pytest.TempPathFactory
) -> Visit:
    """The visit of a device that trusts the house and has a microphone."""
    speech = tmp_path_factory.mktemp("sound") / "speech.wav"
    write_speech(speech, 1)
    lab.copy_in(guest, speech, SOUND)
    return visitor.visit(
        *(guest, "chromium", "trusting", f"https://{SITE}/"),
        site=SITE,
        plain=plain(),
        sound=SOUND,
        doors={name: door.address for name, door in doors.items()},
    )


@pytest.fixture(scope="module")
def unbelieved(house: House, guest: str) -> Visit:
    """The visit of a device without the house's root."""
    lab.run(guest, ["install", "-d", "-o", "visitor", NOBODY], check=True)
    return visitor.visit(
        guest, "chromium", "mistrusting", PAGE, home=NOBODY, site=SITE, plain=plain()
    )


def plain() -> str:
    """Return the address that needs no DNS."""
    return f"http://{lab.address(NAME)}/"


def test_with_the_root_the_page_goes_on_by_https_and_turns_green(believed: Visit) -> None:
    found = believed["believed"]
    arrived = found.pop("arrived")
    assert arrived["address"] == f"https://{SITE}/"
    assert arrived["secure"]
    # Without a microphone, the page reports that and nothing else.
    assert (arrived["state"], arrived["checks"]["microphone"]) == ("nearly", "waiting")
    assert found["state"] == "green"
    assert set(found["checks"].values()) == {"good"}, found["checks"]
    assert found["code"]
    assert found["shown"] == ["verdict", "pages", "next"]
    assert "https://chat.lan/" in found["links"]
    assert found["complaints"] == []


def test_without_the_root_it_is_red_and_shows_instructions(unbelieved: Visit) -> None:
    found = unbelieved["stranger"]
    assert "ERR_CERT_AUTHORITY_INVALID" in found["secure"]
    for address in (PAGE, plain()):
        seen = found["seen"][address]
        assert seen["address"] == address
        assert (seen["state"], seen["secure"]) == ("red", False)
        assert seen["headline"] == "This device does not trust the house yet."
        assert "steps 1 and 2" in seen["advice"].lower()
        assert (seen["checks"]["names"], seen["checks"]["trust"]) == ("good", "bad")
        assert seen["code"]
        assert {"certificate", "guides", "next"} <= set(seen["shown"])
        assert "pages" not in seen["shown"]
        # The page could not load the resource that it tests with; there is no other error.
        assert [line for line in seen["complaints"] if "ERR_CERT" not in line] == []


def test_without_scripts_the_certificate_is_offered(unbelieved: Visit) -> None:
    found = unbelieved["without scripts"]
    assert found["link"] == f"{PAGE}hearth-root.crt"
    assert f"https://{SITE}/" in found["text"]
    assert found["guides"] == ["linux"]


def test_a_device_with_another_dns_server_gets_a_warning(house: House, guest: str) -> None:
    visit = visitor.visit(
        *(guest, "chromium", "nameless", PAGE), site=SITE, plain=plain(), unknown=SITE
    )
    found = visit["nameless"]
    assert (found["state"], found["checks"]["names"]) == ("red", "bad")
    assert found["headline"] == "This device cannot find the house by name yet."
    assert "dns" in found["shown"]


def test_the_page_is_accessible(believed: Visit, unbelieved: Visit) -> None:
    for visit, scenes in (
        (believed, ["accessibility"]),
        (unbelieved, ["accessibility", "accessibility in the dark"]),
    ):
        for scene in scenes:
            found = visit[scene]
            assert found["serious"] == [], (scene, found)
            assert found["passed"] > 10
    for visit in (believed, unbelieved):
        found = visit["phone"]
        assert found["wide"] <= found["inner"]
        assert (found["sticking_out"], found["too_small"]) == ([], [])


def test_the_guest_downloads_the_same_root(house: House, guest: str) -> None:
    argv = ["curl", "--silent", "--fail", f"{plain()}hearth-root.crt"]
    got = lab.run(guest, argv, check=True).stdout
    assert got == house.inside("cat", "/etc/hearth/pki/root.crt", check=True).stdout
    assert got == lab.run(guest, ["cat", ROOT_THERE], check=True).stdout


def test_curl_trusts_only_the_houses_names(guest: str, doors: dict[str, Door]) -> None:
    results = {
        name: lab.run(
            guest, ["curl", "--silent", "--show-error", "--cacert", ROOT_THERE, door.address]
        )
        for name, door in doors.items()
    }
    # The forger's server runs and is trusted for its own name, if only with a refusal.
    assert results.pop("a name of the house").returncode == 0
    assert {name: done.returncode for name, done in results.items()} == dict.fromkeys(
        results, UNBELIEVED
    )
    reasons = {name: done.stderr for name, done in results.items()}
    assert "permitted subtree violation" in reasons["another domain"]
    assert "permitted subtree violation" in reasons["another domain, by the root itself"]
    assert "excluded subtree violation" in reasons["an address"]
    assert "path length constraint exceeded" in reasons["a second intermediate"]


def test_chromium_trusts_only_the_houses_names(believed: Visit) -> None:
    found = dict(believed["doors"])
    assert found.pop("a name of the house").startswith("HTTP "), found
    assert {name: "net::ERR_CERT" in text for name, text in found.items()} == dict.fromkeys(
        found, True
    ), found
