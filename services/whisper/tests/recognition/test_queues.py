"""One computation at a time, finals first, and no file during a partial result."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

import pytest

from hearth_whisper.recognition import RecognitionCancelled
from hearth_whisper.recognition.queues import FILE, FINAL, DirectAccess, FileAccess, PriorityLock

WAIT_S = 10


class Crowd:
    """Threads that queue for the lock one after another, and note the order of service."""

    def __init__(self, lock: PriorityLock) -> None:
        self.lock, self.served = lock, list[str]()
        self._threads: list[threading.Thread] = []

    def join_in(self, name: str, priority: int, cancelled: Event | None = None) -> None:
        thread = threading.Thread(target=self._queue, args=(name, priority, cancelled or Event()))
        before = self.lock.waiting
        self._threads.append(thread)
        thread.start()
        wait_for(lambda: self.lock.waiting > before)

    def done(self) -> list[str]:
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()
        return self.served

    def _queue(self, name: str, priority: int, cancelled: Event) -> None:
        try:
            with self.lock.hold(priority, cancelled):
                self.served.append(name)
        except RecognitionCancelled:
            self.served.append(f"{name} stopped")


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(WAIT_S * 1000):
        if condition():
            return
        threading.Event().wait(0.001)
    pytest.fail("the condition never held")


@contextmanager
def held(lock: PriorityLock) -> Iterator[None]:
    with lock.hold(FILE, Event()):
        yield


def test_finals_come_before_files_and_otherwise_first_come_first_served() -> None:
    crowd = Crowd(PriorityLock())
    with held(crowd.lock):
        for name, priority in (("f1", FILE), ("f2", FILE), ("a", FINAL), ("b", FINAL)):
            crowd.join_in(name, priority)
    assert crowd.done() == ["a", "b", "f1", "f2"]


def test_a_cancelled_waiter_passes_the_lock_on() -> None:
    crowd, cancelled = Crowd(PriorityLock()), Event()
    with held(crowd.lock):
        crowd.join_in("a", FINAL, cancelled)
        crowd.join_in("b", FINAL)
        cancelled.set()
    assert crowd.done() == ["a stopped", "b"]


def test_a_pause_holds_files_but_not_finals() -> None:
    crowd = Crowd(PriorityLock())
    with crowd.lock.files_paused():
        crowd.join_in("file", FILE)
        with crowd.lock.hold(FINAL, Event()):
            assert crowd.served == []
    assert crowd.done() == ["file"]


def test_an_exception_releases_the_lock() -> None:
    lock = PriorityLock()
    with pytest.raises(ValueError, match="broken"), lock.hold(FINAL, Event()):
        raise ValueError("broken")
    with lock.hold(FILE, Event()):
        pass


def test_preprocessing_waits_for_finals() -> None:
    lock, order = PriorityLock(), list[str]()
    access = FileAccess(lock, threading.Lock(), Event(), lambda: 0.0)

    def prepare() -> None:
        with access.preprocessing():
            order.append("prepared")

    thread = threading.Thread(target=prepare)
    with lock.hold(FINAL, Event()):
        thread.start()
        thread.join(0.1)
        order.append("final")
    thread.join(WAIT_S)
    assert order == ["final", "prepared"]
    with lock.hold(FILE, Event()):
        prepare()  # a file's step does not delay it


def test_the_cost_of_a_file_excludes_its_waits() -> None:
    times = iter([1.0, 3.0, 10.0, 10.5])
    lock = FileAccess(PriorityLock(), threading.Lock(), Event(), lambda: next(times))
    with lock():
        pass
    with lock.preprocessing():
        pass
    assert lock.spent_s == pytest.approx(2.5)


def test_direct_access_only_checks_for_cancellation() -> None:
    cancelled = Event()
    lock = DirectAccess(cancelled)
    with lock(), lock.preprocessing():
        cancelled.set()
    with pytest.raises(RecognitionCancelled), lock():
        pytest.fail("it was cancelled")
