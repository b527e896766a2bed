"""A URL has one reading, and whatever two programs read apart is rejected."""

import pytest

from hearth_fetcher.urls import follow, read_url
from hearth_serving.errors import ServiceError


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://example.org", "https://example.org/"),
        ("HTTP://Example.ORG:80/a b".replace(" ", "%20"), "http://example.org/a%20b"),
        ("https://example.org:443/x?q=1&r=ä#part", "https://example.org/x?q=1&r=%C3%A4"),
        ("https://example.org./", "https://example.org/"),
        # What follows # is never sent, and never a host.
        ("http://example.org#@127.0.0.1/", "http://example.org/"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("https://r3---sn-4g.example.org/", "https://r3---sn-4g.example.org/"),
        ("http://9.9.9.9/", "http://9.9.9.9/"),
        # Judged as what it becomes.
        ("http://\uff19.\uff19.\uff19.\uff19/", "http://9.9.9.9/"),
        ("http://example\u3002org/", "http://example.org/"),
    ],
)
def test_a_plain_url_is_read(text: str, url: str) -> None:
    assert read_url(text).url == url


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must start with https:// or http://"),
        ("example.org", "must start with"),
        ("//example.org/", "must start with"),
        ("file:///etc/passwd", "must start with"),
        ("gopher://example.org/", "must start with"),
        ("ftp://example.org/", "must start with"),
        ("data:text/html,x", "must start with"),
        ("http://", "host name that is not valid"),
        ("http:///etc/passwd", "host name that is not valid"),
        ("http://localhost/", "host name that is not valid"),
        ("http://litellm/", "host name that is not valid"),
        ("http://exa_mple/", "host name that is not valid"),
        ("http://-a.example.org-/", "host name that is not valid"),
        ("http://example..org/", "host name that is not valid"),
        ("http://\u2488.example.org:80/\u200b", "host name that is not valid"),
        ("http://exam\u0000ple.org/", "control character"),
        ("http://example.org/\r\nHost: x", "control character"),
        ("http://example.org\t/", "control character"),
        ("http://example.org/a b", "a space"),
        ("http://example.org\\@127.0.0.1/", "a backslash"),
        ("http://example.org@127.0.0.1/", "a user name"),
        ("http://user:secret@example.org/", "a user name"),
        ("http://example.org:8080/", "names a port"),
        ("http://example.org:443/", "names a port"),
        ("https://example.org:80/", "names a port"),
        ("http://example.org:22/", "names a port"),
        ("http://example.org:99999/", "cannot be read"),
        ("http://example.org:80:81/", "cannot be read"),
        ("http://[::1]/", "IPv6"),
        ("http://[::ffff:127.0.0.1]/", "IPv6"),
        ("http://[::ffff:7f00:1]/", "IPv6"),
        ("http://[::127.0.0.1]/", "IPv6"),
        ("http://[2002:7f00:1::]/", "IPv6"),
        ("http://[64:ff9b::7f00:1]/", "IPv6"),
        ("http://[64:ff9b:1::a8c:1e01]/", "IPv6"),
        ("http://[fe80::1%25eth0]/", "IPv6"),
        ("http://[2001:4860:4860::8888]/", "IPv6"),
        ("http://[::1/", "cannot be read"),
        ("http://[not]/", "cannot be read"),
        ("http://2130706433/", "a number as its host"),
        ("http://017700000001/", "a number as its host"),
        ("http://0x7f000001/", "a number as its host"),
        ("http://0x7f.1/", "a number as its host"),
        ("http://127.1/", "a number as its host"),
        ("http://0177.0.0.1/", "a number as its host"),
        ("http://127.0.0.01/", "a number as its host"),
        ("http://127.0.0.0x1/", "a number as its host"),
        ("http://256.1.1.1/", "a number as its host"),
        ("http://1.2.3.4.5/", "a number as its host"),
        ("http://example.org.0x7f000001/", "a number as its host"),
        ("http://\uff12\uff11\uff13\uff10\uff17\uff10\uff16\uff14\uff13\uff13/", "a number"),
        ("https://example.org/" + "a" * 2048, "is longer than 2048"),
    ],
)
def test_every_other_url_is_rejected(text: str, why: str) -> None:
    with pytest.raises(ServiceError, match=why) as caught:
        read_url(text)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("location", "url"),
    [
        (b"/b", "https://example.org/b"),
        (b"b c", "https://example.org/a/b%20c"),
        (b"//other.example/", "https://other.example/"),
        ("/ü".encode(), "https://example.org/%C3%BC"),
        ("/ü".encode("latin-1"), "https://example.org/%C3%BC"),
        (b"http://other.example/", "http://other.example/"),
    ],
)
def test_a_redirect_is_followed_as_a_browser_does(location: bytes, url: str) -> None:
    assert follow(read_url("https://example.org/a/"), location).url == url
