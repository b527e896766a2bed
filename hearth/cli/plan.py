"""`hearth plan` and `hearth machine`."""

from pathlib import Path
from typing import Annotated

import typer

from hearth.cli.console import AsJson, print_json, show, table
from hearth.plan.predict import predictions

app = typer.Typer(no_args_is_help=False)

_File = Annotated[Path, typer.Option(exists=True, dir_okay=False, show_default=False)]


@app.command("predict")
def predict_speed(
    machine: _File,
    models: _File,
    as_json: AsJson = False,
) -> None:
    """Predict how fast models run on a machine, from numbers alone.

    The two YAML files are described in docs/planner.md.

    Example: hearth plan predict --machine machine.yml --models models.yml --json
    """
    read, wanted = (path.read_text("utf-8", errors="replace") for path in (machine, models))
    found = predictions(read, wanted, (str(machine), str(models)))
    if as_json:
        print_json(found)
        return
    rows = [
        (row["name"], row["error"], "")
        if "error" in row
        else (
            row["name"],
            row["where"],
            f"{row['tokens_per_s']:g} ({row['low']:g} to {row['high']:g})"
            if row["tokens_per_s"]
            else "-",
        )
        for row in found
    ]
    show(table(("model", "where", "tokens per second"), rows))
