"""A house as the watcher describes it, and figures as Prometheus sends them."""

import random
from pathlib import Path
from typing import Any

NOW = 1_795_444_911.0


def snapshot(
    made: float = NOW, made_boot_s: float = 1000.0, broken: bool = False
) -> dict[str, Any]:
    """Return a snapshot of a house: a healthy one, or one with three findings."""

    def row(name: str, kind: str = "service", **more: Any) -> dict[str, Any]:
        known = {"up": True, "text": "up", "since": int(made) - 260_000, "changed": 0}
        known |= {"memory_bytes": 0, "version": "", "accelerator": ""}
        return {"name": name, "title": name.replace("_", " "), "kind": kind, **known, **more}

    gib = 2**30
    rows = [
        row("ollama", version="0.30.11", accelerator="CUDA, measured 41 tokens/s",
            memory_bytes=int(5.3 * gib)),
        row("litellm", version="1.101.0", memory_bytes=640 * 2**20),
        row("kokoro", version="0.1.0", accelerator="CPU, measured",
            memory_bytes=734 * 2**20),
        row("whisper", version="0.1.0", accelerator="CPU, measured",
            memory_bytes=812 * 2**20),
        row("open_webui", version="0.12.4", memory_bytes=455 * 2**20),
        row("pipelines", version="0.1.0", memory_bytes=88 * 2**20),
        row("prometheus", version="2.53.3", memory_bytes=72 * 2**20),
        row("caddy", "part", version="2.6.2"),
        row("dnsmasq", "part", version="2.91"),
        row("login", "part"),
        row("trust", "part"),
        row("firewall", "part"),
        row("connections", "part", text="9 of 9 answer", since=0),
        row("certificates", "part", text="good until 2028-11-20", since=0),
        row("disk", "part", text="212.4 GiB free on the disk of /var", since=0),
    ]  # fmt: skip
    for index, verb in ((0, "answered"), (2, "spoke"), (3, "transcribed")):
        rows[index]["worked"] = {"verb": verb, "at": made - 180}
    sites = [
        {"fqdn": f"{name}.lan", "name": name, "service": service, "auth": "house", "summary": "",
         "up": True}
        for name, service in (("chat", "open_webui"), ("kokoro-web", "kokoro"),
                              ("whisper", "whisper"), ("trust", "trust"))
    ]  # fmt: skip
    findings = []
    if broken:
        text = "it accepts the connection but does not respond within 2 s"
        rows[2] |= {"up": False, "text": text, "changed": made - 190}
        sites[1]["up"] = False
        findings = [
            _finding("HEARTH-SERVICE-HUNG", "kokoro", "error", "A service hangs",
                     "GET http://10.140.30.18:8880/health: no answer in 2 s, 63 times in a row",
                     "The program runs and takes connections, and answers none of them.",
                     "Press Fix, which restarts it; `sudo scripts/hearth logs kokoro` shows what "
                     "it did last.", made - 190, True),
            _finding("HEARTH-GPU-ON-CPU", "ollama", "error", "A model computes on the processor",
                     "qwen3.5:4b: 0 of 3.4 GB on the card, 6.1 tokens/s instead of 41",
                     "The card had no room when the model was loaded, so answers are slow.",
                     "Unload another model, or choose a smaller one.", made - 4000, False),
            _finding("HEARTH-BACKUP-OLD", "", "warning", "The last backup is old",
                     "2026-11-12 03:10, 11 days ago; it should be made every day",
                     "If the disk fails, the chats of 11 days are lost.",
                     "See whether the disk for backups is connected; `sudo scripts/hearth backup`.",
                     made - 700_000, False),
        ]  # fmt: skip
    ignored = _finding("HEARTH-IMAGE-OLD", "debian/12", "warning", "An image is old",
                       "built 64 days ago", "…", "…", made - 90_000, True)  # fmt: skip
    return {
        "version": 1,
        "made": made,
        "made_boot_s": made_boot_s,
        "hearth": "0.9-12-g38805978",
        "run": None,
        "rows": rows,
        "sites": sites,
        "models": {
            "qwen3.5-4b": {"name": "qwen3.5-4b", "id": "qwen3.5:4b", "state": "ready"},
            "qwen2.5-coder-7b": {"name": "qwen2.5-coder-7b", "id": "qwen2.5-coder:7b",
                                 "state": "ready"},
            "qwen3-vl": {"name": "qwen3-vl", "id": "qwen3-vl", "state": "pulling", "percent": 62},
            "claude-haiku-4-5": {"name": "claude-haiku-4-5", "state": "cloud"},
        },
        "aliases": {
            "fast": _alias("fast", "qwen3.5-4b"),
            "coder": _alias("coder", "qwen2.5-coder-7b"),
            "reasoning": _alias("reasoning", "claude-haiku-4-5"),
            "vision": {**_alias("vision", None), "state": "pending", "percent": 62,
                       "text": "pending, 62 %"},
        },
        "loaded": [
            {"name": "qwen3.5:4b", "size_bytes": int(3.6 * gib), "vram_bytes": int(3.6 * gib),
             "planned_bytes": int(3.5 * gib), "expires": "2026-11-23T15:20:00Z"},
            {"name": "nomic-embed-text", "size_bytes": 600 * 2**20, "vram_bytes": 0,
             "expires": "2026-11-23T15:12:00Z"},
        ],
        "findings": [*findings, {**ignored, "ignored": True}],
        "machine": {
            "disk": [{"path": "/var", "free_bytes": 212 * gib, "total_bytes": 480 * gib}],
            "memory": {"available_bytes": 18 * gib, "total_bytes": 32 * gib},
            "certificates": {"root": made + 3.1e8, "intermediate": made + 6.2e7},
            "sites_until": {"name": "chat.lan", "until": made + 500_000, "count": 7},
            "updates": {"waiting": 3, "lists_made": made - 30_000},
            "address": "192.168.1.20",
        },
        "backup": {"made": made - 40_000, "bytes": int(1.4 * gib), "readable": True, "text": "",
                   "verified": made - 200_000},
        "receipt": {"made": made - 7200, "summary": {"not measured": 2, "passed": 118},
                    "good": True},
        "last_run": {"made": made - 7300, "changed": ["restarted whisper", "wrote Caddyfile"]},
        "errors": [],
    }  # fmt: skip


def _alias(name: str, by: str | None) -> dict[str, Any]:
    return {"name": name, "state": "ready", "percent": 100, "answered_by": by, "text": "ready"}


def _finding(
    name: str, about: str, severity: str, title: str, evidence: str, means: str, todo: str,
    since: float, fixable: bool,
) -> dict[str, Any]:  # fmt: skip
    return {"key": f"{name}:{about}", "name": name, "about": about, "severity": severity,
            "title": title, "evidence": evidence, "means": means, "todo": todo,
            "fixable": fixable, "page": f"/findings/{name}", "since": since,
            "ignored": False}  # fmt: skip


def trend() -> dict[str, Any]:
    """Return what the house writes beside its receipt: a steady figure, a slow one, a new one."""

    def figure(name: str, unit: str, medians: list[float], judgement: str) -> dict[str, Any]:
        days = [f"2026-11-{day:02}T12:00:00+00:00" for day in range(1, len(medians) + 1)]
        middle = sorted(medians)[len(medians) // 2]
        known = {"n": len(medians), "median": middle, "low": 0.8 * middle, "high": 1.2 * middle}
        points = [
            {"made": made, "median": median, "p95": median, "n": 5, "good": True}
            for made, median in zip(days, medians, strict=True)
        ]
        return {"name": name, "unit": unit, "conditions": "", "points": points,
                "band": None if judgement == "unknown" else known,
                "judgement": judgement, "evidence": ""}  # fmt: skip

    figures = [
        figure("first token", "ms", [181, 190, 176, 185, 179, 188], "usual"),
        figure("first sound of kokoro", "ms", [310, 305, 322, 315, 308, 811], "worse"),
        figure("memory bandwidth", "GB/s", [31, 30, 31, 32, 31, 45], "better"),
        figure("memory of open_webui", "MiB", [611, 640], "unknown"),
        figure("measured once", "ms", [5], "unknown"),
    ]
    return {"form": "hearth-trend/1", "house": "house", "made": "", "figures": figures}


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    """Return the page's configuration in a folder of tests."""
    tiles = [
        ("chat.lan", "Chat", "chat", "open_webui",
         "The chat UI, with pictures, speech and documents."),
        ("kokoro-web.lan", "Speech", "speech", "kokoro",
         "Text to speech in 54 voices, streamed from the first words."),
        ("whisper.lan", "Dictation", "transcription", "whisper",
         "Speech to text, for files and live."),
        ("trust.lan", "New device", "trust", "trust",
         "Gives devices the house's certificate, and tests whether it works there."),
    ]  # fmt: skip
    names = ("fqdn", "title", "kind", "service", "summary")
    return {
        "site": "home.lan",
        "house": "house",
        "snapshot": str(folder / "snapshot.json"),
        "verbs": str(folder / "verbs.sock"),
        "receipt": str(folder / "receipt"),
        "prometheus": "",
        "tiles": [dict(zip(names, tile, strict=True)) for tile in tiles],
        **more,
    }


def prometheus_answer(path: str, query: str, start: float, end: float, step: float) -> Any:
    """Return made-up results of Prometheus for the queries of the page."""
    base = next(
        (ms for part, ms in (("kokoro_ttfa", 310.0), ("time_to_first_token", 180.0),
                             ("final_latency", 290.0), ("per_output", 38.0)) if part in query),
        1.0,
    ) * (2.4 if "0.95" in query else 1.0)  # fmt: skip
    if "per_output" in query and "0.95" in query:
        base = 21.0
    dice = random.Random(query)  # noqa: S311
    if "kokoro_stage" in query:
        stages = (("phonemes", 0.012), ("inference", 0.241), ("encoding", 0.018))
        return [{"metric": {"stage": name}, "value": [0, str(s)]} for name, s in stages]
    if "hearth_cloud" in query:
        count = 14 if "requests" in query else 23_456
        return [{"metric": {"gen_ai_request_model": "reasoning", "hearth_consumer": "open_webui"},
                 "value": [0, str(count)]}]  # fmt: skip
    if path == "query":
        return [{"metric": {}, "value": [0, str(base)]}]
    times = range(int(start), int(end) + 1, int(step))
    values = [[at, str(base * dice.uniform(0.8, 1.3))] for at in times]
    return [{"metric": {}, "values": values[len(values) // 6 :]}]


def plan() -> dict[str, Any]:
    """Return what `hearth plan` writes beside the receipt, as far as the page reads it."""

    def model(name: str, speed: float, fits: bool = True) -> dict[str, Any]:
        band = {"value": speed, "low": speed / 1.25, "high": speed * 1.25}
        return {
            "name": name,
            "fits": fits,
            "where": "vram" if fits else "nowhere",
            "needed_bytes": 5_000_000_000,
            "tokens_per_s": band if fits else None,
            "first_token_s": {"value": 0.4, "low": 0.2, "high": 0.7},
        }

    return {
        "form": "hearth-plan-1",
        "machine": {"name": "a machine, 32 GiB", "measured": "2026-11-26T09:00:00Z"},
        "choices": [
            {"role": "fast", "model": "quick", "reason": ""},
            {"role": "local", "model": "quick", "reason": ""},
            {"role": "coder", "model": "careful", "reason": ""},
        ],
        "models": [
            model("other", 30),
            model("careful", 12),
            model("quick", 42),
            model("too large", 1, fits=False),
        ],
        "budgets": [
            {
                "device": "a card",
                "free_bytes": 1_000_000_000,
                "lines": [{"what": "reserve", "size_bytes": 500_000_000, "source": "the driver"}],
            }
        ],
    }
