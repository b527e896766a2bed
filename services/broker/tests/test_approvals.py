"""Only a person's passkey on the house's own page approves, and only what the page showed."""

import copy
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from hearth.approvals import ApprovalError
from hearth.approvals.people import People
from hearth.approvals.proposal import LIFE_S, Excerpt, Mark, Proposal, Section, Who, new_id
from hearth.approvals.store import Store
from hearth.catalogue.house import House
from hearth_broker.app import create_app
from hearth_broker.config import Config
from hearth_broker.pages import POLICY, resume, routes

from .authenticator import Authenticator, raw, text
from .conftest import KEY, key, serving

# As Caddy sends them for a person who signed in.
PERSON = {"Host": "home.lan", "X-Hearth-Consumer": ""}
SENT = {**PERSON, "Origin": "https://home.lan", "Sec-Fetch-Site": "same-origin"}
Lines = Callable[[], list[dict[str, Any]]]


class Started:
    """Notes what would be carried out."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def __call__(self, root: Path, id_: str) -> None:
        self.ids.append(id_)


def proposal(**more: Any) -> Proposal:
    now = int(time.time())
    made = Proposal(
        id=new_id(),
        verb="restart",
        arguments={"service": "kokoro"},
        summary="restart kokoro.service",
        plan=(Section("What will be done", "restart kokoro.service"),),
        base={},
        who=Who("team", "caretaker", "run-7", "chat-9"),
        reads=(Excerpt("outside: log of kokoro", now - 9, "please restart kokoro"),),
        taint=(Mark("service", "outside: log of kokoro", "kokoro"),),
        made=now,
        expires=now + LIFE_S,
    )
    return replace(made, **more)


@pytest.fixture
def started() -> Started:
    return Started()


@pytest.fixture
def config(config: Config, tmp_path: Path) -> Config:
    return config.model_copy(update={"approvals": tmp_path / "approvals"})


@pytest.fixture
def store(config: Config) -> Store:
    return Store(config.approvals, config.state / "audit.jsonl")


@pytest.fixture
def people(config: Config) -> People:
    return People(config.approvals)


@pytest.fixture
async def pages(config: Config, house: House, started: Started) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(create_app(config, house, [], routes(config, started))) as client:
        yield client


@pytest.fixture
async def phone(pages: httpx.AsyncClient, people: People) -> Authenticator:
    """Return a passkey that a person has enrolled."""
    made = Authenticator()
    assert (await enrol(pages, people.invite("Anna"), made)).status_code == 200
    return made


async def enrol(pages: httpx.AsyncClient, code: str, made: Authenticator) -> httpx.Response:
    answer = await pages.post("/approvals/enrol/options", json={"code": code}, headers=SENT)
    if answer.status_code != 200:
        return answer
    body = {"code": code, "credential": made.make(answer.json()["options"])}
    return await pages.post("/approvals/enrol", json=body, headers=SENT)


async def challenge(pages: httpx.AsyncClient, id_: str) -> str:
    """Return the challenge that the page of a proposal gives to the browser."""
    page = (await pages.get(f"/approvals/{id_}", headers=PERSON)).text
    options = page.partition('data-options="')[2].partition('"')[0].replace("&#34;", '"')
    found = json.loads(options)
    assert found["userVerification"] == "required"
    assert found["rpId"] == "home.lan"
    return str(found["challenge"])


async def approve(
    pages: httpx.AsyncClient, id_: str, credential: object, headers: dict[str, str] = SENT
) -> httpx.Response:
    body = {"credential": credential}
    return await pages.post(f"/approvals/{id_}/approve", json=body, headers=headers)


UUID = "6a1f2c1e-0b5d-4f8e-9a3b-1c2d3e4f5a6b"


@pytest.mark.parametrize(
    ("client", "chat", "linked"),
    [("open_webui", UUID, True), ("open_webui", "local:x", False), ("household", UUID, False)],
)
async def test_a_proposal_shows_who_asked_and_leads_to_the_chat(
    config: Config, house: House, store: Store, client: str, chat: str, linked: bool
) -> None:
    made = proposal(who=Who("agents", "caretaker", "run-7", chat, client, "Zoë <b>"))
    store.add(made)
    config = config.model_copy(update={"chats": {"open_webui": "chat.lan"}})
    async with serving(create_app(config, house, [], routes(config, Started()))) as pages:
        page = (await pages.get(f"/approvals/{made.id}", headers=PERSON)).text
        assert f"Zoë &lt;b&gt; in {client}, by agents" in page
        assert (f'href="https://chat.lan/c/{chat}"' in page) == linked
        listed = (await pages.get("/approvals/", headers=PERSON)).text
        assert f"asked by Zoë &lt;b&gt; in {client}, by agents" in listed


async def test_a_passkey_approves_what_the_page_shows(
    pages: httpx.AsyncClient, store: Store, phone: Authenticator, started: Started, lines: Lines
) -> None:
    made = proposal()
    digest = store.add(made)
    signs = await challenge(pages, made.id)
    # What is signed are the bytes of the digest.
    assert raw(signs) == bytes.fromhex(digest)
    answer = await approve(pages, made.id, phone.sign(signs))
    assert (answer.status_code, answer.json()["text"]) == (200, "approved by Anna")
    assert started.ids == [made.id]
    entry = store.read(made.id)
    assert (entry.state, entry.steps["decision"].by) == ("approved", "Anna, by passkey")
    steps = [line for line in lines() if line["event"] == "approval"]
    assert [(one["state"], one["digest"]) for one in steps] == [
        ("pending", digest),
        ("approved", digest),
    ]


async def test_the_page_shows_who_asked_and_what_came_from_outside(
    pages: httpx.AsyncClient, store: Store
) -> None:
    diff = "--- services.yml now\n+++ services.yml proposed\n+egress: [evil.example]\n-old: 1"
    made = proposal(
        verb="propose",
        arguments={"files": {"services.yml": "x"}, "why": "<script>alert(1)</script>\u202e"},
        plan=(
            Section("Why, in the agent's words", "<script>alert(1)</script>\u202e", author="agent"),
            Section("inventory/local/services.yml", diff, "diff", "agent"),
        ),
        taint=(Mark("files.services.yml", "outside: https://x.example", "evil.example"),),
    )
    store.add(made)
    answer = await pages.get(f"/approvals/{made.id}", headers=PERSON)
    assert answer.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    page = answer.text
    for word in ("team", "caretaker", "chat-9", "run-7", "outside: log of kokoro"):
        assert word in page, word
    assert re.search(r"1[45]:\d\d minutes left", page)
    marked = '[<mark title="outside: https://x.example">evil.example</mark>]'
    assert f'<span class="added">+egress: {marked}' in page
    assert '<span class="removed">-old: 1' in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&lt;U+202E&gt;" in page


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"verifies": False}, "not valid"),
        ({"origin": "https://chat.lan"}, "not valid"),
        ({"origin": "http://home.lan"}, "not valid"),
        ({"relying": "chat.lan"}, "not valid"),
        ({"framed": True}, "own page only"),
    ],
)
async def test_a_passkey_without_its_person_or_of_another_page_approves_nothing(
    pages: httpx.AsyncClient,
    store: Store,
    phone: Authenticator,
    started: Started,
    lines: Lines,
    change: dict[str, Any],
    why: str,
) -> None:
    made = proposal()
    store.add(made)
    for name, value in change.items():
        setattr(phone, name, value)
    answer = await approve(pages, made.id, phone.sign(await challenge(pages, made.id)))
    assert answer.status_code == 409
    assert why in answer.json()["text"]
    assert (store.read(made.id).state, started.ids) == ("pending", [])
    assert lines()[-1]["event"] == "refused"


async def test_the_approval_of_one_proposal_is_not_that_of_another(
    pages: httpx.AsyncClient, store: Store, phone: Authenticator, started: Started
) -> None:
    first, second = proposal(), proposal()
    store.add(first)
    store.add(second)
    answer = await approve(pages, second.id, phone.sign(await challenge(pages, first.id)))
    assert answer.status_code == 409
    assert started.ids == []


async def test_an_assertion_is_used_once(
    pages: httpx.AsyncClient, store: Store, phone: Authenticator, started: Started
) -> None:
    made = proposal()
    store.add(made)
    signed = phone.sign(await challenge(pages, made.id))
    assert (await approve(pages, made.id, signed)).status_code == 200
    again = await approve(pages, made.id, signed)
    assert again.status_code == 409
    assert "cannot be approved again" in again.json()["text"]
    # Nor where the counter alone would tell.
    with pytest.raises(ApprovalError, match="not valid"):
        _verify(pages, store, made.id, signed)
    assert started.ids == [made.id]


def _verify(pages: httpx.AsyncClient, store: Store, id_: str, signed: dict[str, Any]) -> None:
    from hearth_broker.passkeys import Passkeys

    people = People(store.folder)
    digest = store.read(id_).digest
    people.counted(signed["id"], lambda one: Passkeys("home.lan").approved(one, digest, signed))


async def test_what_was_edited_after_the_page_was_shown_is_not_approved(
    pages: httpx.AsyncClient, store: Store, phone: Authenticator, started: Started
) -> None:
    made = proposal()
    store.add(made)
    signed = phone.sign(await challenge(pages, made.id))
    other = replace(made, arguments={"service": "ollama"})
    (store.folder / f"{made.id}.json").write_bytes(other.canonical())
    answer = await approve(pages, made.id, signed)
    assert answer.status_code == 409
    assert (store.read(made.id).state, started.ids) == ("pending", [])


async def test_nothing_is_approved_after_fifteen_minutes(
    pages: httpx.AsyncClient, store: Store, phone: Authenticator, started: Started
) -> None:
    old = int(time.time()) - LIFE_S - 1
    made = proposal(made=old, expires=old + LIFE_S)
    digest = store.add(made)
    answer = await approve(pages, made.id, phone.sign(text(bytes.fromhex(digest))))
    assert answer.status_code == 409
    assert "expired" in answer.json()["text"]
    assert started.ids == []


@pytest.mark.parametrize("broken", ["id", "signature", "authenticatorData", "clientDataJSON"])
async def test_a_forged_answer_approves_nothing(
    pages: httpx.AsyncClient, store: Store, phone: Authenticator, started: Started, broken: str
) -> None:
    made = proposal()
    store.add(made)
    signed = phone.sign(await challenge(pages, made.id))
    forged = copy.deepcopy(signed)
    if broken == "id":
        forged["id"] = forged["rawId"] = text(b"somebody else")
    else:
        part = bytearray(raw(forged["response"][broken]))
        part[-3] ^= 1
        forged["response"][broken] = text(bytes(part))
    assert (await approve(pages, made.id, forged)).status_code == 409
    wrong: list[object] = [
        None,
        [],
        "approved",
        {},
        {"id": "x"},
        {"id": 5},
        signed | {"response": 1},
    ]
    for nonsense in wrong:
        assert (await approve(pages, made.id, nonsense)).status_code == 409
    assert (store.read(made.id).state, started.ids) == ("pending", [])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://chat.lan"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": None}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"X-Hearth-Consumer": "team"}, 403),
        ({"X-Hearth-Consumer": None}, 403),
        ({"Host": "broker.lan"}, 403),
    ],
)
async def test_another_page_or_a_program_decides_nothing(
    pages: httpx.AsyncClient,
    store: Store,
    phone: Authenticator,
    started: Started,
    headers: dict[str, str | None],
    status: int,
) -> None:
    made = proposal()
    store.add(made)
    sent = {k: v for k, v in {**SENT, **headers}.items() if v is not None}
    signed = phone.sign(await challenge(pages, made.id))
    answer = await approve(pages, made.id, signed, sent)
    assert answer.status_code == status
    refusal = await pages.post(f"/approvals/{made.id}/refuse", json={}, headers=sent)
    assert refusal.status_code == status
    assert (store.read(made.id).state, started.ids) == ("pending", [])


@pytest.mark.parametrize(
    "headers",
    [key(KEY), {**PERSON, **key(KEY), "X-Hearth-Consumer": "team"}, {**PERSON, "Host": "x.lan"}],
)
async def test_a_program_does_not_see_the_pages(
    pages: httpx.AsyncClient, store: Store, headers: dict[str, str]
) -> None:
    made = proposal()
    store.add(made)
    for path in ("/approvals/", f"/approvals/{made.id}", f"/approvals/{made.id}/state"):
        answer = await pages.get(path, headers=headers)
        assert answer.status_code in (403, 404)
        assert made.summary not in answer.text


async def test_an_instance_that_claims_to_be_the_reverse_proxy_is_sent_away(
    config: Config, house: House, started: Started, store: Store
) -> None:
    made = proposal()
    store.add(made)
    app, here = create_app(config, house, [], routes(config, started)), "http://10.140.30.1"
    caddy = httpx.ASGITransport(app=app, client=("10.140.30.1", 5))
    async with httpx.AsyncClient(transport=caddy, base_url=here) as client:
        assert (await client.get("/approvals/", headers=PERSON)).status_code == 200
    instance = httpx.ASGITransport(app=app, client=("10.140.30.54", 5))
    async with httpx.AsyncClient(transport=instance, base_url=here) as client:
        assert (await client.get("/approvals/", headers=PERSON)).status_code == 404
        refused = await client.post(f"/approvals/{made.id}/refuse", json={}, headers=SENT)
        assert refused.status_code == 403
    assert store.read(made.id).state == "pending"


async def test_refusing_needs_no_passkey(
    pages: httpx.AsyncClient, store: Store, phone: Authenticator, started: Started
) -> None:
    made = proposal()
    store.add(made)
    signs = await challenge(pages, made.id)
    answer = await pages.post(f"/approvals/{made.id}/refuse", json={}, headers=SENT)
    assert answer.status_code == 200
    assert store.read(made.id).state == "refused"
    assert (await approve(pages, made.id, phone.sign(signs))).status_code == 409
    assert started.ids == []


async def test_a_code_enrols_one_passkey_for_ten_minutes(
    pages: httpx.AsyncClient, people: People
) -> None:
    code = people.invite("Anna")
    assert (await enrol(pages, "wrong", Authenticator())).status_code == 409
    assert (await enrol(pages, code, Authenticator())).status_code == 200
    again = await enrol(pages, code, Authenticator())
    assert again.status_code == 409
    assert "wrong, used or older" in again.json()["text"]
    assert [one.name for one in people.passkeys()] == ["Anna"]
    late = People(people.folder, lambda: time.time() - 601).invite("Berta")
    assert (await enrol(pages, late, Authenticator())).status_code == 409


async def test_ten_wrong_codes_end_the_right_one(pages: httpx.AsyncClient, people: People) -> None:
    code = people.invite("Anna")
    for _ in range(10):
        assert (await enrol(pages, "guess", Authenticator())).status_code == 409
    assert (await enrol(pages, code, Authenticator())).status_code == 409
    assert people.passkeys() == []


@pytest.mark.parametrize(
    "change",
    [{"verifies": False}, {"origin": "https://chat.lan"}, {"relying": "lan"}, {"framed": True}],
)
async def test_a_passkey_without_its_person_is_not_enrolled(
    pages: httpx.AsyncClient, people: People, change: dict[str, Any]
) -> None:
    made = Authenticator()
    for name, value in change.items():
        setattr(made, name, value)
    code = people.invite("Anna")
    assert (await enrol(pages, code, made)).status_code == 409
    assert people.passkeys() == []
    # The code is not lost by that.
    assert (await enrol(pages, code, Authenticator())).status_code == 200


async def test_the_answer_to_one_code_is_not_that_to_another(
    pages: httpx.AsyncClient, people: People
) -> None:
    options = {"code": people.invite("Anna")}
    answer = await pages.post("/approvals/enrol/options", json=options, headers=SENT)
    made = Authenticator().make(answer.json()["options"])
    body = {"code": people.invite("Berta"), "credential": made}
    assert (await pages.post("/approvals/enrol", json=body, headers=SENT)).status_code == 409
    assert people.passkeys() == []


async def test_a_forgotten_passkey_approves_nothing(
    pages: httpx.AsyncClient, store: Store, people: People, phone: Authenticator
) -> None:
    made = proposal()
    store.add(made)
    assert people.forget("Anna") == 1
    answer = await approve(pages, made.id, phone.sign(await challenge(pages, made.id)))
    assert answer.status_code == 409
    assert "not enrolled" in answer.json()["text"]


async def test_the_list_and_the_files_are_there(pages: httpx.AsyncClient, store: Store) -> None:
    made = proposal()
    digest = store.add(made)
    page = (await pages.get("/approvals/", headers=PERSON)).text
    assert f'href="/approvals/{made.id}"' in page
    assert "No passkey is enrolled yet" in page
    style = page.partition('<link rel="stylesheet" href="')[2].partition('"')[0]
    assert style.startswith("/approvals/page/")
    assert (await pages.get(style)).status_code == 200
    store.decide(made.id, "refused", digest, "Anna")
    assert "Nothing waits for you" in (await pages.get("/approvals/", headers=PERSON)).text
    missing = await pages.get("/approvals/..%2f..%2fetc%2fpasswd", headers=PERSON)
    assert missing.status_code == 404


async def test_a_long_body_is_refused(pages: httpx.AsyncClient, store: Store) -> None:
    made = proposal()
    store.add(made)
    answer = await approve(pages, made.id, "x" * 100_000)
    assert answer.status_code == 409
    assert "64 KiB" in answer.json()["text"]


def test_what_a_power_cut_interrupted_is_taken_up(
    config: Config, store: Store, started: Started
) -> None:
    made = proposal()
    store.decide(made.id, "approved", store.add(made), "Anna")
    assert resume(config, started) == []
    store.start(made.id, lambda one: dict(one.base))
    assert resume(config, started) == [made.id] == started.ids
