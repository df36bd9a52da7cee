"""Blur and compression of rendered images are what fp64 gives, on the CPU and on a GPU."""
import math
import unittest

import numpy as np
import torch

from scenes import load_renderer


def damage(images, amounts):
    load_renderer()
    return torch.ops.vggt_scenes.damage(images, amounts)


def damage_in_fp64(image, blur_x, blur_y, step):
    """What `damage` does to one image [3,H,W]."""
    for axis, deviation in ((2, blur_x), (1, blur_y)):
        taps = np.exp(-0.5 * (np.arange(-2, 3) / max(deviation, 0.05)) ** 2)
        padded = np.pad(image, [(2 * (a == axis),) * 2 for a in range(3)], mode="edge")
        image = np.apply_along_axis(np.convolve, axis, padded, taps / taps.sum(), "valid")
    if step == 0:
        return image
    height, width = image.shape[1:]
    padded = np.pad(image, [(0, 0), (0, -height % 8), (0, -width % 8)], mode="edge")
    luma = np.array([0.299, 0.587, 0.114])
    colour = np.stack([luma, (np.eye(3)[2] - luma) / 1.772, (np.eye(3)[0] - luma) / 1.402])
    k = np.arange(8)
    cosines = 0.5 * np.cos((2 * k + 1) * k[:, None] * math.pi / 16)
    cosines[0] /= math.sqrt(2)
    blocks = padded.reshape(3, padded.shape[1] // 8, 8, -1, 8)  # channel, block row, row, block column, column
    coefficients = np.einsum("dc,ur,vx,carbx->dabuv", colour, cosines, cosines, blocks)
    quantum = step * np.array([1, 2, 2]).reshape(3, 1, 1, 1, 1) * (1 + 0.55 * (k + k[:, None]))
    kept = np.rint(coefficients / quantum) * quantum
    back = np.einsum("cd,ur,vx,dabuv->carbx", np.linalg.inv(colour), cosines, cosines, kept)
    return back.reshape(padded.shape)[:, :height, :width].clip(0, 1)


class Damage(unittest.TestCase):
    # Nothing, one blur, both, compression, all.
    AMOUNTS = torch.tensor([[0, 0, 0], [0.7, 0, 0], [0.4, 1.9, 0], [0, 0, 0.03], [1.1, 0.3, 0.08]])[:, None]

    def setUp(self):
        self.generator = torch.Generator().manual_seed(1)
        self.images = self.drawn(2, 42, 56)

    def drawn(self, count, height, width):
        """Noise on a ramp: with flat and with busy blocks."""
        noise = torch.rand(count, 1, 3, height, width, generator=self.generator)
        return noise * torch.linspace(0.02, 1, width).square()

    def test_it_is_what_fp64_gives(self):
        off = []
        for size in ((1, 1), (3, 2), (8, 8), (9, 7), (23, 63), (24, 64), (25, 65), (26, 66), (42, 56), (50, 131)):
            images = self.drawn(len(self.AMOUNTS), *size)
            for got, image, amounts in zip(damage(images, self.AMOUNTS), images, self.AMOUNTS):
                want = damage_in_fp64(image[0].double().numpy(), *amounts[0].tolist())
                off.append(np.abs(got[0].numpy() - want).flatten())
        off = np.concatenate(off)
        self.assertTrue(np.isfinite(off).all())
        # Rounding decides where a coefficient is half-way between two steps, which changes a block a little.
        self.assertLess((off > 2e-6).mean(), 0.002)
        self.assertLess(off.max(), 0.1)

    def test_nothing_happens_at_zero(self):
        self.assertTrue(torch.equal(damage(self.images, torch.zeros(2, 1, 3)), self.images))

    def test_an_image_does_not_depend_on_the_batch(self):
        images = self.drawn(len(self.AMOUNTS), 30, 70)
        alone = [damage(images[i:i + 1], self.AMOUNTS[i:i + 1]) for i in range(len(images))]
        self.assertTrue(torch.equal(damage(images, self.AMOUNTS), torch.cat(alone)))
        as_frames = damage(images.transpose(0, 1).contiguous(), self.AMOUNTS.transpose(0, 1).contiguous())
        self.assertTrue(torch.equal(as_frames[0], torch.cat(alone)[:, 0]))

    def test_blur_keeps_the_mean_and_takes_contrast(self):
        blurred = damage(self.images, torch.tensor([0.8, 0.0, 0.0]).repeat(2, 1, 1))
        self.assertAlmostEqual(blurred.mean().item(), self.images.mean().item(), delta=0.005)
        self.assertLess(blurred.diff(dim=-1).std().item(), 0.5 * self.images.diff(dim=-1).std().item())
        self.assertLess(blurred.std(), self.images.std())

    def test_compression_is_an_error_within_its_step(self):
        coarse, fine = (damage(self.images, torch.tensor([0.0, 0.0, step]).repeat(2, 1, 1)) - self.images
                        for step in (0.08, 0.01))
        self.assertGreater(coarse.std().item(), 3 * fine.std().item())
        self.assertGreater(fine.std().item(), 0.003)

    def test_what_does_not_fit_is_an_error(self):
        for images, amounts in ((self.images[:, 0], torch.zeros(2, 3)), (self.images, torch.zeros(1, 1, 3)),
                                (self.images, torch.zeros(2, 2, 3)), (self.images.half(), torch.zeros(2, 1, 3)),
                                (self.images.transpose(3, 4), torch.zeros(2, 1, 3))):
            with self.assertRaisesRegex(RuntimeError, "expected"):
                damage(images, amounts)

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_the_gpu_damages_as_the_cpu_does(self):
        for size in ((1, 1), (9, 7), (24, 64), (25, 65), (168, 224), (50, 131)):
            images = self.drawn(len(self.AMOUNTS), *size).half()
            given, amounts = images.cuda(), self.AMOUNTS.cuda()
            got = damage(given, amounts)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                again = damage(given, amounts)
            again.fill_(-1)
            graph.replay()
            self.assertTrue(torch.equal(got, again), size)
            self.assertTrue(torch.equal(given.cpu(), images), size)
            self.assertTrue(torch.equal(got[0].cpu(), images[0]), size)
            off = (got.cpu().float() - damage(images.float(), self.AMOUNTS)).abs()
            self.assertLess((~(off < 5e-4)).float().mean().item(), 0.01, size)  # fp16; the rest: half-way, as above


if __name__ == "__main__":
    unittest.main()
