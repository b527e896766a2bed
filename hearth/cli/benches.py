"""`hearth bench`: measurements that a person asks for."""

import asyncio

import httpx
import typer

from hearth.bench.accelerator import Proof, on, prove
from hearth.bench.llm import LlmReport, Progress, bench_llm
from hearth.bench.view import llm_table, proof_text
from hearth.catalogue.house import House
from hearth.cli.say import err, show, write_json
from hearth.project import VERIFIER, current
from hearth.verify.ways import both, devices_of, local_model, server_api


def llm(pairs: int, model: str, as_json: bool) -> None:
    """Measure, and show or write the report."""
    project = current()
    house, key = project.house(), project.vault.get(VERIFIER)
    with err.status("[dim]warming up[/dim]") as status:
        report, proof = asyncio.run(
            _measure(
                house,
                model,
                key,
                pairs,
                lambda done, of: status.update(f"[dim]{done} of {of} pairs[/dim]"),
            )
        )
    if as_json:
        write_json({"llm": report.as_json(), "accelerator": proof.as_json()})
    else:
        show(llm_table(report))
        show(proof_text(proof))
    raise typer.Exit(0 if report.fine else 1)


async def _measure(
    house: House, name: str, key: str, pairs: int, progress: Progress
) -> tuple[LlmReport, Proof]:
    model = local_model(house, name)
    async with httpx.AsyncClient(trust_env=False) as client:
        direct, gateway = both(client, house, model, key)
        report = await bench_llm(model.name, direct, gateway, pairs=pairs, progress=progress)
        proof = await prove(server_api(client, house, model), model.id)
        return report, on(proof, devices_of(house, model))
