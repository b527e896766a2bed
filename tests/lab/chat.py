"""The chat of the lab's house: its accounts, documents, images, and the gateway's log of calls.

Signing in, writing and reading an answer are in hearth/clients/chat.py.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import struct
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hearth.clients import ClientError
from hearth.clients.chat import ChatAnswer, Person, sign_in
from hearth.clients.endpoints import Edge, Endpoint
from tests import lab_machine as lab
from tests.lab.house import NAME, House

SITE = "chat.lan"
SETTINGS = "/etc/hearth/open-webui.json"
PASSWORD = "open_webui_admin_password"
FILES, ADD, USERS = "/api/v1/files/", "/api/v1/auths/add", "/api/v1/users/"
KNOWLEDGE = "/api/v1/knowledge"
_FILE_S = 60
_LOOKS = 6
_CALL = re.compile(
    r'consumer=(?P<consumer>\S+) alias="(?P<alias>[^"]*)" member=(?P<member>\S+) '
    r"status=(?P<status>\d+) end=(?P<end>\S+) .*path=(?P<path>\S+)"
)


def door(house: House) -> Endpoint:
    """Return the chat server as a client outside the machine reaches it: by the reverse proxy."""
    return Edge(lab.address(NAME), house.folder / "root.crt").endpoint(SITE)


def first(house: House) -> Person:
    """Sign in as the house's owner, with the password that the house has generated."""
    done = house.hearth("secret", "show", PASSWORD, "--plain")
    assert done.returncode == 0, done.stderr
    given = json.loads(house.shell(f"incus exec open-webui -- cat {SETTINGS} </dev/null"))
    email = given["environment"]["WEBUI_ADMIN_EMAIL"]
    return sign_in(door(house), email, done.stdout.strip())


def add(admin: Person, name: str, role: str = "user") -> Person:
    """Create an account as the admin, and sign in with it."""
    email, word = f"{name}-{secrets.token_hex(4)}@house.lan", secrets.token_urlsafe(16)
    form = {"name": name, "email": email, "password": word, "role": role}
    admin.request("POST", ADD, json=form)
    return sign_in(admin.server, email, word)


def remove(admin: Person, person: Person) -> None:
    """Remove an account and all its data as the admin."""
    admin.request("DELETE", f"{USERS}{person.id}")


def models(person: Person) -> dict[str, dict[str, Any]]:
    """Return the models that a person is offered, by name."""
    return {model["id"]: model for model in person.request("GET", "/api/models")["data"]}


def description(model: dict[str, Any]) -> str:
    """Return the description of a model that people see."""
    return str(model.get("info", {}).get("meta", {}).get("description") or "")


def messages(person: Person, chat: str) -> dict[str, dict[str, Any]]:
    """Return the stored messages of a chat."""
    response = person.request("GET", f"/api/v1/chats/{chat}")
    return dict(response["chat"]["history"]["messages"])


def upload(person: Person, name: str, content: bytes, kind: str) -> dict[str, Any]:
    """Upload a document, wait until it was read, and return it as a message refers to it."""
    response = person.request("POST", FILES, files={"file": (name, content, kind)})
    deadline = time.monotonic() + _FILE_S
    while (file := person.request("GET", f"{FILES}{response['id']}"))["data"][
        "status"
    ] != "completed":
        if file["data"]["status"] == "failed" or time.monotonic() > deadline:
            raise ClientError(f"{name} was not read: {file['data']}")
        time.sleep(0.1)
    known = {"type": "file", "id": file["id"], "url": file["id"], "name": name, "file": file}
    return known | {"collection_name": file["meta"]["collection_name"], "status": "uploaded"}


def collect(person: Person, name: str, papers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Create a collection of documents, and return it as a message refers to it."""
    response = person.request(
        "POST", f"{KNOWLEDGE}/create", json={"name": name, "description": name}
    )
    for paper in papers:
        person.request(
            "POST", f"{KNOWLEDGE}/{response['id']}/file/add", json={"file_id": paper["id"]}
        )
    return {"type": "collection", "id": response["id"], "name": name}


def cited(answer: ChatAnswer) -> dict[str, list[str]]:
    """Return the sources that an answer cites: the passages of each document."""
    payloads = [event.data for event in answer.events if isinstance(event.data, dict)]
    found = [source for data in payloads for source in data.get("sources") or []]
    return {source["source"]["name"]: source["document"] for source in found}


def pdf(*pages: str) -> bytes:
    """Return a document with one page for each text, one line for each of a text's lines."""
    shape = b"/MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>"
    kids = b" ".join(b"%d 0 R" % number for number in range(4, 4 + 2 * len(pages), 2))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for text in pages:
        drawn = _drawn(text)
        contents = b"/Contents %d 0 R" % (len(objects) + 2)
        objects += [
            b"<< /Type /Page /Parent 2 0 R %s %s >>" % (contents, shape),
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn),
        ]
    body, places = b"%PDF-1.4\n", []
    for number, item in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, item)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    table = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    return body + table + end % (len(objects) + 1, len(body))


def _drawn(text: str) -> bytes:
    lines = [re.sub(r"([()\\])", r"\\\1", line) for line in text.splitlines()]
    shown = " T* ".join(f"({line}) Tj" for line in lines)
    return f"BT /F1 9 Tf 12 TL 40 800 Td {shown} ET".encode("latin-1")


def png(side: int = 64) -> bytes:
    """Return a red square."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\xff\0\0" * side) * side)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def picture(content: bytes) -> dict[str, Any]:
    """Return an image as a message carries it."""
    data = base64.b64encode(content).decode()
    return {"type": "image", "url": f"data:image/png;base64,{data}"}


@dataclass(frozen=True, slots=True)
class Call:
    """One line of the gateway's access log: which consumer called which model, and the result."""

    consumer: str
    alias: str
    member: str
    status: int
    end: str
    path: str


@contextmanager
def calls(house: House, consumer: str = "open_webui") -> Iterator[list[Call]]:
    """Collect a consumer's requests to the gateway, from the start of the block to its end."""
    began = time.time()  # one kernel, one clock
    found: list[Call] = []
    yield found
    read = "journalctl --unit litellm --output short-unix --no-pager --quiet"
    script = f"incus exec litellm -- {read} --since @{began - 1:.0f} </dev/null"
    for _ in range(_LOOKS):
        # A line is written when its response has ended, which the page may notice a moment before.
        time.sleep(0.5)
        before, found[:] = [*found], _calls(house.shell(script), consumer, began)
        if found and found == before:
            return


def _calls(log: str, consumer: str, began: float) -> list[Call]:
    found = []
    for line in log.splitlines():
        seen = _CALL.search(line)
        if seen and seen["consumer"] == consumer and float(line.split()[0]) >= began:
            words = seen.groupdict()
            found.append(Call(**words | {"status": int(words["status"])}))  # type: ignore[arg-type]
    return found
