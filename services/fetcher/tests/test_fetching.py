"""Pages, redirects and names that change: what was checked is what is connected to."""

import asyncio
import datetime
import gzip
import ssl
import zlib
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hearth_fetcher.limits import MIB, Limits

from .world import OTHER, PUBLIC, SITE, Serve, World, answer, redirects

URL = f"http://{SITE}/"


async def test_a_page_is_fetched(world: World) -> None:
    page = b"<title>News</title><p>Good <b>news</b>.<script>bad()</script>"
    await world.serve(answer(page, content_type="text/html; charset=utf-8"))
    response = await world.ask(URL + "a?b=c#d")
    assert response.json() == {
        "url": URL + "a?b=c",
        "status": 200,
        "type": "text/html",
        "text": "# News\n\nGood news.",
        "truncated": False,
    }
    (request,) = world.requests
    assert request.startswith(b"GET /a?b=c HTTP/1.1\r\n")
    assert f"Host: {SITE}".encode() in request
    assert b"User-Agent: Hearth-Fetcher/1" in request


async def test_an_error_page_is_an_answer(world: World) -> None:
    await world.serve(answer(b"not here", "404 Not Found"))
    assert (await world.ask(URL)).json() | {"text": "not here", "status": 404} == (
        await world.ask(URL)
    ).json()
    await world.serve(answer(b"\x89PNG", "500 Broken", content_type="image/png"))
    assert (await world.ask(URL)).json()["text"] == ""


async def test_a_redirect_is_followed_without_cookies(world: World) -> None:
    world.names["other.example.org"] = [[OTHER]]
    first = answer(status="301 Moved", location="http://other.example.org/b", set_cookie="a=b")
    await world.serve(first)
    await world.serve(answer(b"there"), at=OTHER)
    found = (await world.ask(URL)).json()
    assert (found["url"], found["text"]) == ("http://other.example.org/b", "there")
    assert world.dialled == [(PUBLIC, 80), (OTHER, 80)]
    for unwanted in (b"cookie", b"referer", b"authorization"):
        assert unwanted not in b"".join(world.requests).lower()


@pytest.mark.parametrize(
    "place",
    [
        "http://127.0.0.1/",
        "http://10.140.30.14/v1/models",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://8.8.8.8/",  # the LAN of this world
        "//10.140.30.10/",
        "http://home.lan/",
        "http://inside.example.org/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:10.140.30.14]/",
        "http://[64:ff9b::a8c:1e0c]/",
        "http://pages.example.org:4000/",
        "http://user@pages.example.org/",
        "http://pages.example.org\\@10.140.30.14/",
        "file:///etc/passwd",
        "gopher://10.140.30.14:4000/_x",
        "javascript:alert(1)",
    ],
)
async def test_a_redirect_into_the_house_is_not_followed(world: World, place: str) -> None:
    world.names |= {"inside.example.org": [["10.140.30.14"]], "home.lan": [["192.168.1.10"]]}
    world.closed = (IPv4Network("10.140.30.0/24"), IPv4Network("8.8.8.0/24"))
    await world.serve(answer(status="302 Found", location=place))
    line = await world.refusal(URL, 403)
    assert world.dialled == [(PUBLIC, 80)]
    # A line of ours never repeats what a server wrote, nor an address of the house.
    assert "10.140" not in line
    assert "passwd" not in line


async def test_at_most_five_redirects_are_followed(world: World) -> None:
    await world.serve(*redirects(f"/{n}" for n in range(5)), answer(b"the end"))
    assert (await world.ask(URL)).json()["text"] == "the end"
    await world.serve(*redirects(f"/{n}" for n in range(9)))
    assert "more than 5 times" in await world.refusal(URL, 502)
    assert len(world.requests) == 6 + 6


async def test_a_name_that_changes_between_check_and_connection_gains_nothing(
    world: World,
) -> None:
    world.names[SITE] = [[PUBLIC], ["10.140.30.14"], ["10.140.30.14"]]
    await world.serve(answer(b"outside"))
    world.ports["10.140.30.14", 80] = world.ports[PUBLIC, 80]
    # It is resolved once, and that address is used.
    assert (await world.ask(URL)).json()["text"] == "outside"
    assert (world.resolved, world.dialled) == ([SITE], [(PUBLIC, 80)])


async def test_a_name_that_changes_before_a_redirect_is_checked_again(world: World) -> None:
    world.names[SITE] = [[PUBLIC], ["10.140.30.14"]]
    await world.serve(*redirects(["/again"]))
    world.ports["10.140.30.14", 80] = world.ports[PUBLIC, 80]
    await world.refusal(URL, 403)
    assert (world.resolved, world.dialled) == ([SITE, SITE], [(PUBLIC, 80)])


async def test_a_private_address_is_never_tried_after_a_public_one_failed(world: World) -> None:
    world.names[SITE] = [[OTHER, "10.140.30.14"]]
    await world.serve(answer(b"secret"), at="10.140.30.14")
    await world.refusal(URL, 403)
    assert world.dialled == []


async def test_the_next_public_address_is_tried_up_to_three(world: World) -> None:
    world.names[SITE] = [[OTHER, PUBLIC]]
    await world.serve(answer(b"second"))
    assert (await world.ask(URL)).json()["text"] == "second"
    world.dialled.clear()
    world.names[SITE] = [["9.9.9.1", "9.9.9.2", "9.9.9.3", PUBLIC]]
    assert "accepts no connection" in await world.refusal(URL, 502)
    assert len(world.dialled) == 3


async def test_an_open_name_is_fetched_from_a_private_address(world: World) -> None:
    world.names[SITE], world.open_names = [["10.99.1.1"]], frozenset({SITE})
    await world.serve(answer(b"a lab"), at="10.99.1.1")
    assert (await world.ask(URL)).json()["text"] == "a lab"


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a server's context for one name, and a client's that trusts it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = signed.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "both.pem").write_bytes(pem + secret)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(folder / "both.pem")
    return server, ssl.create_default_context(cadata=pem.decode())


async def test_tls_is_verified_for_the_name(world: World, tmp_path: Path) -> None:
    server, world.trust = certificate(tmp_path, SITE)
    world.names["other.example.org"] = [[PUBLIC]]
    await world.serve(answer(b"safe"), tls=server)
    found = (await world.ask(f"https://{SITE}/")).json()
    assert (found["text"], found["url"]) == ("safe", f"https://{SITE}/")
    # The same server under a name that its certificate does not have, and by its address.
    for host in ("other.example.org", PUBLIC):
        assert "no valid certificate" in await world.refusal(f"https://{host}/", 502)


async def test_an_unknown_authority_is_not_trusted(world: World, tmp_path: Path) -> None:
    server, _ = certificate(tmp_path, SITE)
    await world.serve(answer(b"x"), tls=server)
    assert "no valid certificate" in await world.refusal(f"https://{SITE}/", 502)


def small(world: World, **more: float) -> None:
    world.limits = replace(Limits(), **more)  # type: ignore[arg-type]


async def test_a_long_page_is_cut(world: World) -> None:
    line = b"0123456789abcde\n"
    await world.serve(answer(line * (6 * MIB // 16)))
    found = (await world.ask(URL)).json()
    assert found["truncated"] is True
    assert len(found["text"].encode()) == 64 * 1024
    small(world, page_bytes=100)
    world.state = None
    found = (await world.ask(URL)).json()
    assert (len(found["text"]), found["truncated"]) == (100, True)


@pytest.mark.parametrize("layers", [1, 2])
async def test_a_bomb_is_decompressed_no_further_than_the_limit(world: World, layers: int) -> None:
    bomb = b" " * 300 * MIB
    for _ in range(layers):
        bomb = gzip.compress(bomb, 6)
    assert len(bomb) < MIB
    encoding = ", ".join(["gzip"] * layers)
    await world.serve(answer(bomb, content_encoding=encoding))
    if layers == 2:
        assert "was not requested" in await world.refusal(URL, 502)
        return
    found = (await world.ask(URL)).json()
    assert (found["text"], found["truncated"]) == ("", True)


async def test_compressed_pages_are_read_and_broken_ones_say_so(world: World) -> None:
    await world.serve(answer(gzip.compress(b"short"), content_encoding="GZIP"))
    assert (await world.ask(URL)).json()["text"] == "short"
    await world.serve(answer(b"never compressed", content_encoding="gzip"))
    assert "cannot be decompressed" in await world.refusal(URL, 502)
    await world.serve(answer(zlib.compress(b"x"), content_encoding="br"))
    assert "was not requested" in await world.refusal(URL, 502)


def endless(start: bytes, piece: bytes, pause_s: float = 0) -> Serve:
    """Return a server that never ends."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return serve


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("start", "piece", "why"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-A: aaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", "no valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"a" * 1000, "no valid HTTP"),
        (b"HTTP/1.1 ", b"2" * 1000, "no valid HTTP"),
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 100, "more than 6 MiB"),
        (CHUNKED, b"1;" + b"a" * 9000 + b"\r\nx\r\n", "more than 6 MiB"),
        (CHUNKED, b"1" * 1000, "no valid HTTP"),
        (b"SSH-2.0-OpenSSH_9\r\n", b"\r\n", "no valid HTTP"),
    ],
)
async def test_a_server_that_never_ends_its_headers_is_left(
    world: World, start: bytes, piece: bytes, why: str
) -> None:
    await world.serve(endless(start, piece))
    assert why in await world.refusal(URL, 502)


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\n", b"X: 1\r\n"),
        (HEAD + b"Content-Length: 1000000\r\n\r\n", b"x"),
        (CHUNKED, b"1\r\nx\r\n"),
        (HEAD + b"\r\n", b"x"),
    ],
)
async def test_a_server_that_drips_is_left_at_the_deadline(
    world: World, start: bytes, piece: bytes
) -> None:
    small(world, page_s=0.6)
    await world.serve(endless(start, piece, 0.05))
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert "did not arrive within 0.6 s" in await world.refusal(URL, 504)
    assert loop.time() - began < 3


async def test_redirects_share_one_deadline(world: World) -> None:
    small(world, page_s=0.6)

    async def late(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.25)
        writer.write(answer(status="302 Found", location="/next"))
        await writer.drain()

    await world.serve(late)
    await world.refusal(URL, 504)


async def test_a_response_that_is_cut_off_is_no_page(world: World) -> None:
    await world.serve(answer(b"half", content_length="1000"))
    assert "no valid HTTP" in await world.refusal(URL, 502)
    await world.serve(b"")
    await world.refusal(URL, 502)
