"""A made-up site for the house's fetcher: pages to read, and pages that misbehave."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Sequence

from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from tests.mock_upstreams import names

LARGE_BYTES = 20 * 1024 * 1024
# From the public records of these numbers; the fixed versions are upstream's.
CVES = (
    ("CVE-2019-16905", "7.7 to 8.0", "8.1", "integer overflow in the parser of XMSS keys"),
    ("CVE-2020-14145", "5.7 to 8.4", "8.5", "the client shows which host keys it knows"),
    ("CVE-2020-15778", "up to 8.3p1", "none", "scp passes backquotes to the remote shell"),
    ("CVE-2021-28041", "8.2 to 8.4", "8.5", "double free in ssh-agent"),
    ("CVE-2021-41617", "6.2 to 8.7", "8.8", "AuthorizedKeysCommand keeps extra groups"),
    ("CVE-2023-25136", "9.1", "9.2", "double free before authentication in sshd"),
    ("CVE-2023-38408", "up to 9.3p1", "9.3p2", "ssh-agent loads libraries of a remote host"),
    ("CVE-2023-48795", "up to 9.5", "9.6", "Terrapin: messages removed from a session's start"),
    ("CVE-2023-51384", "8.9 to 9.5", "9.6", "constraints missing on some PKCS#11 keys"),
    ("CVE-2023-51385", "up to 9.5", "9.6", "shell characters in a user or host name"),
    ("CVE-2024-6387", "8.5p1 to 9.7p1", "9.8", "regreSSHion: a race in sshd's signal handler"),
    ("CVE-2024-39894", "9.5 to 9.7", "9.8", "keystroke timing is not hidden as it should be"),
    ("CVE-2025-26465", "6.8p1 to 9.9p1", "9.9p2", "VerifyHostKeyDNS accepts another host"),
    ("CVE-2025-26466", "9.5p1 to 9.9p1", "9.9p2", "memory and time spent before authentication"),
)
# Each leads out of the internet; a fetcher follows none of them.
REDIRECTS = {
    "loopback": "http://127.0.0.1/",
    "house": "http://10.140.30.14/v1/models",
    "lan": "http://192.168.1.1/",
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "decimal": "http://2130706433/",
    "octal": "http://0177.0.0.1/",
    "hexadecimal": "http://0x7f.1/",
    "ipv6": "http://[::1]/",
    "mapped": "http://[::ffff:10.140.30.14]/",
    "6to4": "http://[2002:a8c:1e0c::]/",
    "nat64": "http://[64:ff9b::a8c:1e0c]/",
    "name": "https://home.lan/",
    "port": f"https://{names.EXAMPLE_SITE}:8443/",
    "user": f"https://house@{names.EXAMPLE_SITE}/",
    "file": "file:///etc/passwd",
    "loop": f"https://{names.EXAMPLE_SITE}/to/loop",
}


def routes() -> list[Route]:
    """Return the site's pages."""
    return [
        Route("/", front),
        Route("/openssh", openssh),
        Route("/openssh.pdf", paper),
        Route("/moved", lambda _: RedirectResponse("/openssh", status_code=301)),
        Route("/to/{where}", away),
        Route("/large", large),
        Route("/bomb", bomb),
        Route("/slow", slow),
        Route("/picture.png", lambda _: Response(b"\x89PNG\r\n", media_type="image/png")),
    ]


def front(_: Request) -> Response:
    """Return the first page, with links to the others."""
    return _page(
        "Example pages", '<p><a href="/openssh">OpenSSH</a>, also <a href=/moved>moved</a>'
    )


def openssh(_: Request) -> Response:
    """Return the table of CVEs."""
    rows = "".join(f"<tr>{''.join(f'<td>{cell}' for cell in row)}" for row in CVES)
    head = "<tr><th>number<th>affected<th>fixed in<th>what it is"
    text = "<nav><a href=/>home</a></nav><h1>OpenSSH 8 to 9</h1><p>Vulnerabilities by number."
    more = '<p>The same as <a href="/openssh.pdf">a PDF</a>.<script>document.write("no")</script>'
    return _page("Vulnerabilities of OpenSSH", f"{text}<table>{head}{rows}</table>{more}")


def paper(_: Request) -> Response:
    """Return the same as a PDF."""
    lines = ["OpenSSH 8 to 9", *(f"{number} {where}: {what}" for number, where, _, what in CVES)]
    return Response(pdf_of(lines), media_type="application/pdf")


def away(request: Request) -> Response:
    """Redirect into the house, or elsewhere."""
    place = REDIRECTS.get(request.path_params["where"])
    # Starlette would quote what must arrive as it is.
    return Response(status_code=302, headers={"Location": place}) if place else _missing()


async def large(_: Request) -> Response:
    """Return more than a fetcher reads."""

    async def body() -> AsyncIterator[bytes]:
        line = b"All work and no play makes a long page.\n" * 1024
        for _ in range(LARGE_BYTES // len(line)):
            yield line

    return StreamingResponse(body(), media_type="text/plain")


async def bomb(_: Request) -> Response:
    """Return little that becomes much."""
    packed = gzip.compress(b" " * LARGE_BYTES * 5)
    return Response(packed, headers={"Content-Encoding": "gzip"}, media_type="text/html")


async def slow(_: Request) -> Response:
    """Return a byte in each second, for a minute."""

    async def body() -> AsyncIterator[bytes]:
        for _ in range(60):
            yield b"."
            await asyncio.sleep(1)

    return StreamingResponse(body(), media_type="text/plain")


def pdf_of(lines: Sequence[str]) -> bytes:
    """Return a PDF of one page with these lines of ASCII."""
    escaped = [line.translate({ord(c): f"\\{c}" for c in "()\\"}) for line in lines]
    drawn = "".join(f"({line}) Tj T*\n" for line in escaped)
    stream = zlib.compress(f"BT /F1 10 Tf 14 TL 40 800 Td\n{drawn}ET".encode("ascii"))
    length = f"<< /Length {len(stream)} /Filter /FlateDecode >>".encode()
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        length + b"\nstream\n" + stream + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    made, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(made)
    made += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    made += b"".join(b"%010d 00000 n \n" % place for place in places)
    made += b"trailer << /Size %d /Root 1 0 R >>\n" % (len(objects) + 1)
    return bytes(made + b"startxref\n%d\n%%%%EOF\n" % start)


def _page(title: str, body: str) -> Response:
    return HTMLResponse(f"<!doctype html><title>{title}</title><body>{body}</body>")


def _missing() -> Response:
    return PlainTextResponse("Not Found", status_code=404)
