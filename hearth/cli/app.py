"""All commands of `hearth`, each with an example."""

import sys

import typer

from hearth.cli import afar, backup, bench_stt, house, keep, kokoro_patch, lab, prove, remove, up
from hearth.project import current

app = typer.Typer(
    name="hearth",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 fine, 1 a finding, 2 wrong use.",
)


@app.callback()
def follow_the_house(context: typer.Context) -> None:
    """A private AI house on one Debian machine."""
    # What is written into the inventory is written here, for the house gets it from here: the key
    # of backups, and that a service is gone.
    here = bool({"-h", "--help", "--lab", "--new-key"} & {*sys.argv})
    here |= context.invoked_subcommand == "remove" and "--all" not in sys.argv
    if context.invoked_subcommand not in afar.COMMANDS or here:
        return
    project = current()
    reach = project.house().machine.reach
    if reach != "local":
        raise typer.Exit(afar.run(project, reach, sys.argv[1:]))


app.command()(house.check)
app.command()(up.up)
app.command()(prove.verify)
app.command()(house.status)
app.command()(house.logs)
app.command()(house.shell)
app.command()(house.models)
app.add_typer(keep.secret, name="secret")
app.command()(keep.lock)
app.command()(backup.backup)
app.command()(backup.restore)
app.command()(remove.remove)
prove.bench.command("stt")(bench_stt.bench_stt)
app.add_typer(prove.bench, name="bench")
# Every option is the tool's own, --help too.
_PASSED_ON = {
    **{"ignore_unknown_options": True, "allow_extra_args": True},
    **{"allow_interspersed_args": False, "help_option_names": []},
}
app.command(context_settings=_PASSED_ON)(lab.lab)
app.command("kokoro-patch")(kokoro_patch.kokoro_patch)
