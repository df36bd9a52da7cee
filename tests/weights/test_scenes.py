"""The scene renderer: what it draws is reproducible, and its ground truth is true."""
import json
import math
import tempfile
import unittest
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image

from scenes import PATHS, TEST, TRAIN, VALIDATION, draw, load_renderer, render, select
from scenes.cameras import camera_rotation
from scenes.example import main as write_example
from scenes.furniture import SHAPES
from scenes.objects import half_extents, rows

SIZE = (56, 70)
EYE = torch.eye(3)


def one_camera(position, focal=60.0, yaw=0.0, pitch=0.0):
    """A camera table [1,1,20] without tone, noise or gain."""
    angles = [torch.tensor(float(a)) for a in (yaw, pitch, 0.0)]
    values = [camera_rotation(*angles).flatten(), torch.tensor(position), torch.tensor([focal, 1, 1, 1, 1, 0, 0, 0])]
    return torch.cat([v.float() for v in values])[None, None]


def empty_room(half=(4.0, 4.0, 3.0), is_open=0.0):
    room = torch.zeros(1, 32)
    room[0, :4] = torch.tensor([*half, is_open])
    room[0, 10:12] = torch.tensor([1.0, 4.0])  # the light: at z = 1
    room[0, 12:18] = 0.5
    return room


def look(room, camera, primitives=None, size=SIZE):
    """Depth and validity [H,W] of grey surfaces."""
    load_renderer()
    materials = torch.full((1, 6, 16), 0.5)
    materials[..., 14] = 0
    if primitives is None:
        primitives = torch.zeros(1, 1, 20)
    else:
        room[0, 5] = primitives.shape[1]
    images, depth, valid = torch.ops.vggt_scenes.render(room, materials, primitives, camera, *size, 1)
    assert torch.isfinite(images).all()
    return depth[0, 0], valid[0, 0]


def rays(size, focal):
    """Directions with z = 1 through the middle of each pixel [H,W,3]."""
    y, x = torch.meshgrid(torch.arange(size[0]), torch.arange(size[1]), indexing="ij")
    return torch.stack([(x - size[1] / 2) / focal, (y - size[0] / 2) / focal, torch.ones_like(x)], -1).double()


class Drawing(unittest.TestCase):
    def test_a_scene_does_not_depend_on_the_batch(self):
        many = draw(TRAIN.start, 5, 4, 3, size=SIZE)
        one = draw(TRAIN.start, 7, 1, 3, size=SIZE)
        for name, table in select(many, slice(2, 3)).items():
            torch.testing.assert_close(one[name], table, rtol=1e-6, atol=1e-6, msg=name)
        whole, alone = render(select(many, slice(2, 3)), samples=2), render(select(many, slice(1, 4)), samples=2)
        self.assertTrue(torch.equal(whole.images[0], alone.images[1]))
        self.assertTrue(torch.equal(whole.depth[0], alone.depth[1]))

    def test_seeds_and_indices_give_different_scenes(self):
        keys = [draw(seed, index, 1, 2, size=SIZE)["surroundings"]
                for seed in (TRAIN.start, TRAIN.start + 1, VALIDATION.start, TEST.start) for index in (0, 1)]
        for i, a in enumerate(keys):
            for b in keys[:i]:
                self.assertGreater((a - b).abs().sum().item(), 0.1)

    def test_the_seed_ranges_are_disjoint_and_closed(self):
        self.assertLessEqual(TRAIN.stop, VALIDATION.start)
        self.assertLess(VALIDATION.stop, TEST.start)
        for seed in (-1, VALIDATION.stop, TEST.start - 1, TEST.stop):
            with self.assertRaisesRegex(ValueError, str(seed)):
                draw(seed, 0, 1, 2, size=SIZE)

    def test_every_path_keeps_clear_of_things_and_sees_the_scene(self):
        for path in PATHS:
            batch = render(draw(VALIDATION.start, 0, 12, 4, size=(28, 42), path=path), samples=1)
            self.assertGreater(batch.depth[batch.valid].min().item(), 0.08, path)
            self.assertGreater(batch.valid.float().mean().item(), 0.7, path)
            self.assertTrue(torch.isfinite(batch.images).all())
            self.assertGreater(batch.images.std((2, 3, 4)).median().item(), 0.04, path)

    def test_orbits_go_all_the_way_round_and_pans_stay(self):
        turned = draw(VALIDATION.start, 0, 64, 16, size=SIZE, path="orbit")["cameras"][..., 6:8]
        reach = torch.nn.functional.normalize(turned, dim=-1)
        opposite = (reach @ reach.transpose(1, 2)).amin((1, 2)) < -0.9
        self.assertGreater(opposite.float().mean().item(), 0.2)
        centres = draw(VALIDATION.start, 0, 64, 8, size=SIZE, path="pan")["cameras"][..., 9:12]
        self.assertLess((centres - centres[:, :1]).norm(dim=-1).max().item(), 1.2)

    def test_a_scene_stays_what_it_was(self):
        room = Path(__file__).resolve().parents[2] / "examples/room"  # its README has the command
        parameters = draw(TEST.start, 319, 1, 12, size=(336, 448), path="orbit")
        centres = np.loadtxt(room / "groundtruth.tum")[:, 1:4]
        np.testing.assert_allclose(parameters["cameras"][0, :, 9:12], centres, atol=2e-6)
        parameters["cameras"] = parameters["cameras"][:, 7:8].contiguous()
        parameters["cameras"][..., 17] = 0  # no noise
        parameters["damage"] = torch.zeros(1, 1, 3)
        batch = render(parameters, samples=4)
        depth = torch.from_numpy(np.array(Image.open(room / "depth/07.png")) / 1000.0)
        same = (batch.depth[0, 0] - depth).abs() < 2e-3
        self.assertGreater(same.float().mean().item(), 0.9995)  # the rest: rounding at edges
        image = torch.from_numpy(np.array(Image.open(room / "07.jpg"))).permute(2, 0, 1) / 255
        self.assertLess((batch.images[0, 0] - image).abs().mean().item(), 0.012)

    def test_fields_of_view(self):
        focal = draw(VALIDATION.start, 0, 256, 1, size=(112, 56))["cameras"][..., 12]
        field = torch.rad2deg(2 * torch.atan(56 / focal))
        self.assertGreaterEqual(field.min().item(), 30)
        self.assertLessEqual(field.max().item(), 100)
        self.assertGreater((field.max() - field.min()).item(), 60)


class Truth(unittest.TestCase):
    def test_the_floor_and_a_wall(self):
        pitch, height = -0.2, 1.3
        depth, valid = look(empty_room((900.0, 900.0, 3.0), 1.0), one_camera((0.0, 0.0, height), pitch=pitch))
        down = rays(SIZE, 60.0)[..., 1] * math.cos(pitch) - math.sin(pitch)
        expected = height / down
        on_ground = (down > 0) & (expected < 60)
        self.assertTrue(torch.equal(valid, on_ground))
        torch.testing.assert_close(depth[valid].double(), expected[valid], rtol=2e-5, atol=0)
        self.assertEqual(depth[~valid].abs().max().item(), 0)
        wall, _ = look(empty_room(), one_camera((1.0, 0.0, 1.5), focal=300.0))
        torch.testing.assert_close(wall, torch.full(SIZE, 3.0), rtol=1e-5, atol=0)

    def test_a_ball_far_away(self):
        centre, radius = torch.tensor([30.0, 0.4, 1.6]), 0.3
        ball = rows(torch.tensor([[1]]), centre[None, None], EYE[None, None], torch.full((1, 1, 3), radius),
                    torch.zeros(1, 1), torch.zeros(1, 1), torch.ones(1, 1))
        depth, _ = look(empty_room((900.0, 900.0, 3.0), 1.0), one_camera((0.0, 0.0, 1.5), focal=1500.0), ball)
        d = rays(SIZE, 1500.0)
        c = torch.tensor([-0.4, -0.1, 30.0]).double()  # in the camera
        b, a = d @ c, (d * d).sum(-1)
        root = b * b - a * (c @ c - radius**2)
        hit = root > 1e-4
        self.assertGreater(hit.sum().item(), 300)
        expected = (b[hit] - root[hit].sqrt()) / a[hit]
        torch.testing.assert_close(depth[hit].double(), expected, rtol=2e-5, atol=0)

    def test_points_lie_on_the_surface_of_each_shape(self):
        size = {"box": (0.5, 0.4, 0.3), "ellipsoid": (0.5, 0.3, 0.4), "frustum": (0.5, 0.2, 0.4),
                "capsule": (0.2, 0.4, 0), "leaf": (0.5, 0.3, 0), "lattice": (0.5, 0.4, 0.4),
                "foliage": (0.5, 0.4, 0.45), "torus": (0.4, 0.1, 0.1), "rounded": (0.5, 0.4, 0.3),
                "blob": (0.3, 0.2, 0.4)}
        for k, name in enumerate(SHAPES):
            turn = camera_rotation(torch.tensor(0.7), torch.tensor(0.4), torch.tensor(0.2))
            centre, dims = torch.tensor([3.0, 0.0, 1.5]), torch.tensor(size[name])
            detail = 0.5 if name == "rounded" else 8.0
            row = rows(torch.tensor([[k]]), centre[None, None], turn.T[None, None], dims[None, None], torch.zeros(1, 1),
                       torch.zeros(1, 1), torch.full((1, 1), detail))
            room = empty_room((20.0, 20.0, 9.0))
            camera = one_camera((0.0, 0.0, 1.5), focal=150.0)
            depth, _ = look(room, camera, row)
            on = depth < 5
            self.assertGreater(on.sum().item(), 150, name)
            rotation = camera[0, 0, :9].view(3, 3)
            world = (rays(SIZE, 150.0).float() * depth[..., None])[on] @ rotation + torch.tensor([0.0, 0.0, 1.5])
            local = (world - centre) @ turn.T
            half = half_extents(torch.tensor(k), dims)
            self.assertTrue((local.abs() <= half + 1e-4).all(), name)
            self.assertLess(self.off_surface(name, local, dims, detail).abs().max().item(), 2e-4, name)

    @staticmethod
    def off_surface(name, p, size, detail):
        """0 for points [N,3] on the surface, in scene units."""
        x, y, z = p.unbind(-1)
        flat = p[:, :2].norm(dim=-1)
        if name == "box":
            return (p.abs() - size).amax(-1)
        if name == "ellipsoid":
            return ((p / size).norm(dim=-1) - 1) * size.min()
        if name == "frustum":
            side = flat - (0.35 - 0.375 * z)
            return torch.maximum(side, z.abs() - size[2])
        if name == "capsule":
            return torch.sqrt(flat**2 + (z.abs() - size[1]).clamp_min(0) ** 2) - size[0]
        if name in ("leaf", "lattice"):
            return z
        if name == "foliage":
            shell = (p / size).norm(dim=-1, keepdim=True) - torch.tensor([1.0, 0.8, 0.6, 0.4])
            return shell.abs().amin(-1) * size.min()
        if name == "torus":
            ring = torch.sqrt((x.abs() - size[2]).clamp_min(0) ** 2 + y**2) - size[0]
            return torch.sqrt(ring**2 + z**2) - size[1]
        if name == "rounded":
            radius = detail * size.min()
            return (p.abs() - size + radius).clamp_min(0).norm(dim=-1) - radius
        apart = torch.tensor([0, 0, 0.2])
        low, high = (p + apart).norm(dim=-1) - 0.3, (p - apart).norm(dim=-1) - 0.2
        blend = (1 - (low - high).abs() / 0.1).clamp_min(0)
        return torch.minimum(low, high) - blend**2 * 0.1 / 4

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_the_gpu_renders_what_the_cpu_renders(self):
        parameters = draw(VALIDATION.start, 0, 16, 2, size=(84, 112))
        batches = [render({name: table.to(device) for name, table in parameters.items()}) for device in ("cpu", "cuda")]
        cpu, gpu = batches
        same = ((cpu.depth - gpu.depth.cpu()).abs() < 1e-3 * cpu.depth + 1e-6) & (cpu.valid == gpu.valid.cpu())
        self.assertGreater(same.float().mean().item(), 0.998)  # the rest: rounding at edges
        self.assertLess((cpu.images - gpu.images.cpu().float()).abs().mean().item(), 0.004)

    def test_cameras_are_relative_to_the_first(self):
        parameters = draw(VALIDATION.start, 0, 8, 5, size=SIZE)
        batch = render(parameters, samples=1)
        self.assertTrue(torch.equal(batch.extrinsic[:, 0], torch.eye(3, 4).expand(8, 3, 4)))
        rotation = batch.extrinsic[..., :3]
        torch.testing.assert_close(rotation @ rotation.transpose(-1, -2), EYE.expand(8, 5, 3, 3), rtol=0, atol=1e-5)
        torch.testing.assert_close(torch.linalg.det(rotation), torch.ones(8, 5))
        centres = (-rotation.transpose(-1, -2) @ batch.extrinsic[..., 3:]).squeeze(-1)
        moved = parameters["cameras"][..., 9:12]
        torch.testing.assert_close(centres.norm(dim=-1), (moved - moved[:, :1]).norm(dim=-1), rtol=1e-4, atol=1e-5)

    def test_a_point_seen_by_two_frames_has_one_place_and_one_colour(self):
        parameters = draw(VALIDATION.start, 40, 24, 2, size=(84, 112), path="handheld")
        parameters["cameras"][..., 17] = 0  # no noise
        parameters["cameras"][..., 13:16] = 1
        parameters["damage"].zero_()
        batch = render(parameters, samples=4)
        points = batch.points()[:, 0].flatten(1, 2)  # [B,HW,3]
        p = points @ batch.extrinsic[:, 1, :, :3].transpose(1, 2) + batch.extrinsic[:, 1, None, :, 3]
        k = batch.intrinsic[:, 1]
        x = p[..., 0] / p[..., 2] * k[:, None, 0, 0] + k[:, None, 0, 2]
        y = p[..., 1] / p[..., 2] * k[:, None, 1, 1] + k[:, None, 1, 2]
        inside = batch.valid[:, 0].flatten(1) & (p[..., 2] > 0.05) & (x >= 0) & (x < 112) & (y >= 0) & (y < 84)
        at = (y.clamp(0, 83).floor() * 112 + x.clamp(0, 111).floor()).long()
        other = batch.depth[:, 1].flatten(1).gather(1, at)
        ratio = (p[..., 2] / other.clamp_min(1e-3))[inside & (other > 0)]
        self.assertGreater(((ratio - 1).abs() < 0.03).float().mean().item(), 0.7)  # the others are hidden
        self.assertLess((ratio < 0.9).float().mean().item(), 0.03)  # in front of what is seen there: edges alone
        same = inside & ((p[..., 2] - other).abs() < 0.01 * other)
        index = at[:, None].expand(-1, 3, -1)
        colours = batch.images[:, 0].flatten(2), batch.images[:, 1].flatten(2).gather(2, index)
        error = (colours[0] - colours[1]).abs().mean(1)[same]
        self.assertLess(error.median().item(), 0.03)
        shuffled = (colours[0] - colours[1].roll(1, 0)).abs().mean(1)[same]
        self.assertGreater(shuffled.median().item(), 5 * error.median().item())


class Example(unittest.TestCase):
    """The files of scenes.example, read as a stranger reads them."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        options = "--index 319 --path orbit --frames 3 --size 84 112 --samples 4"
        with patch("sys.argv", ["example", temporary.name, *options.split()]):
            write_example()
        self.transforms = json.loads((self.folder / "transforms.json").read_text())
        self.poses = [np.array(frame["transform_matrix"]) @ np.diag([1, -1, -1, 1])
                      for frame in self.transforms["frames"]]
        self.depth = [np.array(Image.open(self.folder / frame["depth_file_path"])) / 1000.0
                      for frame in self.transforms["frames"]]

    def test_both_files_of_cameras_agree(self):
        rows = np.loadtxt(self.folder / "groundtruth.tum")
        self.assertEqual(rows[:, 0].tolist(), [0, 1, 2])
        for row, pose in zip(rows, self.poses):
            np.testing.assert_allclose(row[1:4], pose[:3, 3], atol=1e-6)
            axis, w = row[4:7], row[7]
            for column in range(3):  # q e q* of each axis e
                e = np.eye(3)[column]
                turned = e + 2 * w * np.cross(axis, e) + 2 * np.cross(axis, np.cross(axis, e))
                np.testing.assert_allclose(turned, pose[:3, column], atol=1e-6)

    def test_depth_of_one_frame_is_seen_by_the_next(self):
        t = self.transforms
        y, x = np.mgrid[20:64, 30:82]
        z = self.depth[0][y, x]
        rays = np.stack([(x + 0.5 - t["cx"]) / t["fl_x"], (y + 0.5 - t["cy"]) / t["fl_y"], np.ones_like(z)])
        world = self.poses[0][:3, :3] @ (rays * z).reshape(3, -1) + self.poses[0][:3, 3:]
        seen = self.poses[1][:3, :3].T @ (world - self.poses[1][:3, 3:])
        u = np.rint(t["fl_x"] * seen[0] / seen[2] + t["cx"] - 0.5).astype(int)
        v = np.rint(t["fl_y"] * seen[1] / seen[2] + t["cy"] - 0.5).astype(int)
        inside = (u >= 0) & (v >= 0) & (u < t["w"]) & (v < t["h"])
        self.assertGreater(inside.mean(), 0.5)
        there = self.depth[1][v[inside], u[inside]]
        self.assertGreater((np.abs(there / seen[2][inside] - 1) < 0.02).mean(), 0.8)

    def test_frames_are_images_of_that_size(self):
        for frame in self.transforms["frames"]:
            image = np.array(Image.open(self.folder / frame["file_path"]))
            self.assertEqual(image.shape, (84, 112, 3))
            self.assertGreater(image.std(), 10)


if __name__ == "__main__":
    unittest.main()
