"""Real work every few minutes: a phrase is spoken, its sound transcribed, each model says a token.

It runs only on idle servers, so one in use is left alone. No model is loaded or kept in memory
for longer, and the processor time is bounded.
"""

import array
import asyncio
import contextlib
import io
import json
import os
import secrets
import sys
import time
import wave
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import httpx

from .config import CanaryConfig, Config, Target
from .snapshot import SnapshotFile, boot_s

MARK = {"x-hearth-canary": "1"}
"""Our servers leave requests with this header out of their figures."""
State = Literal["ok", "failed", "busy", "skipped"]

TICK_S = 5.0
WITHIN_S = 20.0
# After a failure it tries again at once; only a second one in a row is reported.
AGAIN_S = 15.0
# Another prompt replaces what a model remembers of a conversation, which must be over.
IDLE_S = 120.0
# A model with less time left is about to be unloaded, and this must not delay that.
LEAST_S = 30.0
_FOREVER_S = 365 * 86_400
# A failed try costs hardly anything: a server that computes answers.
FAILED_COST_S = 0.1
# After its start, and between two looks at which models are loaded.
FIRST_S, LOOK_S = 60.0, 10.0
_HOUR_S = 3600.0
_SOUND_BYTES, _JSON_BYTES = 4 * 2**20, 2**20
_LEAST_SOUND_S, _MOST_SOUND_S = 0.3, 30.0
_LOUD = 300  # of 65,536
# So many of a phrase's words are no accident.
_UNDERSTOOD = 2
_MODELS = 20
_WORDS = (
    ("red", "green", "yellow", "brown", "silver", "purple", "golden", "orange"),
    ("garden", "kitchen", "village", "mountain", "river", "library", "harbour", "forest"),
    ("apples", "bottles", "candles", "letters", "pictures", "windows", "lanterns", "tables"),
)


class TryError(Exception):
    """One line: why a piece of work was not done."""


class BusyError(Exception):
    """One line: why a piece of work was not tried, or not done now."""


class SkipError(Exception):
    """One line: why a piece of work is left out."""


@dataclass(frozen=True, slots=True)
class Result:
    """The last try of one piece of work; `at` is a Unix time, `ok` is None where nobody knows.

    `about` is what worked or failed, a service or one of the models of `service`.
    """

    what: str
    service: str
    kind: str
    about: str
    state: State
    ok: bool | None
    seconds: float | None
    at: float
    text: str


@dataclass(slots=True)
class _Plan:
    """When something is due, by the clock of the loop; `understands` is of a transcriber."""

    due: float
    understands: bool = False


@dataclass(slots=True)
class _Loaded:
    """When a model will be unloaded, as its server said, and since when that has not moved on."""

    expires: datetime
    since: float
    plan: _Plan


def phrase() -> str:
    """Return a short sentence that was hardly ever said before, so that no cache has its sound."""
    colour, place, things = (secrets.choice(words) for words in _WORDS)
    count = 2 + secrets.randbelow(97)
    return f"The {colour} {place} has {count} {things}."


def check_sound(data: bytes) -> float:
    """Return the seconds of a WAV file that somebody would hear.

    Raises:
        TryError: it is no sound, too short or too long for a short phrase, or silent.
    """
    try:
        with wave.open(io.BytesIO(data)) as sound:
            if sound.getsampwidth() != 2 or sound.getnchannels() != 1:
                raise TryError("the sound is not 16-bit mono")
            rate, frames = sound.getframerate(), sound.readframes(sound.getnframes())
    except (wave.Error, EOFError) as error:
        raise TryError(f"the sound is no WAV file ({error or 'it ends too soon'})") from None
    samples = array.array("h", frames[: len(frames) // 2 * 2])
    seconds = float(len(samples) / max(1, rate))
    if not _LEAST_SOUND_S <= seconds <= _MOST_SOUND_S:
        raise TryError(f"the sound of a short phrase lasts {seconds:.1f} s")
    if max(samples) - min(samples) < _LOUD:
        raise TryError("the sound is silent")
    return seconds


def heard(said: str, text: str) -> int:
    """Return how many of the words that were said are in a text, but the small ones."""
    words = {word.strip(".").lower() for word in said.split()}
    return sum(word in text.lower() for word in words if len(word) > 3)


class Canary:
    """All pieces of work of one house."""

    def __init__(
        self,
        config: CanaryConfig,
        snapshot: SnapshotFile,
        client: httpx.AsyncClient,
        *,
        clock: Callable[[], float] = time.monotonic,
        cards: Path = Path("/sys/class/drm"),
        cores: int = os.cpu_count() or 1,
    ) -> None:
        self.results: dict[str, Result] = {}
        self._config, self._snapshot, self._client = config, snapshot, client
        self._clock, self._cards, self._cores = clock, cards, cores
        # Programs that have just started are left alone.
        due = clock() + FIRST_S
        self._plans = {(one.kind, one.name): _Plan(due) for one in config.targets}
        self._loaded: dict[tuple[str, str], _Loaded] = {}
        self._failures: dict[str, tuple[str, int]] = {}
        # When each service last did real work, as a Unix time, and of which kind it was.
        self._worked: dict[str, tuple[str, float]] = {}
        # When each service was last seen not to work at all.
        self._broken: dict[str, float] = {}
        self._spent: deque[tuple[float, float]] = deque()
        self._clip: tuple[str, bytes] | None = None

    async def run(self) -> None:
        """Try what is due, until this is cancelled."""
        async with asyncio.TaskGroup() as group:
            work: asyncio.Task[None] | None = None
            while True:
                # A try may take long; meanwhile a service may break and be repaired.
                self.forget_broken()
                if work is None or work.done():
                    work = group.create_task(self._work())
                self.write()
                await asyncio.sleep(TICK_S)

    async def _work(self) -> None:
        try:
            await self.tick()
        except Exception as error:  # the next one may succeed
            print(f"canary: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        self.write()

    def forget_broken(self) -> None:
        """Forget how the work of services ended that do not answer at all; a row tells of those.

        What failed before a repair says nothing of the repaired service.
        """
        known, now = self._snapshot.read(), self._clock()
        if known.problem:
            return
        down = _broken(known.data)
        for name in down:
            self._broken[name] = now
        for what in [what for what, one in self.results.items() if one.service in down]:
            del self.results[what]
        for target in self._config.targets:
            if target.name in down:
                # A program that has just started again is left alone for a while.
                self._plans[target.kind, target.name].due = now + FIRST_S
        for what, (service, _) in [*self._failures.items()]:
            if service in down:
                del self._failures[what]

    async def tick(self) -> None:
        """Try what is due, one after the other; nothing while a run changes the house."""
        self.forget_broken()
        known = self._snapshot.read()
        if known.problem or known.data.get("run"):
            return
        for target in self._config.targets:
            if target.kind == "models":
                await self._try_models(target)
                continue
            plan = self._plans[target.kind, target.name]
            if self._is_due(plan):
                is_speech = target.kind == "speech"
                verb, work = (
                    ("speech of", self._speak) if is_speech else ("transcription by", self._listen)
                )
                what = f"{verb} {target.name}"
                await self._try(plan, target, what, target.kind, target.name, work(target, plan))

    def spent_s(self) -> float:
        """Return the seconds of processor time of the last hour, at most."""
        while self._spent and self._spent[0][0] < self._clock() - _HOUR_S:
            self._spent.popleft()
        return sum(cost_s for _, cost_s in self._spent)

    def write(self) -> None:
        """Write all results for the watcher; where that fails, it has none."""
        content = {
            "version": 1,
            "made": time.time(),
            "made_boot_s": boot_s(),
            "spent_s": round(self.spent_s(), 2),
            "budget_s": self._config.budget_s,
            "results": [asdict(one) for one in self.results.values()],
            "worked": {name: {"kind": kind, "at": at} for name, (kind, at) in self._worked.items()},
        }
        fresh = self._config.results.with_suffix(".new")
        with contextlib.suppress(OSError):
            fresh.write_text(json.dumps(content), encoding="utf-8")
            fresh.replace(self._config.results)

    def _is_due(self, plan: _Plan) -> bool:
        return plan.due <= self._clock() and self.spent_s() < self._config.budget_s

    async def _try_models(self, target: Target) -> None:
        """Look which models are loaded, and let each say a token that nobody has used lately."""
        look, now = self._plans[target.kind, target.name], self._clock()
        if look.due > now:
            return
        look.due = now + LOOK_S
        try:
            found = await self._list(target)
        except (TryError, BusyError):
            # A server that does not list its models has a finding of its own.
            return
        for key in [key for key in self._loaded if key[0] == target.name and key[1] not in found]:
            del self._loaded[key]
            for kept in (self.results, self._failures):
                kept.pop(_token_of(key[1]), None)
        for name, expires in found.items():
            one, what = self._note_loaded(target.name, name, expires), _token_of(name)
            left_s = expires.timestamp() - time.time()
            is_idle = what in self._failures or now - one.since >= IDLE_S
            if is_idle and left_s > LEAST_S and self._is_due(one.plan):
                work = self._say_token(target, name, left_s)
                await self._try(one.plan, target, what, "model", name, work)

    def _note_loaded(self, server: str, name: str, expires: datetime) -> _Loaded:
        known = self._loaded.get((server, name))
        if known is None:
            known = self._loaded[server, name] = _Loaded(expires, self._clock(), _Plan(0))
        # Each use moves it on; our own never does.
        elif expires > known.expires + timedelta(seconds=1):
            known.since = self._clock()
        known.expires = expires
        return known

    async def _try(
        self,
        plan: _Plan,
        target: Target,
        what: str,
        kind: str,
        about: str,
        work: Coroutine[Any, Any, str],
    ) -> None:
        """Do one piece of work, keep how it ended, and plan the next try within the budget."""
        started, at, cost_s = self._clock(), time.time(), 0.0
        state, text, seconds = await self._done(target, work)
        if state == "ok":
            # At most: a server may use every core, and one that computes on a card hardly any.
            cost_s = (self._clock() - started) * (1 if target.card else self._cores)
        elif state == "failed":
            cost_s = FAILED_COST_S
        if cost_s:
            self._spent.append((self._clock(), cost_s))
        share = _HOUR_S * len(self._config.targets) / self._config.budget_s
        wait_s = AGAIN_S if state == "failed" else max(self._config.every_s, cost_s * share)
        # It broke meanwhile, which says nothing of how it works.
        broke = state == "failed" and self._broken.get(target.name, -1.0) >= started
        plan.due = self._clock() + (FIRST_S if broke else wait_s)
        failures = self._failures.pop(what, (target.name, 0))[1] + 1
        if state == "ok":
            self._worked[target.name] = kind, time.time()
        if state != "failed":
            failures = 0
        elif broke:
            return
        else:
            self._failures[what] = target.name, failures
        if failures == 1 and what in self.results:
            return  # a single failure is no news
        ok = {"ok": True, "failed": False}.get(state) if failures != 1 else None
        shown: State = "skipped" if failures == 1 else state
        self.results[what] = Result(
            what, target.name, kind, about, shown, ok, seconds, at, text[:200]
        )

    async def _done(
        self, target: Target, work: Coroutine[Any, Any, str]
    ) -> tuple[State, str, float | None]:
        """Return how a piece of work ended, why or with what, and its seconds."""
        started = self._clock()
        try:
            if target.card and not self._config.wakes_card and self._cards_sleep():
                return "skipped", "the graphics card sleeps", None
            async with asyncio.timeout(WITHIN_S):
                return "ok", await work, self._clock() - started
        except BusyError as error:
            return "busy", str(error), None
        except SkipError as error:
            return "skipped", str(error), None
        except TimeoutError:
            return "failed", f"no answer in {WITHIN_S:g} s", None
        except TryError as error:
            return "failed", str(error), None
        finally:
            work.close()

    async def _speak(self, target: Target, _: object) -> str:
        await self._stop_if_used(target)
        said = phrase()
        body = {
            "input": said,
            "model": "kokoro",
            "voice": "af_heart",
            "response_format": "wav",
            "stream": False,
        }
        request = self._client.build_request("POST", f"{target.url}/v1/audio/speech", json=body)
        sound = await self._answer(request, _SOUND_BYTES)
        seconds = check_sound(sound)
        self._clip = said, sound
        return f"{seconds:.1f} s of sound"

    async def _listen(self, target: Target, plan: _Plan) -> str:
        await self._stop_if_used(target)
        if self._clip is None:
            raise SkipError("there is no sound to transcribe yet")
        said, sound = self._clip
        request = self._client.build_request(
            "POST",
            f"{target.url}/v1/audio/transcriptions",
            data={"model": "whisper-1", "response_format": "json"},
            files={"file": ("canary.wav", sound, "audio/wav")},
        )
        text = (await self._json(request)).get("text")
        if not isinstance(text, str):
            raise TryError("the answer has no text")
        words = heard(said, text)
        # Some models never understand these phrases; one that has must go on to.
        plan.understands |= words >= _UNDERSTOOD
        if plan.understands and not words:
            raise TryError("not one word of a clear phrase was understood")
        return "understood" if words else "transcribed, though not one word was understood"

    async def _say_token(self, target: Target, name: str, left_s: float) -> str:
        # Counted from the end of the request, so that the model is unloaded no later than before.
        keep_s: int | str = -1 if left_s > _FOREVER_S else int(left_s - WITHIN_S)
        body: dict[str, Any] = {"model": name, "keep_alive": keep_s}
        if _plain(name) in map(_plain, target.embeds):
            path, body = "/api/embed", {**body, "input": phrase()}
        else:
            body |= {"prompt": phrase(), "raw": True, "stream": False}
            path, body = "/api/generate", {**body, "options": {"num_predict": 1}}
        request = self._client.build_request("POST", f"{target.url}{path}", json=body)
        answer = await self._json(request)
        # A first token that ends the answer is not counted by every version.
        if not any(answer.get(name) for name in ("embeddings", "eval_count", "eval_duration")):
            raise TryError("the answer has no token")
        return "one token"

    async def _list(self, target: Target) -> dict[str, datetime]:
        """Return the models in memory, and when each will be unloaded."""
        try:
            async with asyncio.timeout(WITHIN_S):
                request = self._client.build_request("GET", f"{target.url}/api/ps")
                listed = (await self._json(request)).get("models")
        except TimeoutError:
            raise TryError("no list of models") from None
        found: dict[str, datetime] = {}
        for entry in (listed if isinstance(listed, list) else [])[:_MODELS]:
            with contextlib.suppress(AttributeError, TypeError, ValueError):
                ends = datetime.fromisoformat(entry["expires_at"])
                found[str(entry["name"])] = ends if ends.tzinfo else ends.astimezone()
        return found

    async def _stop_if_used(self, target: Target) -> None:
        """Raise an error if somebody uses a server of ours now, or its model is not loaded."""
        request = self._client.build_request("GET", f"{target.url}/status")
        try:
            status = await self._json(request)
        except TryError:
            return  # another program has no such page; its answer says what is wrong
        files = status.get("files")
        counts = [status.get("active"), status.get("live"), status.get("waiting")]
        counts += [files.get("active"), files.get("waiting")] if isinstance(files, dict) else []
        if any(isinstance(count, int) and count > 0 for count in counts):
            raise BusyError("in use")
        if status.get("loaded") is False:
            raise SkipError("its model is not loaded")

    async def _json(self, request: httpx.Request) -> Mapping[str, Any]:
        try:
            found = json.loads(await self._answer(request, _JSON_BYTES))
        except (ValueError, RecursionError):
            raise TryError("the answer is not JSON") from None
        return found if isinstance(found, dict) else {}

    async def _answer(self, request: httpx.Request, most: int) -> bytes:
        """Return the body of a good answer.

        Raises:
            BusyError: the server has no time now.
            TryError: it cannot be reached, fails, or answers too much.
        """
        request.headers.update(MARK)
        try:
            async with self._sent(request) as response:
                if response.status_code in (429, 503):
                    raise BusyError(f"it has no time now (HTTP {response.status_code})")
                if not response.is_success:
                    raise TryError(f"HTTP {response.status_code}")
                body = b""
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > most:
                        raise TryError(f"the answer has more than {most} bytes")
                return body
        except httpx.HTTPError as error:
            raise TryError(f"no answer ({type(error).__name__})") from None

    @contextlib.asynccontextmanager
    async def _sent(self, request: httpx.Request) -> AsyncIterator[httpx.Response]:
        response = await self._client.send(request, stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    def _cards_sleep(self) -> bool:
        """Return whether every graphics card that may sleep does; asking does not wake it."""
        states: Sequence[str] = [
            path.read_text().strip()
            for path in self._cards.glob("card[0-9]*/device/power/runtime_status")
        ]
        return bool(states) and all(state == "suspended" for state in states)


def _broken(data: Mapping[str, Any]) -> set[str]:
    """Return the services that do not answer; one whose work fails is `failing`, and is tried."""
    rows = data.get("rows")
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {
        str(row.get("name"))
        for row in found
        if row.get("up") is False and row.get("state") != "failing"
    }


def _plain(model: str) -> str:
    # Ollama's name for a model without a tag.
    return model.removesuffix(":latest")


def _token_of(model: str) -> str:
    return f"one token of {model}"


async def run(config: Config) -> None:
    """Work as a canary, where the house has one, until this is cancelled."""
    if config.canary is None:
        return
    client = httpx.AsyncClient(
        trust_env=False,
        timeout=WITHIN_S,
        # A server may have been restarted since the last try.
        limits=httpx.Limits(max_keepalive_connections=0),
        # Plain HTTP inside the house: loading the authorities would cost 3 MB and 20 ms.
        verify=False,  # noqa: S501
    )
    async with client:
        await Canary(config.canary, SnapshotFile(config.snapshot), client).run()
