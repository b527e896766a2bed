"""`hearth approve`: see what agents propose, decide, and carry it out."""

import contextlib
import io
import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from hearth.approvals import ApprovalError, ask
from hearth.approvals.carry_out import Tools, execute_proposal
from hearth.approvals.characters import visible
from hearth.approvals.overlay import Preview
from hearth.approvals.people import CODE_S, People
from hearth.approvals.proposal import TYPED, Proposal, Section
from hearth.approvals.store import Entry, Store
from hearth.approvals.unit import execute_apart
from hearth.cli import playbook
from hearth.cli.console import AsJson, err, note, print_json, show, show_or_print, table, waiting
from hearth.doctor.watch import WatchError, read_house
from hearth.machine import engine, runs
from hearth.paths import HOUSE_FILE, RECEIPT_FOLDER
from hearth.project import Project, current
from hearth.smoke.history import write
from hearth.smoke.receipt import collected
from hearth.smoke.receipt import run as run_smoke_tests

_ENDS = ("done", "failed", "taken_back", "void", "expired")
_POLL_S = 1.0
# Longer than two runs and the smoke tests between them.
_FOLLOW_S = 3600.0
_BUSY_S = 1800.0
_COLOURS = {"pending": "yellow", "approved": "yellow", "running": "yellow", "done": "green"}
# What a playbook in check mode prints of a file that would change.
_DIFF = re.compile(r"^--- before.*?(?=^(?:TASK|changed|ok|skipping|PLAY|\S+: )|\Z)", re.M | re.S)


def approve_change(
    id_: Annotated[
        str | None, typer.Argument(metavar="ID", help="The proposal; without it, all are listed.")
    ] = None,
    refuse: Annotated[bool, typer.Option("--refuse", help="Refuse it.")] = False,
    only_show: Annotated[bool, typer.Option("--show", help="Only show it.")] = False,
    enrol: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Make a code with which a person enrols a passkey."),
    ] = None,
    forget: Annotated[
        str | None, typer.Option(metavar="NAME", help="Remove the passkeys of a person.")
    ] = None,
    execute: Annotated[str | None, typer.Option(metavar="ID", hidden=True)] = None,
    asked: Annotated[bool, typer.Option("--ask", hidden=True)] = False,
    as_json: AsJson = False,
) -> None:
    """List what agents propose to change; show, approve or refuse one proposal.

    An approval needs root and a terminal here, or a passkey on https://home.DOMAIN/approvals/.
    Nothing is carried out later than 15 minutes after the proposal.

    Example: hearth approve
    """
    if os.geteuid() != 0:
        raise PermissionError(1, "only root decides about changes", "hearth approve")
    if sum(map(bool, (id_, enrol, forget, execute, asked))) > 1:
        raise typer.BadParameter("give one ID, or one of --enrol and --forget")
    if (refuse or only_show) and not id_:
        raise typer.BadParameter("--refuse and --show need an ID")
    if asked:
        _ask()
    elif execute:
        show(Text(_execute(execute)))
    elif enrol:
        _enrol(enrol)
    elif forget:
        show(f"{People().forget(forget)} passkeys removed")
    elif id_:
        _decide(Store(), id_, refuse, only_show, as_json)
    else:
        _list(Store().entries(), as_json)


def _list(entries: Sequence[Entry], as_json: bool) -> None:
    rows = (
        (
            one.proposal.id,
            Text(one.state.replace("_", " "), _COLOURS.get(one.state, "")),
            _age(one.proposal),
            Text(visible(one.proposal.who.asker)),
            Text(visible(one.proposal.summary)),
        )
        for one in entries
    )
    content: RenderableType = table(("ID", "state", "made", "asked by", "what"), rows)
    show_or_print(as_json, [as_data(one) for one in entries], content if entries else "none")


def as_data(entry: Entry) -> dict[str, Any]:
    """Return a proposal and its state as plain data."""
    steps = {name: {"state": s.state, "at": s.at, "by": s.by} for name, s in entry.steps.items()}
    content = json.loads(entry.proposal.canonical())
    state = {"state": entry.state, "text": entry.text, "steps": steps}
    return {**content, "digest": entry.digest, **state}


def _age(proposal: Proposal) -> str:
    minutes = max(0, int(time.time()) - proposal.made) // 60
    return (
        f"{minutes} min ago"
        if minutes < 120
        else time.strftime("%F %R", time.localtime(proposal.made))
    )


def _decide(store: Store, id_: str, refuse: bool, only_show: bool, as_json: bool) -> None:
    entry = store.read(id_)
    show_or_print(as_json, as_data(entry), view(entry, _chats()))
    if only_show or as_json:
        return
    by = f"{os.environ.get('SUDO_USER') or 'root'}, on the terminal"
    if refuse:
        store.decide(id_, "refused", entry.digest, by)
        show("refused")
        return
    if entry.state != "pending":
        raise ApprovalError(f"this proposal is {entry.state}: {entry.text or 'nothing to decide'}")
    # A program that runs this command has no terminal, unless it is root's own.
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ApprovalError("only a person on a terminal can approve: run this there")
    typed = typer.prompt(f"To approve it, type the last {TYPED} characters of its ID", default="")
    if typed.strip() != id_[-TYPED:]:
        raise ApprovalError("not approved: these are not the last characters of its ID")
    store.decide(id_, "approved", entry.digest, by)
    execute_apart(current().root, id_)
    _follow(store, id_)


def _follow(store: Store, id_: str) -> None:
    """Wait for the end, which comes also without this terminal."""
    end = time.monotonic() + _FOLLOW_S
    with waiting("Carry it out"):
        while (entry := store.read(id_)).state not in _ENDS and time.monotonic() < end:
            time.sleep(_POLL_S)
    if entry.state != "done":
        raise ApprovalError(f"{entry.state.replace('_', ' ')}: {entry.text}")
    show(Text(f"done: {entry.text}", "green"))


def _chats() -> dict[str, str]:
    """Return the sites of chats; none where the house is not known."""
    with contextlib.suppress(WatchError):
        return read_house(HOUSE_FILE).chat_sites
    return {}


def view(entry: Entry, chats: Mapping[str, str]) -> RenderableType:
    """Return a proposal for a terminal; text of agents is never read as markup or commands."""
    one = entry.proposal
    chat = one.who.chat_at(chats)
    lines: list[RenderableType] = [
        Text(visible(one.summary), "bold"),
        Text(f"state     {entry.state.replace('_', ' ')}  {visible(entry.text)}"),
        Text(f"asked by  {visible(_who(one))}"),
        *([Text(f"chat      {chat}")] if chat else []),
        Text(f"expires   {time.strftime('%T', time.localtime(one.expires))}"),
        Text(f"digest    {entry.digest}"),
        Text(f"verb      {one.verb}"),
    ]
    if one.verb != "propose":
        lines += [Text(f"argument  {name}: {visible(str(x))}") for name, x in one.arguments.items()]
    for section in one.plan:
        lines += ["", *_section(section)]
    lines += ["", Text("Read from outside before it asked", "bold")]
    lines += [Text(f"  {visible(r.origin)}: “{visible(r.excerpt)}”") for r in one.reads] or [
        Text("  nothing")
    ]
    if one.taint:
        lines += ["", Text("Comes from there, word for word", "bold red")]
        for mark in one.taint:
            text = f"  {mark.argument}: “{visible(mark.text)}” is in {visible(mark.origin)}"
            lines.append(Text(text, "red"))
    return Group(*lines)


def _who(one: Proposal) -> str:
    says = [
        f"{key} {value}" for key in ("agent", "run", "chat") if (value := getattr(one.who, key))
    ]
    return f"{one.who.asker} (it says: {', '.join(says)})" if says else one.who.asker


def _section(section: Section) -> list[Text]:
    colours = {"+": "green", "-": "red", "@": "cyan"} if section.kind == "diff" else {}
    style = "yellow" if section.kind == "warning" else ""
    return [Text(visible(section.title), "bold")] + [
        # With a margin of its own, no line looks like a heading.
        Text(f"  │ {visible(line)}", colours.get(line[:1], style))
        for line in section.text.split("\n")
    ]


def _enrol(name: str) -> None:
    if not sys.stdout.isatty():
        raise typer.BadParameter("the code is shown on a terminal only")
    code, domain = People().invite(name), read_house(HOUSE_FILE).machine.domain
    show(f"open https://home.{domain}/approvals/enrol on the device with the passkey")
    show(f"code {code}, for {CODE_S // 60} minutes and one passkey")


def _ask() -> None:
    """Answer the broker: read a request from standard input, store a proposal, print it."""
    try:
        asked = ask.request(sys.stdin.buffer.read(ask.REQUEST_BYTES))
        made = ask.propose(asked, Store(), read_house(HOUSE_FILE), current(), _preview)
    except Exception as error:
        if not type(error).__module__.startswith("hearth"):
            raise
        # The words of a preview's tasks, and of the engine, are others' words.
        outside = not isinstance(error, ApprovalError) or error.outside
        print_json({"refused": str(error), "outside": outside})
        return
    print_json({"id": made.id, "summary": made.summary, "expires": made.expires})


def _preview(project: Project, other: Project, words: Sequence[str]) -> Preview:
    """Run the playbook in check mode with another inventory, and find the tests that decide."""
    if run := runs.active():
        raise ApprovalError(f"a run changes the house now, ask again after its end: {run}")
    tests = collected(other, "home", words) if words else []
    if words and not tests:
        # A red end would be certain, and nobody would know why.
        raise ApprovalError(f"no smoke test has one of these in its name: {', '.join(words)}")
    console = Console(file=io.StringIO(), width=200, highlight=False)
    steps = playbook.run(project, console, ("--check", "--diff"), described_by=other)
    made = [f"{name} is made" for name in sorted({*steps.planned})]
    lines = [f"{steps.total('changed')} tasks would change something", *made, *steps.changes]
    log = steps.log.read_text(encoding="utf-8", errors="replace")
    diff = "".join(_DIFF.findall(log)).strip()
    return Preview(steps.total("changed"), "\n".join(lines), diff, tests)


def _execute(id_: str) -> str:
    project = current()

    def converge(without_data: Sequence[str]) -> None:
        end = time.monotonic() + _BUSY_S
        # A person's run comes first; with the approved files it does no harm.
        while (run := runs.active()) and time.monotonic() < end:
            note(f"waiting for another run to finish: {run}")
            time.sleep(_POLL_S * 5)
        data = json.dumps({"instances_remove_data": [*without_data]})
        playbook.run(project, err, ("-e", data) if without_data else ())

    tools = Tools(project.house, converge, partial(_verify, project), engine.names_of_volumes)
    return execute_proposal(Store(), id_, read_house(HOUSE_FILE), project, tools)


def _verify(project: Project, words: Sequence[str]) -> str:
    """Run the smoke tests with one of these words in their names, or all; return their counts.

    Raises:
        ApprovalError: one failed, or none passed, which shows nothing.
    """
    receipt = run_smoke_tests(project, "home", lambda verdict, total: None, words)
    if not words:
        write(receipt, RECEIPT_FOLDER)
    red = [f"{v.promise} {v.about}: {v.detail}" for v in receipt.verdicts if v.outcome == "failed"]
    if red or not receipt.counts.get("passed"):
        raise ApprovalError(f"the smoke tests are red: {'; '.join(red) or 'none passed'}")
    return f"converged and verified: {receipt.summary}"
