"""Arrays without copies: they live as long as somebody has them, and pass to and from torch by DLPack."""

import gc

import numpy as np
import pytest
import vggt_recon

pytestmark = pytest.mark.filterwarnings("ignore::vggt_recon.ReconstructionWarning")  # noise is no good scene


def picture(seed):
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 255, (7, 8, 3), dtype=np.uint8)
    return np.ascontiguousarray(np.kron(coarse, np.ones((12, 14, 1), np.uint8)))


@pytest.fixture(scope="module")
def reconstructor():
    return vggt_recon.Reconstructor(device="cpu", width=112, bundle_adjust="off")


@pytest.fixture(scope="module")
def scene(reconstructor):
    return reconstructor.run([picture(0), picture(1)])


def test_arrays_outlive_their_scene(reconstructor, scene):
    other = reconstructor.run([picture(0), picture(1)])
    points, depth, pose = other.points, other.depth, other.cameras[1].cam_from_world
    assert not points.flags.owndata and not depth.flags.owndata
    del other
    gc.collect()
    trash = [np.full(1 << 20, 7.0) for _ in range(20)]  # takes freed memory
    np.testing.assert_array_equal(points, scene.points)
    np.testing.assert_array_equal(depth, scene.depth)
    np.testing.assert_array_equal(pose, scene.cameras[1].cam_from_world)
    del trash


def test_the_same_memory_every_time(scene):
    assert np.shares_memory(scene._scene.depth, scene._scene.depth)
    assert np.shares_memory(scene.depth, scene._scene.depth)
    assert np.shares_memory(scene.points, scene._scene.points)


def test_torch_takes_and_gives_without_copies(reconstructor, scene):
    torch = pytest.importorskip("torch")
    depth = torch.from_dlpack(scene.depth)
    assert depth.shape == scene.depth.shape and depth.data_ptr() == scene.depth.ctypes.data
    images = [torch.from_numpy(picture(i)) for i in range(2)]
    np.testing.assert_array_equal(reconstructor.run(images).depth, scene.depth)
    # As torch likes them: [S,3,H,W], permuted without a copy.
    stacked = torch.stack(images).permute(0, 3, 1, 2).contiguous()
    np.testing.assert_array_equal(reconstructor.run(stacked.permute(0, 2, 3, 1)).depth, scene.depth)
    with pytest.raises(ValueError, match=r"image 0: has the shape \[3, 84, 112\].*permute it"):
        reconstructor.run(stacked)


def test_gray_images_are_gray_in_colour(reconstructor):
    gray = picture(3)[:, :, 0]
    colored = np.repeat(gray[:, :, None], 3, axis=2)
    np.testing.assert_array_equal(reconstructor.run([gray]).depth, reconstructor.run([colored]).depth)


def test_one_value_for_all_pixels_is_an_image(reconstructor):
    """Its strides are 0, which C takes for dense rows: it must not read beyond the value."""
    value = np.broadcast_to(np.uint8(90), (84, 112, 3))
    assert value.strides == (0, 0, 0)
    np.testing.assert_array_equal(reconstructor.run([picture(0), value]).depth,
                                  reconstructor.run([picture(0), value.copy()]).depth)


@pytest.mark.parametrize("frames, error, text", [
    ([], ValueError, "there are none"),
    ([picture(0).astype(np.float32) / 255], TypeError, "image 0: has values of type float32"),
    ([picture(0), picture(1)[:, :, :2]], ValueError, r"image 1: has the shape \[84, 112, 2\]"),
    ([np.zeros((0, 10, 3), np.uint8)], ValueError, "is empty"),
    (["a.jpg", picture(0)], TypeError, "paths or images"),
    ([object()], TypeError, "image 0"),
    (7, TypeError, "not iterable"),
])
def test_what_is_no_image(reconstructor, frames, error, text):
    with pytest.raises(error, match=text):
        reconstructor.run(frames)


def test_names_fit(reconstructor):
    with pytest.raises(ValueError, match="names: 1 for 2 images"):
        reconstructor.run([picture(0), picture(1)], names=["a"])
    names = [camera.name for camera in reconstructor.run([picture(0), picture(1)], names=["a", "späť.png"]).cameras]
    assert names == ["a", "späť.png"]
