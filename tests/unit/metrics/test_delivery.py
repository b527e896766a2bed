"""A real Alertmanager with the house's configuration delivers by e-mail and by webhook."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword

from hearth.render import metrics
from tests.documents import shipped_house
from tests.ports import kept_port

PASSWORD = "only-a-test"
DELIVERED_S = 20
LABELS = {"alertname": "HEARTH-SERVICE-DOWN", "severity": "error", "about": "kokoro"}
ALERT = {
    "labels": LABELS,
    "annotations": {
        "title": "A program is down",
        "todo": "Look into its journal: `hearth logs kokoro`.",
        "link": "https://home.lan/findings/HEARTH-SERVICE-DOWN",
    },
}


class Mailbox:
    """Keeps every message that the server accepts."""

    def __init__(self) -> None:
        self.mails: list[bytes] = []
        self.signed_in: list[tuple[bytes, bytes]] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:
        """Keep a message."""
        assert isinstance(envelope.content, bytes)
        assert (envelope.mail_from, envelope.rcpt_tos) == ("house@example.org", ["you@example.org"])
        self.mails.append(envelope.content)
        return "250 OK"

    def authenticate(self, *call: Any) -> AuthResult:
        """Accept the one account."""
        given = call[-1]
        assert isinstance(given, LoginPassword)
        self.signed_in.append((given.login, given.password))
        return AuthResult(success=given.password == PASSWORD.encode())


@contextmanager
def mail_server(folder: Path, port: int) -> Iterator[Mailbox]:
    """A mail server on this machine which accepts a password over TLS only."""
    certificate, key = folder / "server.crt", folder / "server.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-noenc", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-out", certificate, "-keyout", key),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    box = Mailbox()
    server = Controller(
        *(box, "127.0.0.1", port),
        tls_context=context,
        require_starttls=True,
        auth_required=True,
        # Its prompts for this one are not those that Alertmanager waits for.
        auth_exclude_mechanism=["LOGIN"],
        authenticator=box.authenticate,
    )
    server.start()
    try:
        yield box
    finally:
        server.stop()


@contextmanager
def hook(bodies: list[dict[str, Any]]) -> Iterator[int]:
    """A receiver of webhooks, which keeps what it gets; yields its port."""

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def config(folder: Path, mail_port: int, hook_port: int) -> Path:
    """Write the house's configuration with both receivers; only its waiting is shorter."""
    house = shipped_house()
    service = replace(
        house.services["alertmanager"],
        needs=(),
        secrets={metrics.MAIL_SECRET: "given", metrics.WEBHOOK_SECRET: "given"},
    )
    email = {"to": "you@example.org", "from": "house@example.org", "user": "house"}
    (folder / metrics.MAIL_SECRET).write_text(PASSWORD)
    email["server"] = f"localhost:{mail_port}"
    made = metrics.alertmanager_config(house, service, email, str(folder))
    made["route"] |= {"group_wait": "1s", "group_interval": "1s"}
    # Debian 12, which also runs these tests, has an Alertmanager without files for URLs.
    for receiver in made["receivers"]:
        receiver["webhook_configs"] = [{"url": f"http://127.0.0.1:{hook_port}/"}]
    path = folder / "alertmanager.yml"
    path.write_text(yaml.safe_dump(made, width=1000))
    return path


@contextmanager
def alertmanager(path: Path, port: int) -> Iterator[None]:
    """Debian's Alertmanager, which trusts the mail server's certificate."""
    with (path.parent / "log").open("wb") as log:
        program = shutil.which("prometheus-alertmanager")
        assert program, "`scripts/test` brings it"
        # It reads its own templates at Debian's place, also where it was only unpacked.
        share = Path(program).resolve().parents[1] / "share"
        mounted = f'mount --bind {share} /usr/share && exec "$@"'
        argv = ["unshare", "--map-root-user", "--mount", "sh", "-ec", mounted, "sh", program]
        argv += [f"--config.file={path}", f"--storage.path={path.parent}/data"]
        argv += [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
        environment = os.environ | {"SSL_CERT_FILE": str(path.parent / "server.crt")}
        running = subprocess.Popen(argv, stdout=log, stderr=log, env=environment)
        try:
            yield
        finally:
            running.terminate()
            running.wait(10)


def send(port: int, alert: dict[str, Any]) -> None:
    """Send an alert as Prometheus does, as soon as the program listens."""
    end = time.monotonic() + DELIVERED_S
    while True:
        try:
            address = f"http://127.0.0.1:{port}/api/v2/alerts"
            httpx.post(address, json=[alert], trust_env=False).raise_for_status()
            return
        except httpx.ConnectError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def wait_for(found: list[Any], count: int, log: Path) -> None:
    """Wait until so many have come."""
    end = time.monotonic() + DELIVERED_S
    while len(found) < count:
        if time.monotonic() > end:
            pytest.fail(f"{len(found)} of {count} came\n{log.read_text()[-2000:]}")
        time.sleep(0.1)


def test_an_alert_and_its_end_come_by_mail_and_webhook(tmp_path: Path) -> None:
    bodies: list[dict[str, Any]] = []
    with kept_port() as mail_port, kept_port() as port, hook(bodies) as hook_port:
        path = config(tmp_path, mail_port, hook_port)
        with mail_server(tmp_path, mail_port) as box, alertmanager(path, port):
            send(port, ALERT)
            wait_for(box.mails, 1, tmp_path / "log")
            wait_for(bodies, 1, tmp_path / "log")
            ended = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 1))
            send(port, ALERT | {"endsAt": ended})
            wait_for(box.mails, 2, tmp_path / "log")
            wait_for(bodies, 2, tmp_path / "log")
    assert box.signed_in == 2 * [(b"house", PASSWORD.encode())]
    fired, over = (message_from_bytes(mail, policy=policy.default) for mail in box.mails)
    assert fired["Subject"] == "A program is down"
    assert over["Subject"] == "Resolved: A program is down"
    body = fired.get_body()
    assert body is not None
    text = body.get_content()
    for line in ("kokoro", ALERT["annotations"]["todo"], ALERT["annotations"]["link"]):
        assert line in text
    assert [one["status"] for one in bodies] == ["firing", "resolved"]
    assert bodies[0]["alerts"][0]["labels"] == LABELS
