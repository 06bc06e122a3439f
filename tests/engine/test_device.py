"""The device of a job."""

import pytest
import torch

from tap.engine.device import describe_device, select_device
from tap.errors import UserError


def test_the_setting_is_followed_where_it_can_be(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert select_device("cpu") == select_device("auto") == torch.device("cpu")


def test_each_process_takes_the_gpu_of_its_local_rank(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert select_device("auto") == torch.device("cuda", 1)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(UserError, match="needs GPU number 2 and torch sees 2"):
        select_device("cuda")


def test_a_gpu_that_is_not_there_is_a_clear_error(monkeypatch):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(UserError, match="device: 'cuda' needs GPU number 0 and torch sees 0; set device to 'cpu'"):
        select_device("cuda")


def test_a_cpu_is_described_with_its_threads():
    text = describe_device(torch.device("cpu"))
    assert text.endswith(f", {torch.get_num_threads()} thread{'s' * (torch.get_num_threads() > 1)}")
    assert len(text.split(",")[0]) > 2
