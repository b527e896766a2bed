"""`hearth bench voice`: measure calls."""

from dataclasses import asdict, replace
from typing import Annotated

import typer

from hearth.bench import view
from hearth.bench.session import Progress as ShowProgress
from hearth.bench.session import measure
from hearth.bench.voice import run as voice_run
from hearth.bench.voice import view as voice_view
from hearth.bench.voice.requests import VoicePaths
from hearth.catalogue.house import House, Service
from hearth.cli.console import AsJson, known, show_or_print
from hearth.cli.measuring import Out, run_shown, write_results
from hearth.clients import ClientError
from hearth.clients.calls import site_for_calls
from hearth.clients.endpoints import Endpoint, get_json, house_edge
from hearth.clients.llm import CALL_S, devices_of, gateway_of, local_model
from hearth.project import VERIFIER, current

_STATUS_S = 5.0


def measure_calls(
    quick: Annotated[bool, typer.Option("--quick", help="About three minutes, not 20.")] = False,
    runs: Annotated[
        int | None, typer.Option("--runs", "-n", min=1, max=100, help="Turns; 10, or 3 if quick.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this part, may be repeated: {', '.join(voice_run.PARTS)}."),
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure how soon calls are answered, beside their parts alone, and what they cost.

    Recorded questions are spoken in real time, through the reverse proxy. The first sound is the
    first one above -45 dBFS. While it runs, other people's calls may be refused. Exit code 1 when a
    target is missed. The JSON follows the schema docs/schema/bench-voice.json.

    Example: hearth bench voice --quick --out results
    """
    plan = voice_run.QUICK if quick else voice_run.VoicePlan()
    names = {known("part", name, voice_run.PARTS) for name in only or voice_run.PARTS}
    parts = tuple(part for part in voice_run.PARTS if part in names)
    plan = replace(plan, runs=runs or plan.runs, parts=parts)
    project = current()
    house, key = project.house(), project.vault.get(VERIFIER)
    site = site_for_calls(house)
    service = house.offering("calls")[0]
    alias = str(get_json(f"{service.url}/status", _STATUS_S)["model"])
    paths = VoicePaths(
        call=house_edge(house).endpoint(site.fqdn, key, name="caddy"),
        recogniser=_needed(house, service, "transcription"),
        gateway=Endpoint("gateway", gateway_of(house).url, alias, key, call_s=CALL_S),
        speaker=_needed(house, service, "speech"),
    )
    server = Endpoint(service.instance, service.url, alias)

    async def work(progress: ShowProgress) -> voice_run.VoiceReport:
        on_gpu = _on_gpu(house, alias)
        return await measure(
            voice_run.VoiceSession, [server], plan, progress=progress, paths=paths, on_gpu=on_gpu
        )

    report = run_shown(work)
    foot, sections = view.machine_text(report), voice_view.sections(report)
    show_or_print(as_json, asdict(report), view.terminal(sections, foot))
    if out:
        titles = voice_view.TITLE, voice_view.CHART
        panels = voice_view.panels(report)
        write_results(out, "bench-voice", asdict(report), titles, foot, sections, panels)
    raise typer.Exit(0 if report.fine else 1)


def _needed(house: House, service: Service, what: str) -> Endpoint:
    """Return the service that a call uses for something, as the voice server reaches it."""
    for one in house.offering(what):
        if one.name in service.needs:
            return Endpoint(one.instance, one.url)
    raise ClientError(f"{service.name} has no need that offers {what}")


def _on_gpu(house: House, alias: str) -> bool:
    """Return whether the model that answers computes on a graphics card."""
    try:
        devices = devices_of(house, local_model(house, alias))
    except ClientError:
        return False
    return any(not device.processor and not device.software for device in devices)
