"""Other programs read what --export writes. Arguments: PROGRAM ROOT FOLDER to fill.

The readers (pycolmap, trimesh, evo, OpenCV, OpenEXR) are those that scripts/test puts into .venv/readers; without
them the test is skipped. They are no part of the program.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

SKIPPED = 77  # as tests/CMakeLists.txt says
READERS = Path(sys.argv[2]) / ".venv/readers/bin/python3"
if READERS.exists() and Path(sys.prefix).resolve() != READERS.parent.parent.resolve():
    os.execv(READERS, [str(READERS), *sys.argv])
os.environ["OPENCV_IO_ENABLE_OPENEXR"] = "1"
try:
    import cv2
    import numpy as np
    import OpenEXR
    import pycolmap
    import trimesh
    from evo.tools import file_interface
    from PIL import Image, ImageOps
except ImportError as missing:
    print(f"skipped: {missing}; scripts/test installs the readers")
    sys.exit(SKIPPED)

ALL = "colmap,nerfstudio,kitti,glb,depth,confidence,normals"


def run(program, frames, out, *more):
    command = [program, "--frames", frames, "--device", "cpu", "--out", f"{out}/", *more]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def pose_of(image):
    pose = image.cam_from_world() if callable(image.cam_from_world) else image.cam_from_world
    return pose.matrix()


def our_cameras(out):
    """By file: the upright camera as cameras.json has it."""
    return {c["file"]: c for c in json.loads((out / "scene.cameras.json").read_text())["cameras"] if c["valid"]}


def projected(camera, points):
    """Pixels of the upright original, centres at integers, by cameras.json alone."""
    local = points @ np.array(camera["cam_from_world"])[:3, :3].T + np.array(camera["cam_from_world"])[:3, 3]
    normal = local[:, :2] / local[:, 2:]
    r2 = (normal**2).sum(1, keepdims=True)
    k1, k2 = camera["distortion"]
    k = np.array(camera["k_original"])
    return (normal * (1 + r2 * (k1 + r2 * k2))) @ k[:2, :2].T + k[:2, 2]


def check_colmap(out, folder):
    """Binary and text are one model, whose reprojection errors are those of our cameras."""
    sparse = out / "colmap/sparse/0"
    text = folder / "text"
    shutil.rmtree(text, ignore_errors=True)
    text.mkdir()
    for file in sparse.glob("*.txt"):
        shutil.copy(file, text)
    models = [pycolmap.Reconstruction(str(path)) for path in (sparse, text)]
    ours = our_cameras(out)
    assert len(ours) > 5
    for model in models:
        assert {image.name for image in model.images.values()} == set(ours)
        assert len(model.points3D) > 100 and model.compute_num_observations() > 300, model.summary()
        stored = {i: point.error for i, point in model.points3D.items()}
        model.update_point_3d_errors()
        errors = []
        for i, point in model.points3D.items():
            assert abs(point.error - stored[i]) < 1e-3, (point.error, stored[i])
            assert len(point.track.elements) >= 2
            of_point = []
            for seen in point.track.elements:
                image = model.images[seen.image_id]
                pixel = image.points2D[seen.point2D_idx]
                assert pixel.point3D_id == i
                shown = projected(ours[image.name], point.xyz[None])[0]
                of_point.append(np.linalg.norm(shown + .5 - pixel.xy))
            errors.append(np.mean(of_point))
        mean = model.compute_mean_reprojection_error()
        print(f"COLMAP: {len(stored)} points, {model.compute_num_observations()} observations, mean error {mean:.4f} px")
        assert abs(mean - np.mean(errors)) < 1e-3, (mean, np.mean(errors))
        assert mean < 2
    a, b = models
    for i, image in a.images.items():
        assert np.allclose(pose_of(image), pose_of(b.images[i]), atol=1e-12)
        assert [p.point3D_id for p in image.points2D] == [p.point3D_id for p in b.images[i].points2D]
        assert np.array_equal([p.xy for p in image.points2D], [p.xy for p in b.images[i].points2D])


def check_bundle_adjustment(out):
    """COLMAP's own bundle adjustment runs from our model, and turns no camera by more than .05 degrees, beside
    what turns all of them. (It weighs all residuals alike; ours trusts large ones less, and the depth too.)"""
    given, adjusted = (pycolmap.Reconstruction(str(out / "colmap/sparse/0")) for _ in range(2))
    pycolmap.bundle_adjustment(adjusted, pycolmap.BundleAdjustmentOptions())
    turns = [pose_of(adjusted.images[i])[:, :3].T @ pose_of(image)[:, :3] for i, image in given.images.items()]
    u, _, v = np.linalg.svd(sum(turns))
    degrees = [np.degrees(np.arccos(np.clip((np.trace((u @ v).T @ turn) - 1) / 2, -1, 1))) for turn in turns]
    adjusted.update_point_3d_errors()
    print(f"bundle adjustment: {np.median(degrees):.4f} degrees, at most {max(degrees):.4f}; "
          f"{adjusted.compute_mean_reprojection_error():.4f} px")
    assert max(degrees) < .05


def check_pycolmaps_files(program, out, folder):
    """What pycolmap writes of our model, as binary files, `eval` finds to be our cameras."""
    theirs = folder / "theirs"
    theirs.mkdir()
    pycolmap.Reconstruction(str(out / "colmap/sparse/0")).write_binary(str(theirs))
    command = [program, "eval", "--result", theirs, "--truth", out / "scene.cameras.json", "--json", folder / "e.json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read = json.loads((folder / "e.json").read_text())
    assert read["matched"] == read["truth"] == len(our_cameras(out)), read
    assert read["median_rotation_deg"] < 1e-5 and read["largest_fov_error_deg"] < 1e-5, read
    assert read["ate_rmse"] < 1e-6 and abs(read["scale"] - 1) < 1e-6, read


def check_debians_colmap(out):
    """Debian's colmap of 2022, where it is installed, finds the same."""
    if not shutil.which("colmap"):
        return
    command = ["colmap", "model_analyzer", "--path", out / "colmap/sparse/0"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "QT_QPA_PLATFORM": "offscreen"})
    found = dict(line.rsplit(": ", 1) for line in (done.stdout + done.stderr).splitlines() if ": " in line)
    model = pycolmap.Reconstruction(str(out / "colmap/sparse/0"))
    model.update_point_3d_errors()
    said = {name.split("] ")[-1].strip(): value for name, value in found.items()}
    assert int(said["Observations"]) == model.compute_num_observations(), said
    assert abs(float(said["Mean reprojection error"].removesuffix("px")) - model.compute_mean_reprojection_error()) < 1e-3


def check_transforms(out):
    """nerfstudio's cameras are COLMAP's, and its files exist."""
    model = pycolmap.Reconstruction(str(out / "colmap/sparse/0"))
    images = {image.name: image for image in model.images.values()}
    where = out / "nerfstudio"
    all_ = json.loads((where / "transforms.json").read_text())
    assert len(all_["frames"]) == len(images)
    points = trimesh.load(where / all_["ply_file_path"])
    assert len(points.vertices) > 100
    for frame in all_["frames"]:
        image = images[Path(frame["file_path"]).name]
        pose = np.linalg.inv(np.array(frame["transform_matrix"]) @ np.diag([1, -1, -1, 1]))
        assert np.allclose(pose[:3], pose_of(image), atol=1e-9)
        camera = model.cameras[image.camera_id]
        numbers = {**all_, **frame}
        assert np.allclose(camera.calibration_matrix()[[0, 1, 0, 1], [0, 1, 2, 2]],
                           [numbers[n] for n in ("fl_x", "fl_y", "cx", "cy")], rtol=1e-6)
        pixels = Image.open(where / frame["file_path"])
        assert pixels.size == (camera.width, camera.height) == (numbers["w"], numbers["h"])
        depth = cv2.imread(str(where / frame["depth_file_path"]), cv2.IMREAD_ANYDEPTH)
        assert depth.shape == (camera.height, camera.width) and depth.dtype == np.uint16


def check_trajectories(out):
    tum = file_interface.read_tum_trajectory_file(str(out / "scene.tum"))
    kitti = file_interface.read_kitti_poses_file(str(out / "kitti.txt"))
    assert tum.num_poses == kitti.num_poses == len(our_cameras(out))
    assert np.allclose(tum.positions_xyz, kitti.positions_xyz, atol=1e-9)
    assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(tum.poses_se3, kitti.poses_se3))
    assert kitti.check()[0], kitti.check()


def check_glb(out):
    scene = trimesh.load(out / "scene.glb")
    points = scene.geometry["points"]
    ply = trimesh.load(out / "scene.ply")
    assert len(points.vertices) == len(ply.vertices) > 1000  # these clouds are small
    transform, _ = scene.graph["points"]
    flipped = np.asarray(points.vertices) @ transform[:3, :3].T
    assert np.allclose(flipped, np.asarray(ply.vertices) * [1, -1, -1], atol=1e-5)
    srgb = np.asarray(ply.colors)[:, :3] / 255
    light = np.where(srgb <= .04045, srgb / 12.92, ((srgb + .055) / 1.055) ** 2.4)
    assert np.abs(np.asarray(points.colors)[:, :3] / 255 - light).max() < .006
    assert len(scene.geometry["cameras"].entities) > 0


def check_normals(out):
    """Normals are of length 1 and look at a camera that may have seen the point."""
    raw = (out / "scene.ply").read_bytes()
    header, body = raw.split(b"end_header\n", 1)
    assert b"property float nx" in header
    vertices = np.frombuffer(body, np.dtype([("xyz", "<f4", 3), ("n", "<f4", 3), ("rgb", "u1", 3)]))
    assert np.allclose(np.linalg.norm(vertices["n"], axis=1), 1, atol=1e-4)
    centres = [np.linalg.inv(np.array(c["cam_from_world"]))[:3, 3] for c in our_cameras(out).values()]
    facing = np.max([(vertices["n"] * (centre - vertices["xyz"])).sum(1) for centre in centres], axis=0)
    assert (facing > 0).all()


def check_depth_formats(program, root, out, folder):
    """PNG, EXR and .npy hold the same maps; confidence too."""
    for kind in ("exr", "npy"):
        run(program, root / "examples/room", folder / kind, "--export", "depth,confidence", "--depth-format", kind,
            "--max-frames", 4)
    run(program, root / "examples/room", folder / "png", "--export", "depth,confidence", "--max-frames", 4)
    for what in ("depth", "confidence"):
        listed = json.loads((folder / "png" / what / "maps.json").read_text())
        assert len(listed["maps"]) == 4
        for entry in listed["maps"]:
            name = Path(entry["map"]).stem
            exact = np.load(folder / "npy" / what / f"{name}.npy")
            assert exact.shape == (entry["height"], entry["width"]) and (exact > 0).mean() > .9
            exr = folder / "exr" / what / f"{name}.exr"
            assert np.array_equal(cv2.imread(str(exr), cv2.IMREAD_UNCHANGED), exact)
            assert np.array_equal(OpenEXR.File(str(exr)).channels()["Y"].pixels, exact)
            png = cv2.imread(str(folder / "png" / what / f"{name}.png"), cv2.IMREAD_UNCHANGED) * listed["unit"]
            kept = png > 0
            assert np.abs(png - exact)[kept].max() <= listed["unit"] * .51 and kept.mean() > .9


def check_portrait(program, root, folder):
    """Portraits stored turned by EXIF and cropped by the network: COLMAP sees what the network saw.

    Its 3D points come from the network's own depth and cameras; where they show in the file as it is stored comes from
    Pillow's EXIF rotation and the sizes of VGGT's preprocessing.
    """
    width = 196
    frames, out = folder / "portraits", folder / "portrait_scene"
    shutil.rmtree(frames, ignore_errors=True)
    frames.mkdir(parents=True)
    turns = {6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270, 3: Image.Transpose.ROTATE_180, 1: None}
    for i, source in enumerate(sorted((root / "examples/room").glob("*.jpg"))[:4]):
        upright = Image.open(source).crop((120, 0, 320, 330))
        orientation, turn = list(turns.items())[i]
        exif = Image.Exif()
        exif[0x0112] = orientation
        (upright.transpose(turn) if turn is not None else upright).save(frames / source.name, exif=exif, quality=95)
    predictions = folder / "portraits.safetensors"
    for how in ("refer", "copy"):
        run(program, frames, out, "--width", width, "--fit", "crop", "--export", "colmap", "--export-images", how,
            "--save-predictions", predictions, "--bundle-adjust", "off")
        model = pycolmap.Reconstruction(str(out / "colmap/sparse/0"))
        saved = read_safetensors(predictions)
        worst = 0
        for image in model.images.values():
            i = sorted(p.name for p in frames.iterdir()).index(image.name)
            stored = Image.open(out / "colmap/images" / image.name)
            camera = model.cameras[image.camera_id]
            assert stored.size == (camera.width, camera.height), how
            # Each pixel of the upright image, by its place in the file.
            w, h = stored.size
            places = [Image.fromarray(a) for a in np.meshgrid(np.arange(w, dtype=np.float32),
                                                              np.arange(h, dtype=np.float32))]
            for place in places:
                place.getexif()[0x0112] = stored.getexif().get(0x0112, 1)
            places = np.stack([np.asarray(ImageOps.exif_transpose(p)) for p in places], -1)  # [H,W,2]
            high, wide = places.shape[:2]
            resized = round(high * (width / wide) / 14) * 14
            crop = (resized - width) // 2
            assert saved["depth"].shape[1:] == (width, width) and crop > 0
            # A grid of network pixels whose centres fall on pixels of the original, or near them.
            y, x = np.mgrid[10:high - 10:7, 10:wide - 10:7]
            u = (x + .5) * width / wide - .5
            v = (y + .5) * resized / high - .5 - crop
            inside = (v >= 0) & (v <= width - 1)
            x, y, u, v = x[inside], y[inside], u[inside], v[inside]
            k, extrinsic = saved["intrinsic"][i], saved["extrinsic"][i]
            local = np.stack([(u - k[0, 2]) / k[0, 0], (v - k[1, 2]) / k[1, 1], np.ones_like(u)], -1)
            local *= saved["depth"][i][v.round().astype(int), u.round().astype(int)][:, None]
            points = (local - extrinsic[:, 3]) @ extrinsic[:, :3]
            pose = pose_of(image)
            shown = np.array([camera.img_from_cam(p) for p in points @ pose[:, :3].T + pose[:, 3]])
            worst = max(worst, np.linalg.norm(shown - .5 - places[y, x], axis=1).max())
        print(f"portraits, {how}: at most {worst:.4f} px")
        assert worst < .5


def read_safetensors(path):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + size])
    return {name: np.frombuffer(raw[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]], "<f4")
            .reshape(e["shape"]).astype(np.float64) for name, e in header.items() if name != "__metadata__"}


def main():
    program, root, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    out = folder / "room"
    shutil.rmtree(folder, ignore_errors=True)
    run(program, root / "examples/room", out, "--export", ALL)
    check_colmap(out, folder)
    check_bundle_adjustment(out)
    check_pycolmaps_files(program, out, folder)
    check_debians_colmap(out)
    check_transforms(out)
    check_trajectories(out)
    check_glb(out)
    check_normals(out)
    check_depth_formats(program, root, out, folder)
    check_portrait(program, root, folder)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
