"""Make a proposal of what a program asks for; `hearth approve --ask` runs this for the broker."""

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hearth.approvals import ApprovalError, actions, overlay
from hearth.approvals.arguments import NewFiles, checked
from hearth.approvals.overlay import Preview
from hearth.approvals.proposal import (
    LIFE_S,
    MOST_READS,
    Proposal,
    Read,
    Section,
    Who,
    excerpts,
    new_id,
)
from hearth.approvals.store import Store
from hearth.approvals.taint import Text, marks, texts_of
from hearth.catalogue.house import House
from hearth.project import Project

# The texts of all reads, as JSON, where a character may take six bytes.
REQUEST_BYTES = 32 * 2**20


class Request(BaseModel):
    """A verb with its arguments, who asks, and what the run read before from outside."""

    model_config = ConfigDict(extra="forbid")

    verb: str
    arguments: dict[str, Any]
    who: Who
    reads: Annotated[list[Read], Field(max_length=MOST_READS)] = []


def request(text: bytes) -> Request:
    """Return the request in this JSON, or raise ApprovalError."""
    try:
        return Request.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ApprovalError(f"the request is not valid: {where}: {first['msg']}") from None


def propose(
    asked: Request,
    store: Store,
    house: House,
    project: Project,
    preview: Callable[[Project, Project, Sequence[str]], Preview],
) -> Proposal:
    """Store a proposal of what was asked for, and return it.

    Raises:
        ApprovalError: it may not be proposed, or is not possible.
    """
    verb, arguments = checked(asked.verb, asked.arguments)
    # Before the preview, which takes a while.
    store.check_room(asked.who.consumer)
    if isinstance(arguments, NewFiles):
        change = overlay.plan(project, arguments, preview)
        # A word in the new text counts, and what stays as it was does not.
        texts = [Text(name, text, whole=False) for name, text in change.texts.items()]
        texts += texts_of("checks", arguments.checks)
    else:
        change = actions.plan(verb, arguments, house)
        texts = [one for key, value in asked.arguments.items() for one in texts_of(key, value)]
    copied, more = marks(texts, asked.reads, change.known)
    made = int(time.time())
    proposal = Proposal(
        id=new_id(),
        verb=verb,
        arguments=arguments.model_dump(),
        summary=change.summary,
        plan=(*change.plan, *_more_copied(more)),
        base=dict(change.base),
        who=asked.who,
        reads=excerpts(tuple(asked.reads)),
        taint=tuple(copied),
        made=made,
        expires=made + LIFE_S,
    )
    store.add(proposal)
    return proposal


def _more_copied(more: int) -> tuple[Section, ...]:
    if not more:
        return ()
    text = f"and {more} more parts of this also occur in what was read from outside"
    return (Section("Copied from outside", text, "warning"),)


def base(proposal: Proposal, house: House, project: Project) -> dict[str, str]:
    """Return what a proposal depends on, as it is now."""
    verb, arguments = checked(proposal.verb, dict(proposal.arguments))
    if isinstance(arguments, NewFiles):
        return overlay.base(project)
    return dict(actions.base(verb, arguments, house))
