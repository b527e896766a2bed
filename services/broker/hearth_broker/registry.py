"""Carry out verbs: every way in leads here, to the same limits, rights and audit log."""

import asyncio
import contextlib
import hashlib
import hmac
import json
import re
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

import pydantic

from hearth import audit
from hearth.clients.endpoints import one_line
from hearth.machine.engine import EngineError

from .config import Config
from .reads import Reads
from .verbs import HOUSE, OUTSIDE, Arguments, Call, RefusedError, Reply, Verb

# How the audit log calls a report.
REPORT = "(reads)"
AUDIT, REPORTED = "audit.jsonl", 100
# At once: of one consumer, and of all. A few more wait for their turn.
CONSUMER_CALLS, CALLS = 12, 24
WAITING, WAIT_S = 24, 10.0
# Calls within a minute, above which the log would forget its past for one caller's noise.
PER_MINUTE, BAD_KEYS_PER_MINUTE = 300, 60
_SAID = re.compile(r"[^\w.:-]", re.ASCII)
# A word that may be a key, and how much of a value is searched: the log keeps less.
_KEY = re.compile(r"[A-Za-z0-9_-]{12,}")
_SEARCHED, _DEPTH = 2000, 8


class Given(Arguments):
    """A text that others wrote."""

    origin: Annotated[str, pydantic.Field(min_length=1, max_length=600)]
    text: Annotated[str, pydantic.Field(max_length=200_000)]
    whole: bool = True


class Report(Arguments):
    """What a program was given with a request, and not by a verb."""

    reads: Annotated[tuple[Given, ...], pydantic.Field(max_length=40)]


class CallError(Exception):
    """One line for the caller, who wrote it, its HTTP status, and its name in the audit log."""

    def __init__(self, status: int, outcome: str, text: str, origin: str = HOUSE) -> None:
        super().__init__(text)
        self.status, self.outcome, self.origin = status, outcome, origin


@dataclass(slots=True)
class _Minute:
    """The calls of the last minute, and how many more were turned away without a line."""

    most: int
    times: deque[float]
    silent: int = 0

    def admit(self, now: float) -> bool:
        """Return whether one more call is within the rate."""
        while self.times and self.times[0] < now - 60:
            self.times.popleft()
        if len(self.times) >= self.most:
            self.silent += 1
            return False
        self.times.append(now)
        return True


class Registry:
    """All verbs of the broker, and who may use them."""

    def __init__(
        self, config: Config, verbs: Sequence[Verb], now: Callable[[], float] = time.monotonic
    ) -> None:
        """Open the audit log and the reads in the folder of `config`; OSError if that fails."""
        self._consumers = config.consumers
        self._digests = frozenset(one.sha256 for one in config.consumers.values())
        self._verbs = {verb.name: verb for verb in verbs}
        if len(self._verbs) != len(verbs):
            raise ValueError("two verbs have the same name")
        self._log: Path = config.state / AUDIT
        audit.create(self._log)
        inside = {name for name, one in config.consumers.items() if one.inside}
        self._inside, self._reads = inside, Reads(config.state, inside=inside)
        self._now = now
        self._waiting: Counter[str] = Counter()
        self._of_all = asyncio.Semaphore(CALLS)
        self._of_one = {name: asyncio.Semaphore(CONSUMER_CALLS) for name in config.consumers}
        self._rates: dict[str, _Minute] = {}
        self.ended: Counter[str] = Counter()
        """How many calls ended with each outcome."""

    def verbs_of(self, consumer: str) -> list[Verb]:
        """Return the verbs that a consumer may call."""
        allowed = set(self._consumers[consumer].verbs)
        return [verb for verb in self._verbs.values() if verb.name in allowed]

    def consumer_of(self, authorization: Sequence[str], peer: str) -> str:
        """Return whose key this is; raises CallError, with a line in the audit log, for no one's.

        `peer` is the address of the caller, and `authorization` has all headers of that name.
        """
        scheme, _, sent = authorization[0].strip().partition(" ") if authorization else ("", "", "")
        digest = hashlib.sha256(sent.strip().encode("utf-8", "surrogateescape")).hexdigest()
        # All are compared, so that the time tells nothing about which of them is close.
        found = [
            name for name, one in self._consumers.items() if hmac.compare_digest(one.sha256, digest)
        ]
        # With two headers, a proxy before us may have checked the other one.
        if found and scheme.lower() == "bearer" and len(authorization) == 1:
            return found[0]
        self._within_rate("", BAD_KEYS_PER_MINUTE, {"peer": peer})
        what = "wrong key" if authorization else "no key"
        text = f"{what}: send `Authorization: Bearer KEY` with a consumer's key"
        self._record("refused", {"outcome": "bad_key", "status": 401, "peer": peer, "text": what})
        raise CallError(401, "bad_key", text)

    def caller(self, consumer: str, headers: Mapping[str, str]) -> Call:
        """Return the call of a consumer, with what its headers say, cut and cleaned."""

        def said(name: str) -> str:
            return _SAID.sub("", headers.get(f"x-hearth-{name}", "")[:REPORTED])

        call = Call(consumer, agent=said("agent"), run=said("run"), chat=said("chat"))
        if not self._consumers[consumer].inside:
            return call
        person = unquote(headers.get("x-hearth-person", "")[: 4 * REPORTED])
        shown = "".join(letter for letter in person if letter.isprintable())
        return replace(call, client=said("client"), person=shown[:REPORTED])

    @contextlib.asynccontextmanager
    async def admitted(self, caller: Call, name: str) -> AsyncIterator[None]:
        """Let a request in, once few enough others are; before its body takes memory.

        Raises:
            CallError: it was not its turn in time, or its consumer sends too many.
        """
        who = caller.consumer
        self._within_rate(who, PER_MINUTE, {"consumer": who})
        busy = CallError(429, "busy", "too many calls at once: wait for the end of one")
        if self._waiting[who] >= WAITING:
            raise self.refused(caller, name, busy)
        async with contextlib.AsyncExitStack() as places:
            self._waiting[who] += 1
            try:
                async with asyncio.timeout(WAIT_S):
                    await places.enter_async_context(self._of_one[who])
                    await places.enter_async_context(self._of_all)
            except TimeoutError:
                raise self.refused(caller, name, busy) from None
            finally:
                self._waiting[who] -= 1
            yield

    async def call(self, caller: Call, name: str, arguments: object) -> Reply:
        """Carry out one verb; one line of the audit log has what came of it.

        Raises:
            CallError: nothing was done, as far as the broker knows.
        """
        began = self._now()
        fields = {**_who(caller), "verb": name, "arguments": arguments}
        try:
            verb = self._permitted(caller.consumer, name)
            checked = _checked(verb, arguments)
            self._check_log()
            reply = await self._run(caller, verb, checked)
        except CallError as error:
            fields |= {"outcome": error.outcome, "status": error.status, "text": str(error)}
            fields |= {"origin": error.origin}
            self._finish("refused", fields, began)
            raise
        except asyncio.CancelledError:
            # The broker ends; what the verb began may still be done by others.
            self._finish("refused", fields | {"outcome": "cut_off"}, began)
            raise
        fields |= {"outcome": "ok", "origin": reply.origin, "bytes": len(reply.text.encode())}
        self._finish("call", fields, began)
        return reply

    def report(self, caller: Call, body: object) -> None:
        """Remember what a program of the house was given by others, outside of any verb.

        Raises:
            CallError: nothing was remembered.
        """
        fields: dict[str, Any] = {**_who(caller), "verb": REPORT}
        try:
            if caller.consumer not in self._inside:
                text = "only programs of the house tell what they were given"
                raise CallError(403, "not_allowed", text)
            given = _report(body)
            self._check_log()
            for one in given.reads:
                self._reads.note(
                    caller, f"{OUTSIDE}{one_line(one.origin)}", one.text, whole=one.whole
                )
        except CallError as error:
            fields |= {"outcome": error.outcome, "status": error.status, "text": str(error)}
            self._record("refused", fields)
            raise
        origins = ", ".join(one.origin for one in given.reads)
        self._record("call", fields | {"outcome": "ok", "origin": f"{OUTSIDE}{origins}"})

    def refused(self, caller: Call, name: str, error: CallError) -> CallError:
        """Write into the audit log that a call could not even be read; return `error`."""
        fields = {"consumer": caller.consumer, "verb": name, "text": str(error)}
        self._record("refused", fields | {"outcome": error.outcome, "status": error.status})
        return error

    def lost(self, path: str, peer: str) -> None:
        """Write into the audit log that there is nothing at an address, within a rate."""
        self._within_rate("", BAD_KEYS_PER_MINUTE, {"peer": peer})
        fields = {"outcome": "no_address", "status": 404, "peer": peer, "text": path}
        self._record("refused", fields)

    def _permitted(self, consumer: str, name: str) -> Verb:
        verb = self._verbs.get(name)
        if verb is None:
            raise CallError(404, "unknown_verb", f"there is no verb {name[:60]!r}")
        if name not in self._consumers[consumer].verbs:
            text = f"this key does not open {name}: `verbs` of {consumer} in consumers.yml says so"
            raise CallError(403, "not_allowed", text)
        return verb

    def _check_log(self) -> None:
        try:
            audit.check(self._log)
        except audit.AuditError as error:
            # What cannot be written into the log must not happen.
            raise CallError(503, "no_audit", str(error)) from None

    async def _run(self, caller: Call, verb: Verb, checked: Any) -> Reply:
        try:
            async with asyncio.timeout(verb.within_s):
                if verb.kind == "change":
                    caller = replace(caller, reads=self._reads.of(caller))
                reply = bounded(await verb.run(caller, checked), verb.text_bytes)
            if reply.origin.startswith(OUTSIDE):
                data = "" if reply.data is None else json.dumps(reply.data, ensure_ascii=False)
                # A reply that cannot be remembered is not given.
                self._reads.note(caller, reply.origin, f"{reply.text}\n{data}".strip())
        except TimeoutError:
            text = f"{verb.name} took longer than {verb.within_s:g} s"
            raise CallError(503, "late", text) from None
        except RefusedError as error:
            origin = error.origin or f"{OUTSIDE}a refusal of {verb.name}"
            raise self._told(
                caller, verb, CallError(409, "refused", one_line(error), origin)
            ) from None
        except EngineError as error:
            # They may be the last words of a program in an instance.
            failed = CallError(503, "failed", one_line(error), f"{OUTSIDE}a failure of {verb.name}")
            raise self._told(caller, verb, failed) from None
        except Exception as error:
            raise _unexpected(verb, error) from None
        return reply

    def _told(self, caller: Call, verb: Verb, failed: CallError) -> CallError:
        """Remember the text of an error if others wrote it, and return the error."""
        try:
            if failed.origin.startswith(OUTSIDE):
                self._reads.note(caller, failed.origin, str(failed))
        except Exception as error:
            return _unexpected(verb, error)
        return failed

    def _within_rate(self, who: str, most: int, fields: Mapping[str, Any]) -> None:
        """Raise CallError above a rate of calls; one line in a minute counts them."""
        rate = self._rates.setdefault(who, _Minute(most, deque()))
        if rate.admit(self._now()):
            if rate.silent:
                count, rate.silent = rate.silent, 0
                self._record("refused", {**fields, "outcome": "too_often", "calls": count})
            return
        if rate.silent == 1:
            self._record("refused", {**fields, "outcome": "too_often", "status": 429})
        raise CallError(429, "too_often", f"more than {most} calls in a minute: wait a little")

    def _finish(self, event: str, fields: Mapping[str, Any], began: float) -> None:
        self._record(event, {**fields, "seconds": round(self._now() - began, 3)})

    def _record(self, event: str, fields: Mapping[str, Any]) -> None:
        self.ended[fields["outcome"]] += 1
        try:
            audit.record(event, self._without_keys(fields), self._log)
        except audit.AuditError as error:
            # What happened is at least in the journal; the next call is refused.
            print(error, file=sys.stderr, flush=True)
            raise CallError(503, "no_audit", str(error)) from None

    def _without_keys(self, value: Any, depth: int = 0) -> Any:
        """Return a value of the audit log in which no word is a consumer's key.

        Only digests are known here, so each word that is long enough is compared by its own.
        """
        if isinstance(value, str):
            return _KEY.sub(self._hidden, value[:_SEARCHED])
        if not isinstance(value, Mapping | Sequence):
            return value
        if depth == _DEPTH:
            return "(nested too deep)"
        if isinstance(value, Mapping):
            return {
                self._without_keys(str(name)): self._without_keys(one, depth + 1)
                for name, one in value.items()
            }
        return [self._without_keys(one, depth + 1) for one in value]

    def _hidden(self, word: re.Match[str]) -> str:
        digest = hashlib.sha256(word[0].encode()).hexdigest()
        return "(a key)" if digest in self._digests else word[0]


def _who(caller: Call) -> dict[str, Any]:
    return {
        "consumer": caller.consumer,
        "agent": caller.agent,
        "run": caller.run,
        "chat": caller.chat,
        **{key: text for key in ("client", "person") if (text := getattr(caller, key))},
    }


def _report(body: object) -> Report:
    try:
        return Report.model_validate_json(json.dumps(body))
    except (ValueError, RecursionError):
        text = "the body is {reads: [{origin, text, whole}]}, within its bounds"
        raise CallError(400, "bad_arguments", text) from None


def bounded(reply: Reply, most: int) -> Reply:
    """Return a reply within its limits; what was cut says so."""
    data = reply.data
    if data is not None:
        # Lone surrogates and NaN are no JSON; a file's name or a figure may be one.
        raw = json.dumps(data, ensure_ascii=False, default=str).encode("utf-8", "replace")
        data = json.loads(raw, parse_constant=lambda _: None)
        if len(raw) > most:
            data = {"cut": f"the data had {len(raw)} bytes; at most {most} are returned"}
    return Reply(cut(reply.text, most), data, one_line(reply.origin))


def cut(text: str, most: int) -> str:
    """Return the start of a text, at most so many bytes of it, and how much is missing."""
    # A lone surrogate has no bytes, and no JSON either.
    raw = text.encode("utf-8", "replace")
    if len(raw) <= most:
        return raw.decode()
    end = f"\n[cut: {len(raw)} bytes, of which these are the first {most}]"
    return raw[: most - len(end)].decode(errors="ignore") + end


def _checked(verb: Verb, arguments: object) -> Any:
    if not isinstance(arguments, Mapping):
        raise CallError(400, "bad_arguments", f"{verb.name}: the arguments are a JSON object")
    try:
        # As JSON, because a list is a tuple's strict form there.
        return verb.arguments.model_validate_json(json.dumps(arguments))
    except pydantic.ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))[:80] or "arguments"
        text = f"{verb.name}: {where}: {first['msg']}"
        raise CallError(400, "bad_arguments", one_line(text)) from None
    except (ValueError, RecursionError):
        raise CallError(400, "bad_arguments", f"{verb.name}: this is no JSON") from None


def _unexpected(verb: Verb, error: Exception) -> CallError:
    """Log where an unexpected error came from; its own words may quote what nobody checked."""
    frames = traceback.extract_tb(error.__traceback__)
    at = " <- ".join(f"{Path(one.filename).name}:{one.lineno}" for one in reversed(frames[-4:]))
    print(f"{verb.name}: unexpected {type(error).__name__} at {at}", file=sys.stderr, flush=True)
    text = f"{verb.name} failed: the journal of the broker has the reason"
    return CallError(503, "failed", text)
