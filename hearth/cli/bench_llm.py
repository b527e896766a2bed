"""`hearth bench llm`: measure language models."""

import shutil
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.console import Group

import hearth
from hearth import status
from hearth.bench import accelerator, view
from hearth.bench.llm import journal as journals
from hearth.bench.llm import report as reports
from hearth.bench.llm import run as llm_run
from hearth.bench.llm import view as llm_view
from hearth.bench.llm.choose import choose_targets
from hearth.bench.llm.llmfit import find_llmfit
from hearth.bench.llm.predicted import prediction
from hearth.bench.llm.report import Expected, LlmReport
from hearth.bench.llm.requests import Target
from hearth.bench.session import Progress as ShowProgress
from hearth.catalogue.house import House
from hearth.cli.console import AsJson, err, known, show_or_print
from hearth.cli.measuring import Out, run_shown, write_results
from hearth.clients import ClientError
from hearth.clients.llm import JsonCall, devices_of, json_caller, server_api
from hearth.files import LockHeldError, locked
from hearth.machine.measured import measure
from hearth.machine.power import power_meter
from hearth.paths import BENCH_LLM, RECEIPT_FOLDER
from hearth.plan.machine import places
from hearth.project import VERIFIER, current

JOURNAL, REPORT = RECEIPT_FOLDER / "bench-llm.jsonl", RECEIPT_FOLDER / BENCH_LLM


def measure_models(
    model: Annotated[
        list[str] | None,
        typer.Option(help="A model or alias; may be repeated. [default: all local models]"),
    ] = None,
    pairs: Annotated[
        int | None,
        typer.Option("--pairs", "-n", min=1, help="Pairs that measure LiteLLM; 100, or 10."),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, max=100, help="Rounds of each prompt; 3, or 1 if quick.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Everything once.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this part, may be repeated: {', '.join(llm_run.PARTS)}."),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Compare with the bench-llm.json of another machine.")
    ] = None,
    shown: Annotated[
        bool, typer.Option("--show", help="Show the last report and measure nothing.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Measure all, also what an unfinished run measured.")
    ] = False,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure how fast models answer, what they take, and whether that is what physics allows.

    Each model is called directly and through LiteLLM in turns: cold and warm, with short and long
    prompts, a tool, and several clients. An interrupted run continues where it ended. The report is
    in /var/lib/hearth/receipt/bench-llm.json, in the form of docs/schema/bench-llm.json. Exit code
    1 when a request failed, or a model is slower than predicted.

    Example: hearth bench llm --quick --model fast --out results
    """
    # Read first: hours of work must not end with a wrong name.
    other = reports.read_report(against) if against else None
    if shown:
        report = reports.read_report(REPORT)
    else:
        report = _measure(_plan(pairs, runs, quick, only), model or (), again)
    found = llm_view.sections(report) + (llm_view.beside(report, other) if other else [])
    foot = view.machine_text(report)
    show_or_print(as_json, asdict(report), Group(view.terminal(found, foot)))
    if out:
        titles = llm_view.TITLE, llm_view.CHART
        write_results(
            out, "bench-llm", asdict(report), titles, foot, found, llm_view.panels(report)
        )
        if not shown and JOURNAL.exists():
            shutil.copyfile(JOURNAL, out / JOURNAL.name)
    raise typer.Exit(0 if report.fine else 1)


def _plan(
    pairs: int | None, runs: int | None, quick: bool, only: list[str] | None
) -> llm_run.LlmPlan:
    plan = llm_run.QUICK if quick else llm_run.LlmPlan()
    names = {known("part", name, llm_run.PARTS) for name in only or llm_run.PARTS}
    parts = tuple(part for part in llm_run.PARTS if part in names)
    return replace(plan, runs=runs or plan.runs, pairs=pairs or plan.pairs, parts=parts)


def _measure(plan: llm_run.LlmPlan, named: Collection[str], again: bool) -> LlmReport:
    project = current()
    house, key = project.house(), project.vault.get(VERIFIER)
    targets, skipped = choose_targets(house, status.models(house), named, key)
    if not targets:
        why = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
        raise ClientError(f"there is no model to measure: {why or 'no local model is used'}")

    async def work(progress: ShowProgress) -> LlmReport:
        async with httpx.AsyncClient(trust_env=False) as client:
            versions = await _versions(client, targets)
            head = llm_run.head_of(plan, targets, versions)
            kept = journals.open_journal(JOURNAL, head, again=again)
            if kept.resumed:
                err.print(f"going on with an interrupted run: {kept.resumed} results are there")
            bench = llm_run.LlmBench(
                plan,
                targets,
                kept,
                client,
                ollama=lambda target: json_caller(client, target.direct.url),
                prove=_prover(client, house),
                expect=_expectations(house),
                meter=power_meter(),
                progress=progress,
                skipped=skipped,
            )
            return await bench.run()

    RECEIPT_FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        with locked(RECEIPT_FOLDER / ".bench-llm.lock", within_s=0.1):
            report = run_shown(work)
            reports.write_report(report, REPORT)
    except LockHeldError as error:
        text = f"another `hearth bench llm` is running (process {error.holder})"
        raise ClientError(text) from None
    except OSError as error:
        raise ClientError(f"{error.filename or RECEIPT_FOLDER}: {error.strerror}") from None
    return report


async def _versions(client: httpx.AsyncClient, targets: list[Target]) -> dict[str, str]:
    """Return the versions of what is measured."""
    found = {"hearth": hearth.__version__}
    for url in dict.fromkeys(target.direct.url for target in targets):
        call: JsonCall = json_caller(client, url, call_s=20.0)
        found["ollama"] = str((await call("/api/version", None)).get("version", ""))
    return found


def _prover(client: httpx.AsyncClient, house: House) -> llm_run.Prove:
    async def prove(target: Target) -> accelerator.Proof:
        model = house.models[target.model]
        call = server_api(client, house, model)
        proof = await accelerator.prove(call, model.id, cardless=target.cardless)
        return accelerator.on(proof, devices_of(house, model))

    return prove


def _expectations(house: House) -> llm_run.Expect:
    """Return what asks `hearth plan`, and llmfit where it is installed."""
    llmfit, found_places = find_llmfit(), places(measure())

    def expect(target: Target, loaded: Mapping[str, Any]) -> dict[str, Expected]:
        quantisation = str((loaded.get("details") or {}).get("quantization_level") or "")
        context = loaded["in_memory"].get("context")
        found = dict[str, Expected]()
        service = house.services[house.models[target.model].service or ""]
        # Without its card, a service computes on the processor.
        place = found_places[-1 if service.gpu in ("none", "software") else 0]
        parameters = str((loaded.get("details") or {}).get("parameter_size") or "")
        ours = prediction(target.id, parameters, quantisation, context, place)
        if ours and service.address:
            found["hearth"] = ours
        if llmfit and (one := llmfit.expected(target.id, quantisation, context)):
            found["llmfit"] = one
        return found

    return expect
