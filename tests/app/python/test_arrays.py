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


def strided(shape, strides):
    return np.lib.stride_tricks.as_strided(picture(0), shape, strides)


@pytest.mark.parametrize("image", [
    np.broadcast_to(picture(0)[:1], (84, 112, 3)),  # a row again and again
    np.broadcast_to(picture(0)[:, :1], (84, 112, 3)),  # a column
    np.broadcast_to(picture(0)[:, :, :1], (84, 112, 3)),
    strided((40, 56, 3), (3, 6, 1)),  # rows that overlap
    strided((84, 37, 3), (336, 3, 3)),  # pixels that do
    picture(0)[::-1, ::-1, ::-1],
    picture(0)[::2, ::2],
    picture(0).transpose(1, 0, 2),
    np.ascontiguousarray(picture(0).transpose(2, 0, 1)).transpose(1, 2, 0),
    np.ascontiguousarray(picture(0).transpose(0, 2, 1)).transpose(0, 2, 1),
], ids=lambda image: "x".join(map(str, image.strides)))
def test_any_strides_give_what_a_copy_gives(reconstructor, image):
    copy = np.array(image, order="C")
    np.testing.assert_array_equal(reconstructor.run([image]).depth, reconstructor.run([copy]).depth)


def test_what_has_one_row_or_column_is_read_within_it():
    """Along it there is no step, whatever its stride."""
    from vggt_recon.arrays import image_array
    pixel = picture(0)[:1, :1]
    for image in (picture(0)[:1], picture(0)[:, :1], pixel, np.broadcast_to(pixel, (1, 1, 3))):
        assert image_array(image, 0) is image
    assert image_array(np.broadcast_to(picture(0)[:1], (2, 112, 3)), 0).strides == (336, 3, 1)


def test_tensors_that_are_expanded(reconstructor):
    torch = pytest.importorskip("torch")
    row = torch.from_numpy(picture(0)[:1])
    np.testing.assert_array_equal(reconstructor.run([row.expand(84, 112, 3)]).depth,
                                  reconstructor.run([np.repeat(picture(0)[:1], 84, axis=0)]).depth)


def pillow_images():
    """By name: an image of Pillow's and how it goes into a file without loss."""
    from PIL import Image
    color = Image.fromarray(picture(5))
    gray = color.convert("L")
    deep = np.asarray(gray).astype(np.int32) * 3 - 99  # values beyond 8 bits, and below 0
    with_alpha, gray_with_alpha = color.copy(), gray.copy()
    for image in (with_alpha, gray_with_alpha):
        image.putalpha(Image.fromarray(picture(6)[:, :, 0]))
    turned = Image.Exif()
    turned[0x0112] = 6
    return {
        "RGB": (color, "png", {}),
        "L": (gray, "png", {}),
        "1": (color.convert("1"), "png", {}),
        "P": (color.quantize(16), "png", {}),
        "P with a transparent color": (color.quantize(16), "png", {"transparency": 3}),
        "RGBA": (with_alpha, "png", {}),
        "LA": (gray_with_alpha, "png", {}),
        "CMYK": (color.convert("CMYK"), "tif", {}),
        "I;16": (Image.fromarray(np.clip(deep, 0, None).astype(np.uint16)), "png", {}),
        "I": (Image.fromarray(deep), "tif", {}),
        "F": (Image.fromarray(deep.astype(np.float32) * 1.1), "tif", {}),
        "turned": (color, "png", {"exif": turned}),
        "turned RGBA": (with_alpha, "webp", {"exif": turned, "lossless": True, "exact": True}),
    }


@pytest.mark.parametrize("name", ["RGB", "L", "1", "P", "P with a transparent color", "RGBA", "LA", "CMYK", "I;16", "I",
                                  "F", "turned", "turned RGBA"])
def test_pillows_images_give_what_their_files_give(reconstructor, tmp_path, name):
    from PIL import Image
    image, extension, how = pillow_images()[name]
    path = tmp_path / f"image.{extension}"
    image.save(path, **how)
    expected = reconstructor.run(path).depth
    with Image.open(path) as opened:
        assert opened.mode == image.mode
        np.testing.assert_array_equal(reconstructor.run([opened]).depth, expected)
        np.testing.assert_array_equal(reconstructor.run(opened).depth, expected)  # one is as good as a list of it


@pytest.mark.parametrize("mode", ["HSV", "YCbCr", "LAB"])
def test_pillows_other_colours_are_converted(reconstructor, mode):
    from PIL import Image
    image = Image.fromarray(picture(5).copy())
    image = image.convert(mode) if mode != "LAB" else Image.merge("LAB", image.split())
    converted = np.asarray(image.convert("RGB"))
    np.testing.assert_array_equal(reconstructor.run(image).depth, reconstructor.run(converted).depth)


def test_one_gray_array_is_one_image(reconstructor):
    gray = picture(3)[:, :, 0]
    np.testing.assert_array_equal(reconstructor.run(gray).depth, reconstructor.run([gray]).depth)


@pytest.mark.parametrize("frames, error, text", [
    ([], ValueError, "there are none"),
    ([picture(0).astype(np.float32) / 255], TypeError, "image 0: has values of type float32"),
    ([picture(0), picture(1)[:, :, :2]], ValueError, r"image 1: has the shape \[84, 112, 2\]"),
    ([np.zeros((0, 10, 3), np.uint8)], ValueError, "is empty"),
    (["a.jpg", picture(0)], TypeError, "paths or images"),
    ([object()], TypeError, "image 0"),
    (7, TypeError, "frames: takes a path, an image or a sequence of them, not int"),
    (None, TypeError, "frames: takes a path, an image or a sequence of them, not NoneType"),
    ({"a": picture(0)}, TypeError, "frames: takes .* not dict"),
    ({"a.jpg", "b.jpg"}, TypeError, "frames: takes .* not set"),  # in no order
])
def test_what_is_no_image(reconstructor, frames, error, text):
    with pytest.raises(error, match=text):
        reconstructor.run(frames)


def test_names_fit(reconstructor):
    with pytest.raises(ValueError, match="names: 1 for 2 images"):
        reconstructor.run([picture(0), picture(1)], names=["a"])
    names = [camera.name for camera in reconstructor.run([picture(0), picture(1)], names=["a", "späť.png"]).cameras]
    assert names == ["a", "späť.png"]
