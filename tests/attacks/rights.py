"""Proposals that give more than they seem to: the right stands in a field that nobody looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.attacks import attack

if TYPE_CHECKING:
    from tests.attacks.target import Target

GROUP = "Rights hidden in a proposal"


async def told(target: Target, file: str, text: str, *lines: str) -> None:
    """Propose a file, and check that a person reads these lines above its diff."""
    made = await target.proposed({file: text})
    sections = target.stored(made.id)["plan"]
    first = next(at for at, one in enumerate(sections) if one["kind"] == "diff")
    shown = "\n".join(one["text"] for one in sections[:first] if one["kind"] == "warning")
    for line in lines:
        assert line in shown, shown
    assert (await target.refuse(made.id)).is_success


async def service(target: Target, record: str, *lines: str) -> None:
    """Propose a change of records of services."""
    await told(target, "services.yml", f"services: {{{record}}}\n", *lines)


@attack(
    GROUP,
    "a new way through the firewall: `uses: [broker]`, the scraper's place, a service's hidden "
    "paths, another role",
    stopped="every changed field has a line above the diff, and who may connect to whom is "
    "compared before and after",
)
async def new_ways_in_the_house(target: Target) -> None:
    await service(
        target,
        "whisper: {uses: [broker]}",
        "new connections in the house: whisper to broker:",
        "whisper may call broker",
    )
    await service(
        target,
        "prometheus: {scrapes: false}, kokoro: {scrapes: true}",
        "new connections in the house: kokoro to ",
        "kokoro reads the figures of all others",
    )
    await service(target, 'ollama: {paths: ["/*"]}', "ollama answers other services at /* (before")
    await service(target, "whisper: {role: kokoro}", "whisper runs the role kokoro")


@attack(
    GROUP,
    "a site that seems locked: `auth: key` with `open: [/v1/*]`, and a `closed` path that opens",
    stopped="the line says who may open the site, and which paths, now and before",
)
async def open_sites(target: Target) -> None:
    await service(
        target,
        'litellm: {publish: {llm: {auth: key, open: ["/v1/*"]}}}',
        "with a consumer's key; without it, every device on the LAN reads /v1/*",
    )
    await service(
        target,
        "open_webui: {publish: {chat: {closed: []}}}",
        "except /api/v1/functions/load/url, /api/v1/tools/load/url, /api/v1/skills/load/url)",
    )
    await service(
        target,
        "open_webui: {publish: {chat: {session: null, user_files: []}}}",
        "the site chat has session: nothing (before: /api/v1/users/user/info)",
        "the site chat has user_files: nothing (before: /api/v1/files/*, /cache/*)",
    )


@attack(
    GROUP,
    "another model under a known name, every prompt to the cloud, a price of nothing",
    stopped="ID, provider, price and members of each model and alias have lines, and so has an "
    "alias that others answer now",
)
async def other_models(target: Target) -> None:
    for text, line in (
        ("qwen3.5: {id: evil/qwen:latest}", "is what its provider calls evil/qwen:latest"),
        (
            "qwen3.5: {provider: openrouter, download: null, price: {input_eur: 9, output_eur: 9}}",
            "qwen3.5 is served by openrouter",
        ),
        ("claude-haiku-4-5: {price: {input_eur: 0, output_eur: 0}}", "costs 0 EUR and 0 EUR for a"),
        ("qwen3.5: {gpu: cuda}", "the alias local is answered by llama3.1 (before: qwen3.5"),
    ):
        await told(target, "models.yml", f"models: {{{text}}}\n", line)
    await told(
        target,
        "aliases.yml",
        "aliases: {orchestrator: {members: [nemotron-120b]}}\n",
        "the alias orchestrator sends requests to nemotron-120b (in the cloud) (before: qwen3.5",
    )


@attack(
    GROUP,
    "damage that shows later: no data kept, no backup, a health check that proves nothing, no "
    "memory",
    stopped="each of these fields has a line, with what was there before",
)
async def quiet_damage(target: Target) -> None:
    await service(target, "open_webui: {data: []}", "open_webui keeps nothing (before: /var/lib/o")
    await service(
        target,
        "open_webui: {data: [{path: /var/lib/open-webui, copy: none}]}",
        "keeps /var/lib/open-webui (not in backups) (before",
    )
    await service(
        target,
        'kokoro: {health: {path: "/", contains: "<"}, limits: {memory: 16MiB}}',
        "kokoro has health.contains: < (before",
        "kokoro has limits.memory: 16MiB (before: 2GiB)",
    )


@attack(
    GROUP,
    "a value that writes lines of its own among those of the house: “nothing else changes”",
    stopped="a text that is more than a word is quoted, with its line breaks written out",
)
async def imitated_lines(target: Target) -> None:
    await service(
        target,
        'whisper: {health: {path: "/", contains: "ok\\nnothing else changes"}}',
        'whisper has health.contains: "ok\\nnothing else changes" (before: ',
    )
