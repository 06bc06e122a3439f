from tap.core.accounting import controller_parameters, lora_parameters, task_parameters


def test_the_papers_counts_for_vit_b() -> None:
    assert controller_parameters(768) == 2306
    assert controller_parameters(768, recovery=False) == 1537
    assert lora_parameters(768, blocks=1, rank=8) == 98304
    assert lora_parameters(768, blocks=12, rank=8) == 1179648
    assert task_parameters(768, blocks=12, rank=8) == 1180416


def test_low_rank_updates_follow_the_maps() -> None:
    """Two matrices per map, counted one by one."""
    shapes = [(16, 48), (16, 16), (16, 32), (32, 16)]
    counted = sum(3 * inputs + outputs * 3 for inputs, outputs in shapes)
    assert lora_parameters(16, blocks=5, rank=3, mlp_ratio=2) == 5 * counted
