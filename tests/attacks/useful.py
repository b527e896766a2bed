"""What agents are for: the same programs, under the same rules, with nobody attacking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.attacks import task

if TYPE_CHECKING:
    from tests.attacks.target import Target


@task("tell which services are up")
async def state_of_the_house(target: Target) -> None:
    answer = await target.verb("service_status")
    assert "kokoro: up" in answer.json()["text"]


@task("read why a service failed in its log")
async def reading_a_log(target: Target) -> None:
    target.engine.log("kokoro", "voice af_heart is missing")
    answer = await target.verb("service_logs", {"service": "kokoro"})
    assert "af_heart is missing" in answer.json()["text"]


@task("read a public page and a PDF, and name the source")
async def reading_pages(target: Target) -> None:
    page = target.web.page("/security", "<h1>CVE-2024-6387</h1><p>fixed in 9.8</p>")
    found = await target.fetch(page, run="run-1")
    assert "CVE-2024-6387" in found["text"]
    assert found["origin"].endswith(page)
    paper = await target.fetch(target.web.pdf("/paper.pdf", "Ferries leave at nine"), run="run-1")
    assert "Ferries leave at nine" in paper["text"]


@task("write a program and run it")
async def running_code(target: Target) -> None:
    answer = await target.verb("run_code", {"language": "python", "code": "print(6 * 7)"})
    assert answer.is_success, answer.text
    assert answer.json()["data"]["exit_code"] == 0


@task("try a fix in a sandbox: look, write, restart, delete")
async def trying_a_fix(target: Target) -> None:
    name = await target.sandbox()
    for verb, more in (
        ("sandbox_read_file", {"path": "/etc/hostname"}),
        ("sandbox_write_file", {"path": "/etc/kokoro.conf", "text": "voice=af_heart\\n"}),
        ("sandbox_systemctl", {"action": "restart", "unit": "kokoro.service"}),
        ("sandbox_run", {"argv": ["true"]}),
        ("sandbox_delete", {}),
    ):
        answer = await target.verb(verb, {"name": name, **more})
        assert answer.is_success, (verb, answer.text)


@task("restart a service after a person approved it by passkey")
async def approved_restart(target: Target) -> None:
    made = await target.pending()
    body = target.decision(target.owner.sign(made.challenge))
    assert (await target.decide(made.id, body)).is_success
    target.expected.add(made.id)
    asked = await target.verb("approval_status", {"id": made.id})
    assert asked.json()["data"]["state"] == "approved"


@task("propose a change of a record, which a person sees as a diff")
async def proposed_change(target: Target) -> None:
    made = await target.proposed(target.with_summary("A calm voice."))
    page = (await target.page(f"/approvals/{made.id}")).text
    assert "A calm voice." in page
