"""The audit log: forged lines, hidden calls, and secrets that it must not keep."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.attacks import attack
from tests.attacks.answers import refused

if TYPE_CHECKING:
    from tests.attacks.target import Target

GROUP = "The audit log"


@attack(
    GROUP,
    "a line of its own in the log, by line breaks and JSON in arguments and headers",
    stopped="each line is one JSON object; control characters are escaped",
)
async def forged_line(target: Target) -> None:
    forged = 'kokoro"}\n{"verb": "restart", "consumer": "owner", "result": "approved"}\n{"x": "'
    refused(await target.verb("service_logs", {"service": forged}))
    refused(await target.verb("restart%0a{}"))
    headers = {"X-Hearth-Agent": 'a"} {"verb": "x', "X-Hearth-Run": "x\ty"}
    await target.verb("service_status", headers=headers)
    assert not any(line.get("consumer") == "owner" for line in target.audit())


@attack(
    GROUP,
    "headers with more than a name: escape sequences, HTML, 8,000 characters",
    stopped="100 characters of letters, digits and `.:-_`",
)
async def strange_headers(target: Target) -> None:
    for text in ("\x1b[31mred", "<img src=x>", "a" * 8000, "../../x"):
        headers = {"X-Hearth-Agent": text, "X-Hearth-Run": text, "X-Hearth-Chat": text}
        await target.verb("service_status", headers=headers)
        said = json.dumps(target.audit()[-1])
        assert "\\u001b" not in said
        assert "<img" not in said
        assert len(said) < 4000


@attack(
    GROUP,
    "a key in an argument, so that the log keeps it",
    stopped="words whose digest is that of a key are left out; values are cut at 200 characters",
)
async def key_in_an_argument(target: Target) -> None:
    asked = {"language": "python", "code": f"key = '{target.team}'"}
    await target.verb("run_code", asked)
    await target.verb("service_logs", {"service": target.team})
    await target.verb(target.team)
    assert target.team not in target.audit_text()
    # Its own caller may read its key in an error.
    target.replies.clear()


@attack(
    GROUP,
    "hiding a call behind a very long argument",
    stopped="values are cut at 200 characters; the line says verb, caller and result all the same",
)
async def hidden_by_length(target: Target) -> None:
    await target.verb("run_code", {"language": "sh", "code": "# " + "a" * 30_000 + "\nid"})
    last = target.audit()[-1]
    assert "run_code" in json.dumps(last)
    assert len(json.dumps(last)) < 4000


@attack(
    GROUP,
    "reading the audit log, the keys or another chat's runs through the broker's own paths",
    stopped="there are verbs, `/mcp`, `/openapi.json`, health and the approvals; 404 for the rest",
)
async def other_paths(target: Target) -> None:
    for path in (
        "/audit",
        "/audit.jsonl",
        "/v1/audit",
        "/var/lib/hearth/broker/audit.jsonl",
        "/approvals/../audit.jsonl",
        "/approvals/%2e%2e/broker.json",
        "/static/../../../../etc/shadow",
        "/approvals/page/..%2f..%2fconfig.py",
        "/docs",
        "/debug",
    ):
        answer = await target.send("GET", path, headers={"Authorization": f"Bearer {target.team}"})
        assert answer.status_code in (400, 401, 403, 404, 405), (path, answer.status_code)
