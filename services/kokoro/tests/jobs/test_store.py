"""Jobs survive a restart at any point, and take a bounded room."""

import json
from pathlib import Path

import pytest

from hearth_kokoro.jobs import store as module
from hearth_kokoro.jobs.store import KEEP_S, Job, JobStore
from hearth_serving.errors import ServiceError

TEXT = "One sentence.\r\nAnother one, with ümlauts. " * 20


class Clock:
    now = 1e9

    def __call__(self) -> float:
        self.now += 1
        return self.now


def made(store: JobStore, text: str = TEXT, format: str = "mp3") -> Job:
    return store.create(text, "af_heart", 1.0, format)


def finished(store: JobStore) -> Job:
    job = made(store)
    store.file(job).write_bytes(b"sound")
    store.finish(job)
    return job


def test_a_restart_goes_on_after_the_last_chunk(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    job = made(store)
    store.append(job, bytes(4800), 30)
    store.save(job)
    # The process was killed between the sound and the progress.
    with store.sound(job).open("ab") as file:
        file.write(bytes(1001))
    again = JobStore(tmp_path)
    found = again.get(job.id)
    assert found == job
    assert again.rest(found) == TEXT[30:]
    assert again.sound(found).stat().st_size == 4800
    assert again.next() is found


def test_a_job_whose_sound_is_lost_is_removed(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    broken, whole = made(store), made(store)
    store.append(broken, bytes(4800), 30)
    store.save(broken)
    store.sound(broken).write_bytes(b"")
    (tmp_path / "rubbish").mkdir()
    again = JobStore(tmp_path)
    assert again.next() == whole
    with pytest.raises(ServiceError, match="no such job"):
        again.get(broken.id)
    assert [one.name for one in tmp_path.iterdir()] == [whole.id]


@pytest.mark.parametrize("id", ["", "..", "../../etc", "x" * 22, "a" * 21 + "/"])
def test_an_unknown_id_is_not_found(tmp_path: Path, id: str) -> None:
    with pytest.raises(ServiceError) as refused:
        JobStore(tmp_path).get(id)
    assert refused.value.status == 404


def test_a_finished_job_keeps_its_file_and_no_text(tmp_path: Path) -> None:
    job = finished(JobStore(tmp_path))
    assert sorted(one.name for one in (tmp_path / job.id).iterdir()) == ["job.json", "speech.mp3"]
    assert "sentence" not in (tmp_path / job.id / "job.json").read_text()
    assert (tmp_path / job.id).stat().st_mode & 0o077 == 0


def test_the_oldest_finished_job_makes_room_and_a_waiting_one_does_not(tmp_path: Path) -> None:
    store = JobStore(tmp_path, Clock())
    oldest, *_ = [finished(store) for _ in range(module.MAX_JOBS)]
    made(store)
    with pytest.raises(ServiceError):
        store.get(oldest.id)
    for _ in range(module.MAX_JOBS - 1):
        made(store)
    with pytest.raises(ServiceError, match="16 long texts") as refused:
        made(store)
    assert refused.value.status == 429


def test_old_files_are_removed(tmp_path: Path) -> None:
    clock = Clock()
    store = JobStore(tmp_path, clock)
    old = finished(store)
    clock.now += KEEP_S
    made(store)
    assert not (tmp_path / old.id).exists()


def test_bytes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = JobStore(tmp_path)
    monkeypatch.setattr(module, "MAX_BYTES", 20 * 10_000 * 9_600)
    made(store, "x" * 150_000)
    with pytest.raises(ServiceError, match="no room") as refused:
        made(store, "x" * 60_000)
    assert refused.value.status == 507
    made(store, "x" * 40_000)


def test_what_is_on_disk_is_json(tmp_path: Path) -> None:
    job = made(JobStore(tmp_path))
    assert json.loads((tmp_path / job.id / "job.json").read_text())["voice"] == "af_heart"
