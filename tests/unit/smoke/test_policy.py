"""A policy that lets a page reach beyond its house is told apart from one that does not."""

import pytest

from hearth.smoke.policy import violations

GOOD = (
    "default-src 'self'; img-src 'self' data: blob:; connect-src 'self' wss://chat.lan; "
    "script-src 'self' 'sha256-x' 'wasm-unsafe-eval'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)

MADE = "lets scripts be made of text"
INLINE = "lets scripts stand in the text of a page"
TEXT = "lets a script in that is a text"


def test_a_strict_policy_passes() -> None:
    assert violations(GOOD, "chat.lan") == []
    # A worker is made by a script that the page has.
    assert violations(GOOD + "; worker-src 'self' blob:", "chat.lan") == []
    assert violations(GOOD.replace("'sha256-x'", "'sha256-x' 'unsafe-inline'"), "chat.lan") == []
    assert violations(GOOD.upper().replace("CHAT.LAN", "chat.lan") + ";", "chat.lan") == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("default-src 'self'; ", "", "default-src is missing"),
        ("; frame-ancestors 'none'", "", "frame-ancestors is missing"),
        ("base-uri 'none'; ", "", "base-uri is missing"),
        ("form-action 'self'", "", "form-action is missing"),
        ("img-src 'self'", "img-src *", "img-src lets * in"),
        ("img-src 'self'", "img-src https:", "img-src lets https: in"),
        ("wss://chat.lan", "wss:", "connect-src lets wss: in"),
        ("wss://chat.lan", "https://x.example", "connect-src lets https://x.example in"),
        ("wss://chat.lan", "http://chat.lan", "connect-src lets http://chat.lan in"),
        ("'sha256-x'", "'unsafe-eval'", f"script-src {MADE}"),
        ("'sha256-x'", "'unsafe-inline'", f"script-src {INLINE}"),
        ("'sha256-x'", "data:", f"script-src {TEXT}: data:"),
        ("'sha256-x'", "Blob:", f"script-src {TEXT}: blob:"),
        # It lets a script of the page load others from anywhere.
        ("'sha256-x'", "'sha256-x' 'strict-dynamic'", "script-src lets 'strict-dynamic' in"),
        ("base-uri", "script-src-elem 'unsafe-inline'; base-uri", f"script-src-elem {INLINE}"),
        ("base-uri", "script-src-attr 'unsafe-inline'; base-uri", f"script-src-attr {INLINE}"),
        ("base-uri", "worker-src 'self' data:; base-uri", f"worker-src {TEXT}: data:"),
    ],
)
def test_each_hole_is_named(old: str, new: str, said: str) -> None:
    assert old in GOOD
    assert violations(GOOD.replace(old, new), "chat.lan") == [said]


def test_no_policy_is_all_holes() -> None:
    assert len(violations("", "chat.lan")) == 4
    assert violations("default-src 'unsafe-eval'", "a")[-1] == f"default-src {MADE}"
    assert violations("default-src data:", "a")[-1] == f"default-src {TEXT}: data:"
