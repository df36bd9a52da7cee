"""The module gives what the program writes to files: run by pytest, which finds vggt_recon by PYTHONPATH and the program
by VGGT_PROGRAM."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import vggt_recon

SOURCE = Path(__file__).resolve().parents[3]
ROOM = SOURCE / "examples/room"
OPTIONS = {"max_frames": 4, "width": 126, "device": "cpu"}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What the program writes, and how the network saw it."""
    out = tmp_path_factory.mktemp("program")
    command = [os.environ["VGGT_PROGRAM"], "--frames", ROOM, "--out", f"{out}/", "--quiet", "--export", "depth",
               "--depth-format", "npy", "--depth-size", "network"]
    command += [word for name, value in OPTIONS.items() for word in ("--" + name.replace("_", "-"), str(value))]
    subprocess.run(command, check=True)
    return out


@pytest.fixture(scope="module")
def reconstructor():
    return vggt_recon.Reconstructor(**OPTIONS)


@pytest.fixture(scope="module")
def scene(reconstructor):
    return reconstructor.run(ROOM)


def read_ply(path):
    head, body = path.read_bytes().split(b"end_header\n", 1)
    assert b"binary_little_endian" in head
    rows = np.frombuffer(body, dtype=[("xyz", "<f4", 3), ("rgb", "u1", 3)])
    return rows["xyz"], rows["rgb"]


def test_points_are_those_of_the_program(scene, written):
    points, colors = read_ply(written / "scene.ply")
    assert len(points) > 10_000
    np.testing.assert_array_equal(scene.points, points)
    np.testing.assert_array_equal(scene.colors, colors)
    assert scene.points.dtype == np.float32 and scene.colors.dtype == np.uint8
    assert scene.normals is None


def test_cameras_are_those_of_the_program(scene, written):
    frames = json.loads((written / "scene.cameras.json").read_text())["cameras"]
    assert [camera.name for camera in scene.cameras] == [frame["file"] for frame in frames]
    for camera, frame in zip(scene.cameras, frames, strict=True):
        np.testing.assert_array_equal(camera.intrinsics, frame["k_original"])
        np.testing.assert_array_equal(camera.network_intrinsics, frame["k_network"])
        np.testing.assert_array_equal(camera.cam_from_world, frame["cam_from_world"])
        np.testing.assert_array_equal(camera.distortion, frame["distortion"])
        assert [camera.width, camera.height] == frame["original_size"]
        assert camera.model == frame["model"] and camera.valid == frame["valid"]
        assert camera.mean_confidence == frame["mean_confidence"]
        pose = camera.cam_from_world
        np.testing.assert_allclose(pose[:3, :3] @ camera.center + pose[:3, 3], 0, atol=1e-12)


def test_depth_is_that_of_the_program(scene, written):
    maps = sorted((written / "depth").glob("*.npy"))
    assert len(maps) == len(scene.cameras) == 4
    assert scene.depth.shape == scene.confidence.shape == (4, scene.cameras[0].network_height, 126)
    for depth, path in zip(scene.depth, maps, strict=True):
        np.testing.assert_array_equal(depth, np.load(path).reshape(depth.shape))
    assert scene.confidence.min() >= 1


def test_tracks_and_report(scene):
    assert len(scene.tracks) > 20
    assert scene.tracks.points.shape == (len(scene.tracks), 3)
    assert scene.report["points"] == len(scene.points)
    for i in (0, len(scene.tracks) - 1):
        track = scene.tracks[i]
        errors = []
        for frame, pixel in zip(track.frames, track.pixels, strict=True):
            camera = scene.cameras[frame]
            x, y, z = camera.cam_from_world[:3, :3] @ track.point + camera.cam_from_world[:3, 3]
            r = (x * x + y * y) / (z * z)
            d = 1 + camera.distortion[0] * r + camera.distortion[1] * r * r
            errors.append(np.linalg.norm((camera.intrinsics @ [d * x / z, d * y / z, 1])[:2] - pixel))
        assert len(errors) >= 3
        assert np.mean(errors) == pytest.approx(track.error, abs=1e-3)  # pixels; depths and poses passed through fp32
    assert repr(scene) == f"<vggt_recon.Reconstruction: 4 cameras, {len(scene.points)} points, {len(scene.tracks)} tracks>"


def test_save_equals_the_programs_files(scene, written, tmp_path):
    scene.save(tmp_path / "a")
    for name in ("scene.ply", "scene.cameras.json", "scene.tum"):
        assert (tmp_path / "a" / name).read_bytes() == (written / name).read_bytes(), name
    scene.save(tmp_path / "b.ply")
    assert (tmp_path / "b.ply").read_bytes() == (written / "scene.ply").read_bytes()
    assert (tmp_path / "b.report.json").exists()
    scene.save(os.fsencode(tmp_path / "c.npz"))
    arrays = np.load(tmp_path / "c.npz")
    np.testing.assert_array_equal(arrays["points"], scene.points)
    assert list(arrays["names"]) == [camera.name for camera in scene.cameras]
    assert arrays["cam_from_world"].shape == (4, 4, 4)
    assert "normals" not in arrays
    for name, values in vars(scene.tracks).items():
        np.testing.assert_array_equal(arrays["tracks_" + name], values)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a", "b.cameras.json", "b.ply", "b.report.json", "b.tum", "c.npz"]
    with pytest.raises(ValueError, match="must end in .ply"):
        scene.save(tmp_path / "d.obj")
    for name in ("x.ply", "x.npz", "x/x.npz"):
        with pytest.raises(OSError):
            scene.save(tmp_path / "c.npz" / name)


def test_arrays_are_saved_as_clouds_are(scene, tmp_path):
    scene.save(tmp_path / "a/b/c.npz")
    assert len(np.load(tmp_path / "a/b/c.npz")["names"]) == 4
    assert [path.name for path in (tmp_path / "a/b").iterdir()] == ["c.npz"]
    with pytest.raises(ValueError, match="c.npz/: names a folder"):
        scene.save(f"{tmp_path}/c.npz/")
    (tmp_path / "folder.npz").mkdir()
    for path in (tmp_path / "folder.npz", tmp_path / "a/b/c.npz/d.npz"):
        with pytest.raises(OSError) as error:
            scene.save(path)
        assert error.value.filename == str(path)
    with pytest.raises(ValueError, match="null character"):
        scene.save("a\0.npz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder.npz"]


def test_attributes_are_read_only(scene):
    scene.points
    for name in ("points", "cameras", "written", "save"):
        with pytest.raises(AttributeError, match=f"{name} is read-only"):
            setattr(scene, name, None)
    assert scene.points is not None


def test_files_of_a_run(reconstructor, written, tmp_path):
    scene = reconstructor.run(ROOM, out=tmp_path / "out", export=["kitti", "glb"], keep=())
    assert (tmp_path / "out/scene.ply").read_bytes() == (written / "scene.ply").read_bytes()
    assert {path.name for path in scene.written} >= {"scene.ply", "scene.tum", "scene.glb", "kitti.txt"}
    assert scene.depth is None and scene.points is None and scene.colors is None
    assert len(scene.cameras) == 4
    assert "no points kept" in repr(scene)


def test_paths_and_images_are_as_good_as_a_folder(reconstructor, scene):
    from PIL import Image
    paths = [ROOM / camera.name for camera in scene.cameras]
    assert np.array_equal(reconstructor.run(paths).points, scene.points)
    images = [Image.open(path).convert("RGB") for path in paths]
    arrays = [np.asarray(image) for image in images]
    by_array = reconstructor.run(arrays, names=[path.name for path in paths])
    # Pillow decodes JPEG with libjpeg as OpenCV does.
    np.testing.assert_array_equal(by_array.points, scene.points)
    assert [camera.name for camera in by_array.cameras] == [camera.name for camera in scene.cameras]
    for other in (images, np.stack(arrays), iter(arrays), [np.asfortranarray(array) for array in arrays],
                  [array[:, :, ::-1].copy()[:, :, ::-1] for array in arrays]):
        np.testing.assert_array_equal(reconstructor.run(other).depth, scene.depth)
    assert reconstructor.run(arrays[:1]).cameras[0].name == "image_000000"


def test_options_of_a_run_are_its_own(scene, tmp_path):
    reconstructor = vggt_recon.Reconstructor(**OPTIONS, conf_percentile=90)
    few = reconstructor.run(ROOM)
    assert 0 < len(few.points) < len(scene.points)
    assert np.array_equal(reconstructor.run(ROOM, conf_percentile=None).points, scene.points)
    assert len(reconstructor.run(ROOM).points) == len(few.points)
    reconstructor.set_options(conf_percentile=50, export=("normals",))
    normal = reconstructor.run(ROOM)
    assert np.array_equal(normal.points, scene.points)
    np.testing.assert_allclose(np.linalg.norm(normal.normals, axis=1), 1, atol=1e-5)
    normal.save(tmp_path / "n.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "n.npz")["normals"], normal.normals)


def test_values_of_options_are_pythons(scene, tmp_path):
    reconstructor = vggt_recon.Reconstructor(**OPTIONS, bundle_adjust=False, merge=False, outliers=(20, 2.0))
    found = reconstructor.run(ROOM, out=tmp_path / "s.ply", picture=tmp_path / "s.png", picture_size=(64, 48))
    options = found.report["options"]
    assert (options["bundle-adjust"], options["merge"], options["outliers"]) == ("off", "off", "20,2.0")
    assert options["picture-size"] == "64x48"
    assert len(found.tracks) == 0 and len(list(scene.tracks)) == len(scene.tracks) > 0
