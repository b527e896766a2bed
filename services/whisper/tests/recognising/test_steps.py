"""One at a time in the model, finals first, and files not while a partial is made."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hearth_whisper.recognising import Stop, Stopped
from hearth_whisper.recognising.steps import FILE, FINAL, Alone, InTurn, Steps

WAIT_S = 10


class Crowd:
    """Threads that queue for a turn one after another, and note in which order they had it."""

    def __init__(self, steps: Steps) -> None:
        self.steps, self.served = steps, list[str]()
        self._threads: list[threading.Thread] = []

    def join_in(self, name: str, urgency: int, stop: Stop | None = None) -> None:
        thread = threading.Thread(target=self._queue, args=(name, urgency, stop or Stop()))
        before = self.steps.waiting
        self._threads.append(thread)
        thread.start()
        wait_for(lambda: self.steps.waiting > before)

    def done(self) -> list[str]:
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()
        return self.served

    def _queue(self, name: str, urgency: int, stop: Stop) -> None:
        try:
            with self.steps.turn(urgency, stop):
                self.served.append(name)
        except Stopped:
            self.served.append(f"{name} stopped")


def wait_for(is_so: Callable[[], bool]) -> None:
    for _ in range(WAIT_S * 1000):
        if is_so():
            return
        threading.Event().wait(0.001)
    pytest.fail("it did not happen")


@contextmanager
def held(steps: Steps) -> Iterator[None]:
    with steps.turn(FILE, Stop()):
        yield


def test_finals_come_before_files_and_each_kind_as_it_came() -> None:
    crowd = Crowd(Steps())
    with held(crowd.steps):
        for name, urgency in (("f1", FILE), ("f2", FILE), ("a", FINAL), ("b", FINAL)):
            crowd.join_in(name, urgency)
    assert crowd.done() == ["a", "b", "f1", "f2"]


def test_who_was_stopped_while_waiting_leaves_the_place_to_the_next() -> None:
    crowd, stop = Crowd(Steps()), Stop()
    with held(crowd.steps):
        crowd.join_in("a", FINAL, stop)
        crowd.join_in("b", FINAL)
        stop.set()
    assert crowd.done() == ["a stopped", "b"]


def test_files_wait_while_a_partial_is_made_and_finals_do_not() -> None:
    crowd = Crowd(Steps())
    with crowd.steps.without_files():
        crowd.join_in("file", FILE)
        with crowd.steps.turn(FINAL, Stop()):
            assert crowd.served == []
    assert crowd.done() == ["file"]


def test_a_failure_inside_leaves_the_place() -> None:
    steps = Steps()
    with pytest.raises(ValueError, match="broken"), steps.turn(FINAL, Stop()):
        raise ValueError("broken")
    with steps.turn(FILE, Stop()):
        pass


def test_a_file_prepares_nothing_while_a_final_is_in_the_model() -> None:
    steps, order = Steps(), list[str]()
    held_back = InTurn(steps, threading.Lock(), Stop(), lambda: 0.0)

    def prepare() -> None:
        with held_back.beside():
            order.append("prepared")

    thread = threading.Thread(target=prepare)
    with steps.turn(FINAL, Stop()):
        thread.start()
        thread.join(0.1)
        order.append("final")
    thread.join(WAIT_S)
    assert order == ["final", "prepared"]
    with steps.turn(FILE, Stop()):
        prepare()  # a file's step is in nobody's way


def test_the_cost_of_a_file_is_without_its_waits() -> None:
    times = iter([1.0, 3.0, 10.0, 10.5])
    steps = InTurn(Steps(), threading.Lock(), Stop(), lambda: next(times))
    with steps():
        pass
    with steps.beside():
        pass
    assert steps.spent_s == pytest.approx(2.5)


def test_alone_one_waits_for_nobody_but_stops() -> None:
    stop = Stop()
    steps = Alone(stop)
    with steps(), steps.beside():
        stop.set()
    with pytest.raises(Stopped), steps():
        pytest.fail("it was stopped")
