"""What the audit says instead of names of files and runs."""

from tap.paper.audit.words import pictures_of, stand_ins


def test_stand_ins_are_named_with_what_they_stand_for():
    assert stand_ins([("cls", "imagenet"), ("seg", "ade20k")]) == ""
    assert stand_ins([("cls", "fashion_mnist")]) == "with Fashion-MNIST in the place of ImageNet-1K"
    both = stand_ins([("seg", "microscopy"), ("det", "microscopy")])
    assert both == "with labelled microscopy frames in the place of ADE20K and COCO"
    assert stand_ins([("own-task", "own-data")]) == ""


def test_a_caption_is_read_in_paragraphs_and_lists(tmp_path):
    folder = tmp_path / "figures"
    folder.mkdir()
    for name in ("fig_all_probes", "fig_insight"):
        (folder / f"{name}.svg").write_text("<svg/>")
    (folder / "fig_insight.caption.md").write_text("# x\n\n**Smoke.**\n\nA band.\n\n- cls: 1\n- seg: 2\n\nLast.\n")
    first, second = pictures_of(tmp_path)
    assert (first.title, first.lead, first.further) == (
        "Figure insight",
        "Smoke.",
        ("A band.", ("cls: 1", "seg: 2"), "Last."),
    )
    assert (second.title, second.lead) == ("Figure all probes", "")
