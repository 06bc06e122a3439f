import pytest
from PIL import Image

from tap.tasks.image_check import file_fault, image_refusal


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_an_image_of_too_many_pixels_is_refused_by_its_header(tmp_path, monkeypatch):
    file = tmp_path / "large.png"
    Image.new("L", (30, 40)).save(file)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # Pillow warns above this, and refuses twice as many
    assert image_refusal(file) is None
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    refusal = image_refusal(file)
    assert refusal is not None
    assert "1200 pixels" in refusal
    assert file_fault(file) is not None
