"""One reader and one rule: what training takes, and the checks say of a file what training says."""

import io

import numpy as np
import pytest
from PIL import Image

from tap.errors import UserError
from tap.tasks.classification.imagenet import ImageFolder
from tap.tasks.images import image_refusal, open_image, read_image, read_labels

RAMP = np.tile(np.linspace(0, 255, 48).astype(np.uint8), (40, 1))
COLOUR = np.dstack([RAMP, RAMP[:, ::-1], np.full_like(RAMP, 90)])
CLEAR = np.where(np.arange(48) < 4, 0, 255).astype(np.uint8) * np.ones_like(RAMP)


def stored(image, form="PNG", **options):
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def with_alpha(array, alpha):
    return Image.fromarray(np.dstack([array, alpha]))


def deep_colour():
    cv2 = pytest.importorskip("cv2")
    return cv2.imencode(".png", COLOUR.astype(np.uint16) * 257)[1].tobytes()


def turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return stored(Image.fromarray(COLOUR), exif=exif)


INDEXED = Image.fromarray(COLOUR).quantize(32, method=Image.Quantize.MEDIANCUT)
JPEG = stored(Image.fromarray(COLOUR), "JPEG", quality=95)

TAKEN = {
    "grey": (stored(Image.fromarray(RAMP)), np.dstack([RAMP] * 3)),
    "one bit": (stored(Image.fromarray(RAMP > 99)), np.dstack([(RAMP > 99) * np.uint8(255)] * 3)),
    "colour": (stored(Image.fromarray(COLOUR)), COLOUR),
    "opaque": (stored(with_alpha(COLOUR, np.full_like(RAMP, 255))), COLOUR),
    "opaque grey": (stored(with_alpha(RAMP, np.full_like(RAMP, 255))), np.dstack([RAMP] * 3)),
    "indexed": (stored(INDEXED), np.asarray(INDEXED.convert("RGB"))),
    "jpeg": (JPEG, np.asarray(Image.open(io.BytesIO(JPEG)))),
    "jpeg with something behind it": (JPEG + b"trailer", np.asarray(Image.open(io.BytesIO(JPEG)))),
    "cmyk": (stored(Image.fromarray(COLOUR).convert("CMYK"), "TIFF"), COLOUR),
    "to be turned": (turned(), COLOUR),
    "another format": (stored(Image.fromarray(COLOUR), "BMP"), COLOUR),
}
REFUSED = {
    "16-bit grey": (stored(Image.fromarray(RAMP.astype(np.uint16) * 257)), "16 bits per channel; convert it"),
    "16-bit colour": (deep_colour(), "16 bits per channel; convert it"),
    "32-bit": (stored(Image.fromarray(RAMP.astype(np.int32)), "TIFF"), "32 bits per channel; convert it"),
    "transparent": (stored(with_alpha(COLOUR, CLEAR)), "has transparent pixels"),
    "transparent grey": (stored(with_alpha(RAMP, CLEAR)), "has transparent pixels"),
    "transparent index": (stored(INDEXED, transparency=INDEXED.getpixel((5, 5))), "has transparent pixels"),
    "transparent value": (stored(Image.fromarray(RAMP), transparency=0), "has transparent pixels"),
    "transparent colour": (
        stored(Image.fromarray(COLOUR), transparency=(16, 238, 90)),
        "has transparent pixels",
    ),
    "cut": (stored(Image.fromarray(COLOUR))[:-40], "cannot be read as an image"),
    "cut jpeg": (JPEG[: len(JPEG) // 2], "cannot be read as an image"),
    "empty": (b"", "cannot be read as an image (not an image)"),
    "text": (b"text", "cannot be read as an image (not an image)"),
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "a.png"


@pytest.mark.parametrize("kind", TAKEN)
def test_taken(file, kind):
    content, expected = TAKEN[kind]
    file.write_bytes(content)
    assert image_refusal(file) is None
    assert image_refusal(file, decode=True) is None
    assert image_refusal(file, size=(48, 40)) is None
    assert "has 48 x 40 pixels, listed are 40 x 48" in image_refusal(file, size=(40, 48))
    tolerance = 1 if kind == "cmyk" else 0
    assert np.abs(read_image(file)[..., ::-1].astype(int) - expected).max() <= tolerance
    images = ImageFolder(file.parent, (file.name,), np.zeros(1, dtype=np.int64))
    assert np.array_equal(np.asarray(images.load(0)), read_image(file)[..., ::-1])


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(file, kind):
    content, message = REFUSED[kind]
    file.write_bytes(content)
    images = ImageFolder(file.parent, (file.name,), np.zeros(1, dtype=np.int64))
    for read in (open_image, read_image, lambda _: images.load(0)):
        with pytest.raises(UserError) as found:
            read(file)
        assert str(found.value).startswith(f"{file}: {message}")
    for decode in (False, True):
        assert f"{file}: {image_refusal(file, decode)}" == str(found.value)


def test_a_missing_file(file):
    for read in (open_image, read_labels):
        with pytest.raises(UserError, match=r"a\.png: missing"):
            read(file)
    assert image_refusal(file).startswith("missing")


def test_decoding_finds_what_the_quick_look_cannot(file):
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(file, "JPEG")
    content = bytearray(file.read_bytes())
    table = content.index(b"\xff\xc4")  # the first Huffman table
    content[table + 5 : table + 21] = b"\xff" * 16
    file.write_bytes(content)
    assert image_refusal(file) is None
    assert image_refusal(file, decode=True) is not None


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_an_image_of_too_many_pixels_is_refused_by_its_header(file, monkeypatch):
    Image.new("L", (30, 40)).save(file)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # Pillow warns above this, and refuses twice as many
    assert image_refusal(file) is None
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    assert "1200 pixels" in image_refusal(file)
    with pytest.raises(UserError, match="1200 pixels"):
        read_image(file)
