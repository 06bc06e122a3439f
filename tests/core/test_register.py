import pytest
import torch

from tap.core.register import Controller
from tap.errors import UserError


def parameters(controller: Controller) -> int:
    return sum(parameter.numel() for parameter in controller.parameters())


def test_parameter_counts_of_the_paper() -> None:
    """3d + 2 = 2,306 and 2d + 1 = 1,537 for ViT-B; another task costs one register."""
    assert parameters(Controller(768)) == 2306
    assert parameters(Controller(768, recovery=False)) == 1537
    assert parameters(Controller(768, tasks=("cls", "seg", "det"))) == 2306 + 2 * 768


def test_every_image_starts_from_the_tasks_register() -> None:
    controller = Controller(8, tasks=("cls", "seg"))
    first = controller.initial("seg", 3)
    assert first.shape == (3, 1, 8)
    assert torch.equal(first, controller.registers["seg"].detach().expand(3, 1, 8))
    first.sum().backward()
    assert torch.equal(controller.registers["seg"].grad, torch.full((8,), 3.0))
    assert controller.registers["cls"].grad is None


def test_unknown_task_is_named() -> None:
    with pytest.raises(UserError, match=r"'det' has no register.*cls, seg"):
        Controller(8, tasks=("cls", "seg")).initial("det", 1)


def test_registers_are_small_and_differ() -> None:
    controller = Controller(4096, tasks=("cls", "seg"), register_std=0.02)
    assert controller.registers["cls"].std().item() == pytest.approx(0.02, rel=0.1)
    assert not torch.equal(controller.registers["cls"], controller.registers["seg"])


def test_all_registers_start_from_a_given_token_and_readouts_stay_as_they_are() -> None:
    controller, token = Controller(8, tasks=("cls", "seg")), torch.randn(8)
    before = controller.allocation.weight.clone()
    controller.start_from(token)
    assert all(torch.equal(register, token) and register.requires_grad for register in controller.registers.values())
    assert torch.equal(controller.allocation.weight, before)
    with pytest.raises(UserError, match="no start of a register of width 8"):
        controller.start_from(torch.zeros(4))


def test_readouts_start_at_their_biases() -> None:
    controller = Controller(16, recovery_bias=1.5)
    register = torch.randn(5, 16) * 30
    assert torch.allclose(torch.sigmoid(controller.share_logit(register)), torch.tensor(1 / 3))
    assert torch.allclose(controller.recovery_scale(register), torch.sigmoid(torch.tensor(1.5)))


def test_readouts_are_affine_in_the_register() -> None:
    controller = Controller(6)
    torch.nn.init.normal_(controller.allocation.weight)
    torch.nn.init.normal_(controller.recovery.weight)
    register = torch.randn(4, 6, requires_grad=True)
    logit, scale = controller.share_logit(register), controller.recovery_scale(register)
    for image in range(4):
        row = register[image].tolist()
        w, u = controller.allocation.weight[0].tolist(), controller.recovery.weight[0].tolist()
        g = sum(a * b for a, b in zip(w, row, strict=True)) + controller.allocation.bias.item()
        v = sum(a * b for a, b in zip(u, row, strict=True)) + controller.recovery.bias.item()
        assert logit[image].item() == pytest.approx(g, rel=1e-5, abs=1e-6)
        assert scale[image].item() == pytest.approx(1 / (1 + 2.718281828459045**-v), rel=1e-5)
    (gradient,) = torch.autograd.grad(logit.sum(), register)
    assert torch.equal(gradient, controller.allocation.weight.expand(4, 6))


@pytest.mark.parametrize("module_dtype", [torch.float32, torch.bfloat16])
def test_readouts_stay_in_float32(module_dtype: torch.dtype) -> None:
    controller = Controller(64)
    torch.nn.init.normal_(controller.allocation.weight)
    register = torch.randn(3, 64).bfloat16()
    controller = controller.to(module_dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logit = controller.share_logit(register)
        scale = controller.recovery_scale(register)
    assert logit.dtype == scale.dtype == torch.float32
    exact = register.double() @ controller.allocation.weight[0].double() + controller.allocation.bias.double()
    torch.testing.assert_close(logit.double(), exact.detach(), rtol=1e-5, atol=1e-5)


def test_a_readout_has_the_same_bits_in_any_batch() -> None:
    controller = Controller(96)
    torch.nn.init.normal_(controller.allocation.weight)
    register = torch.randn(13, 96)
    whole = controller.share_logit(register)
    for image in range(13):
        assert torch.equal(controller.share_logit(register[image : image + 1]), whole[image : image + 1])


def test_without_recovery_there_is_no_scale() -> None:
    controller = Controller(8, recovery=False)
    assert controller.recovery is None
    with pytest.raises(ValueError, match="recovery"):
        controller.recovery_scale(torch.zeros(1, 8))


def test_weights_survive_a_state_dict() -> None:
    source, target = Controller(8, tasks=("cls", "seg")), Controller(8, tasks=("cls", "seg"))
    target.load_state_dict(source.state_dict())
    assert torch.equal(source.initial("cls", 2), target.initial("cls", 2))
    assert sorted(source.state_dict()) == [
        "allocation.bias",
        "allocation.weight",
        "recovery.bias",
        "recovery.weight",
        "registers.cls",
        "registers.seg",
    ]
