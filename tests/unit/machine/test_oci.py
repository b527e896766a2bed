"""The same contents give the same image, whatever their times, owners and order on the disk."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from hearth.machine import oci
from hearth.machine.oci import Image, Layer, OciError, Store, folder_layer, tree_layer


def program(folder: Path, time: int) -> Path:
    """A folder with a file, an executable, a link and a note that is left out."""
    (folder / "bin").mkdir(parents=True)
    for name in ("bin/b", "bin/a") if time % 2 else ("bin/a", "bin/b"):
        (folder / name).write_text(name)
    (folder / "bin/a").chmod(0o755)
    (folder / "latest").symlink_to("bin/a")
    (folder / "note").write_text(str(time))
    for path in folder.rglob("*"):
        os.utime(path, (time, time), follow_symlinks=False)
    return folder


def built(tmp_path: Path, time: int) -> tuple[Store, Image]:
    store = Store(tmp_path / f"store{time}")
    folder = program(tmp_path / f"program{time}", time)
    fill = folder_layer(folder, "/opt/it/current", frozenset({"note"}))
    layer = store.make("/opt/it/current 1", fill)
    return store, Image("it:1", (layer,), oci.config("amd64", [layer], {"Cmd": ["/bin/a"]}))


def entries(store: Store, layer: Layer) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(store.blob(layer.sha256)) as tar:
        return {entry.name: entry for entry in tar}


def test_two_builds_have_one_digest_and_other_contents_another(tmp_path: Path) -> None:
    (_, first), (_, second) = built(tmp_path, 1), built(tmp_path, 1_000_000)
    assert first.digest == second.digest
    assert first.id == second.id
    _, other = built(tmp_path, 2)
    assert other.digest == first.digest
    store = Store(tmp_path / "changed")
    changed = program(tmp_path / "changed-program", 3)
    (changed / "bin/a").write_text("other")
    fill = folder_layer(changed, "/opt/it/current", frozenset({"note"}))
    assert store.make("/opt/it/current 1", fill).sha256 != first.layers[0].sha256


def test_a_layer_has_sorted_names_one_time_and_one_owner(tmp_path: Path) -> None:
    store, image = built(tmp_path, 5)
    found = entries(store, image.layers[0])
    assert [*found] == [
        *("opt", "opt/it", "opt/it/current", "opt/it/current/bin", "opt/it/current/latest"),
        *("opt/it/current/bin/a", "opt/it/current/bin/b"),
    ]
    assert {(e.mtime, e.uid, e.gid, e.uname) for e in found.values()} == {(oci.EPOCH, 0, 0, "")}
    assert found["opt/it/current/bin/a"].mode == 0o755
    assert found["opt/it/current/latest"].linkname == "bin/a"


def test_a_known_layer_is_not_made_again_until_its_blob_is_damaged(tmp_path: Path) -> None:
    store, made = Store(tmp_path), []
    fill = tree_layer({"/etc/it": (0o644, 7, b"x")})

    def counted(stream: io.BufferedIOBase) -> None:
        made.append(1)
        fill(stream)  # type: ignore[arg-type]

    layer = store.make("key", counted)  # type: ignore[arg-type]
    assert store.make("key", counted) == layer  # type: ignore[arg-type]
    assert len(made) == 1
    store.blob(layer.sha256).write_bytes(b"cut")
    assert store.make("key", counted) == layer  # type: ignore[arg-type]
    assert len(made) == 2
    assert entries(store, layer)["etc/it"].uid == 7


def test_an_archive_is_read_by_docker_podman_and_oci_tools(tmp_path: Path) -> None:
    store, image = built(tmp_path, 1)
    archive = tmp_path / "it.tar"
    oci.save(store, [image], archive)
    with tarfile.open(archive) as tar:
        held = {entry.name: tar.extractfile(entry) for entry in tar if entry.isfile()}
        texts = {name: stream.read() for name, stream in held.items() if stream}
    for name, content in texts.items():
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(content).hexdigest() == name.rpartition("/")[2]
    [docker] = json.loads(texts["manifest.json"])
    assert docker["RepoTags"] == ["it:1", "it:local"]
    config = json.loads(texts[docker["Config"]])
    assert [f"blobs/sha256/{one[7:]}" for one in config["rootfs"]["diff_ids"]] == docker["Layers"]
    index = json.loads(texts["index.json"])
    assert {one["digest"] for one in index["manifests"]} == {image.digest}
    manifest = json.loads(texts[f"blobs/sha256/{image.digest[7:]}"])
    assert manifest["config"]["digest"] == f"sha256:{image.id}"
    assert json.loads(texts["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}


def test_two_archives_of_one_image_are_equal(tmp_path: Path) -> None:
    paths = []
    for time in (1, 2):
        store, image = built(tmp_path, time)
        paths.append(tmp_path / f"{time}.tar")
        oci.save(store, [image], paths[-1])
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_lost_layer_is_one_line_and_leaves_no_archive(tmp_path: Path) -> None:
    store, image = built(tmp_path, 1)
    store.blob(image.layers[0].sha256).unlink()
    with pytest.raises(OciError, match="this layer is gone: build the image again"):
        oci.save(store, [image], tmp_path / "it.tar")
    assert not [path for path in tmp_path.iterdir() if "it.tar" in path.name]


def test_pruning_keeps_only_what_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    kept = store.make("a", tree_layer({"/a": (0o644, 0, b"a")}))
    gone = store.make("b", tree_layer({"/b": (0o644, 0, b"b")}))
    assert store.prune([kept]) == gone.size
    assert store.known("a") == kept
    assert store.known("b") is None
