"""All commands of `hearth`, each with an example."""

import typer

from hearth.cli import house, keep, prove, up
from hearth.lab.cli import app as lab

app = typer.Typer(
    name="hearth",
    help="A private AI house on one Debian machine.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 fine, 1 a finding, 2 wrong use.",
)
app.command()(house.check)
app.command()(up.up)
app.command()(prove.verify)
app.command()(house.status)
app.command()(house.logs)
app.command()(house.shell)
app.command()(house.models)
app.add_typer(keep.secret, name="secret")
app.command()(keep.lock)
app.add_typer(prove.bench, name="bench")
app.add_typer(lab, name="lab")
