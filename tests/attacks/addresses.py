"""Addresses of the house, its LAN and the machine, asked of the one program that may go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.attacks import attack
from tests.attacks.answers import refused

if TYPE_CHECKING:
    from tests.attacks.target import Target

GROUP = "Internal addresses through `web_fetch`"
LITELLM = "10.140.30.14"


async def never(target: Target, *urls: str) -> None:
    """Check that each URL is refused, and that nobody was connected to who is not public."""
    for url in urls:
        answer = await target.verb("web_fetch", {"url": url})
        refused(answer)
        assert target.planted["internal"] not in answer.text
    assert not target.web.met_inside, target.web.met_inside


@attack(
    GROUP,
    "services by their addresses, the machine's own, loopback, the LAN, link-local (a cloud's "
    "metadata)",
    stopped="public addresses only",
)
async def plain_addresses(target: Target) -> None:
    await never(
        target,
        *(f"http://{host}/" for host in (LITELLM, "10.140.30.1", "127.0.0.1", "192.168.1.1")),
        *("http://169.254.169.254/latest/meta-data/", "http://172.16.0.1/", "http://100.64.0.1/"),
        *("http://0.0.0.0/", "http://255.255.255.255/", "http://224.0.0.1/"),
    )


@attack(
    GROUP,
    "the same in decimal, hexadecimal, octal, and with parts left out",
    stopped="numbers are no host names; only `a.b.c.d` is read, and judged",
)
async def written_as_numbers(target: Target) -> None:
    await never(
        target,
        *("http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://127.1/"),
        *("http://0x7f.1/", "http://010.0140.036.014/", "http://10.140.7692/"),
        *(f"http://{int.from_bytes(bytes([10, 140, 30, 12]), 'big')}/", "http://0/"),
    )


@attack(
    GROUP,
    "the same in wide digits, circled digits, and with an ideographic full stop",
    stopped="mapped as the resolver maps them, then judged",
)
async def written_in_unicode(target: Target) -> None:
    circled = "①②⑦.⓪.⓪.①"
    await never(
        target,
        f"http://{circled}/",
        "http://127\u30020\u30020\u30021/",
        "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/",
    )


@attack(
    GROUP,
    "IPv6: loopback, mapped IPv4, unique local, link-local with a zone, NAT64, 6to4",
    stopped="the house reaches IPv4 only; refused before any connection",
)
async def ipv6(target: Target) -> None:
    await never(
        target,
        *("http://[::1]/", f"http://[::ffff:{LITELLM}]/", "http://[fd00::1]/"),
        *("http://[fe80::1%25eth0]/", "http://[64:ff9b::a8c:1e0c]/", "http://[2002:a8c:1e0c::]/"),
        "http://[::]/",
    )


@attack(
    GROUP,
    "names of the house (`home.lan`, `litellm`, `localhost`)",
    stopped="names without a public address are refused",
)
async def names_of_the_house(target: Target) -> None:
    await never(
        target,
        *("http://localhost/", "http://localhost.localdomain/", "https://home.lan/approvals/"),
        *("http://litellm/", "http://litellm.lan/", "http://LOCALHOST./"),
    )


@attack(
    GROUP,
    "a public name whose address is one of the house",
    stopped="all addresses of a name are judged after it is resolved",
)
async def name_with_an_internal_address(target: Target) -> None:
    target.web.names["inside.evil.example"] = [[LITELLM]]
    target.web.names["loop.evil.example"] = [["127.0.0.1"]]
    await never(target, "http://inside.evil.example/", "http://loop.evil.example/")


@attack(
    GROUP,
    "a name with two addresses, one public and one of the house",
    stopped="one that is not public refuses them all",
)
async def mixed_addresses(target: Target) -> None:
    target.web.names["mixed.evil.example"] = [[target.web.public, LITELLM]]
    await never(target, "http://mixed.evil.example/")


@attack(
    GROUP,
    "DNS rebinding: public at the first question, an address of the house at the second",
    stopped="the address that was judged is the one that is connected to",
)
async def rebinding(target: Target) -> None:
    target.web.names["rebind.evil.example"] = [[target.web.public], [LITELLM]]
    target.web.paths["/rebind"] = (302, {"Location": "http://rebind.evil.example/again"}, b"")
    await never(target, "http://rebind.evil.example/rebind")


@attack(
    GROUP,
    "a redirect of a public page to an address of the house: absolute, by name, without a scheme, "
    "in five steps",
    stopped="every redirect is judged like the first URL",
)
async def redirects(target: Target) -> None:
    targets = (f"http://{LITELLM}/", "http://localhost/", f"//{LITELLM}/", "http://[::1]/")
    for number, location in enumerate(targets):
        target.web.paths[f"/r{number}"] = (302, {"Location": location}, b"")
    for step in range(4):
        target.web.paths[f"/s{step}"] = (301, {"Location": f"/s{step + 1}"}, b"")
    target.web.paths["/s4"] = (307, {"Location": f"http://{LITELLM}/"}, b"")
    urls = [f"{target.web.url}/r{number}" for number in range(len(targets))]
    await never(target, *urls, f"{target.web.url}/s0")


@attack(
    GROUP,
    "redirects without end, and to another scheme (`file:`, `gopher:`, `data:`)",
    stopped="five redirects, http and https",
)
async def redirects_elsewhere(target: Target) -> None:
    target.web.paths["/loop"] = (302, {"Location": "/loop"}, b"")
    for number, location in enumerate(("file:///etc/shadow", "gopher://x/", "data:,x", "ftp://x/")):
        target.web.paths[f"/f{number}"] = (302, {"Location": location}, b"")
    await never(target, f"{target.web.url}/loop", *(f"{target.web.url}/f{n}" for n in range(4)))


@attack(
    GROUP,
    "other schemes in the URL itself",
    stopped="http and https only",
)
async def other_schemes(target: Target) -> None:
    await never(
        target,
        *("file:///etc/shadow", "gopher://127.0.0.1:6379/_FLUSHALL", "data:text/html,x"),
        *("unix:///var/lib/incus/unix.socket", "dict://127.0.0.1/", "jar:http://x!/", "//etc"),
    )


@attack(
    GROUP,
    "another port of a public host: ssh, mail, a database",
    stopped="80 and 443 only",
)
async def other_ports(target: Target) -> None:
    host = "web.example.org"
    await never(target, *(f"http://{host}:{port}/" for port in (22, 25, 5432, 9185, 0, 99999)))


@attack(
    GROUP,
    "a URL that two programs read apart: a user name, a backslash, a tab, a fragment",
    stopped="one strict reading; anything ambiguous is refused",
)
async def ambiguous_urls(target: Target) -> None:
    await never(
        target,
        f"http://web.example.org@{LITELLM}/",
        f"http://{LITELLM}\\@web.example.org/",
        f"http://web.example.org\t@{LITELLM}/",
        f"http://{LITELLM}#@web.example.org/",
        f"http://{LITELLM}%2f@web.example.org/",
        "http:///etc",
        "http://",
    )


@attack(
    GROUP,
    "a second request inside the URL (line breaks)",
    stopped="control characters are refused, and the rest is quoted",
)
async def request_in_the_url(target: Target) -> None:
    line = "HTTP/1.1\r\nHost: litellm\r\n\r\nPOST /key/generate"
    await never(target, f"{target.web.url}/ {line}", f"{target.web.url}/a\r\nX-Evil: 1")
    await target.verb("web_fetch", {"url": f"{target.web.url}/a%0d%0aX-Evil:%201"})
    assert all("x-evil" not in one for one in target.web.headers)


@attack(
    GROUP,
    "fetching with the house's credentials: its keys and cookies to a page of the attacker's",
    stopped="a request has four fixed headers, and no state is kept between pages",
)
async def leaks_of_headers(target: Target) -> None:
    target.web.paths["/cookie"] = (200, {"Set-Cookie": "a=1", "Content-Type": "text/plain"}, b"x")
    headers = {"Cookie": "login=1", "X-Hearth-Chat": "chat-9"}
    for _ in range(2):
        url = f"{target.web.url}/cookie"
        answer = await target.verb("web_fetch", {"url": url}, headers=headers)
        assert answer.is_success, answer.text
    for one in target.web.headers:
        assert not {"cookie", "authorization", "x-hearth-chat", "referer"} & one.keys()
