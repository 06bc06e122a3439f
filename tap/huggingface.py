"""Vision Transformers of Hugging Face's `transformers` as timm's, and their weights back.

Tensors are matched by name in the layout of `transformers` 5 (`layers.0.attention.q_proj`). The package itself is not
needed: a model is known by the name of its class.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import torch
from timm.layers import DropPath
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from tap.errors import UserError
from tap.vision_transformer import TapVisionTransformer

_BODIES = {
    "ViTModel": "",
    "ViTForImageClassification": "vit.",
    "Dinov2Model": "",
    "Dinov2WithRegistersModel": "",
}
"""Classes that can be converted, with what the names of the body's tensors begin with."""

_ACTIVATIONS = {"gelu": nn.GELU, "gelu_new": partial(nn.GELU, approximate="tanh"), "relu": nn.ReLU, "silu": nn.SiLU}

_OUTSIDE = {
    "embeddings.cls_token": "cls_token",
    "embeddings.register_tokens": "reg_token",
    "embeddings.patch_embeddings.projection.weight": "patch_embed.proj.weight",
    "embeddings.patch_embeddings.projection.bias": "patch_embed.proj.bias",
    "embeddings.position_embeddings": "pos_embed",
    "layernorm.weight": "norm.weight",
    "layernorm.bias": "norm.bias",
    "classifier.weight": "head.weight",
    "classifier.bias": "head.bias",
}
_INSIDE = {
    "layernorm_before": "norm1",
    "layernorm_after": "norm2",
    "norm1": "norm1",
    "norm2": "norm2",
    "attention.o_proj": "attn.proj",
    "layer_scale1": "ls1",
    "layer_scale2": "ls2",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
}
_LAYER = re.compile(r"^(?:encoder\.)?layers?\.(\d+)\.(.+)\.(weight|bias|lambda1)$")
_UNUSED = ("pooler.", "embeddings.mask_token")
"""What a forward pass to the last hidden state does not read."""


def is_huggingface(model: nn.Module) -> bool:
    """Whether a module comes from `transformers`."""
    return type(model).__module__.startswith("transformers.")


def from_huggingface(model: nn.Module, image_size: tuple[int, int] | None = None) -> VisionTransformer:
    """A timm ViT with the configuration and a copy of the weights of a Hugging Face model.

    The pooler of `ViTModel` (a linear layer and a tanh) is left behind: pooled features are the class token of the last
    hidden state. A classifier becomes the head.

    Args:
        model: the Hugging Face model.
        image_size: height and width of the images, fixed; None takes the configuration's. Positions are resized by the
            model's own rule, which is not timm's.

    Raises:
        UserError: another class, another layout of tensors, or parts that timm's block does not have.
    """
    prefix, config = _prefix(model), _config(model)
    if getattr(config, "use_swiglu_ffn", False):
        raise UserError("model: DINOv2's SwiGLU layers cannot be converted; take timm's vit_giant_patch14_reg4_dinov2")
    activation = _ACTIVATIONS.get(config.hidden_act)
    if activation is None:
        raise UserError(f"model: hidden_act '{config.hidden_act}' is not known; known: {', '.join(_ACTIVATIONS)}")
    width = config.hidden_size
    hidden = getattr(config, "intermediate_size", None)
    registers = getattr(config, "num_register_tokens", 0)
    state = dict(model.state_dict())
    size = _pair(config.image_size) if image_size is None else image_size
    if size != _pair(config.image_size):
        state[f"{prefix}embeddings.position_embeddings"] = _resized(model.get_submodule(f"{prefix}embeddings"), size)
    tensors = _to_timm(state, prefix, registers)
    vit = VisionTransformer(
        img_size=size,
        patch_size=_pair(config.patch_size),
        in_chans=config.num_channels,
        num_classes=len(tensors["head.weight"]) if "head.weight" in tensors else 0,
        embed_dim=width,
        depth=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        mlp_ratio=config.mlp_ratio if hidden is None else hidden / width,
        qkv_bias=config.qkv_bias,
        init_values=1.0 if "blocks.0.ls1.gamma" in tensors else None,
        reg_tokens=registers,
        no_embed_class=registers > 0,
        pos_drop_rate=config.hidden_dropout_prob,
        proj_drop_rate=config.hidden_dropout_prob,
        attn_drop_rate=config.attention_probs_dropout_prob,
        norm_layer=partial(nn.LayerNorm, eps=config.layer_norm_eps),
        act_layer=activation,
    )
    for block in vit.blocks:  # one rate in all blocks, and no dropout behind the activation: not timm's rules
        block.drop_path1 = block.drop_path2 = DropPath(getattr(config, "drop_path_rate", 0.0))
        block.mlp.drop1 = nn.Identity()
    wanted = vit.state_dict()
    wrong = [name for name in wanted if name not in tensors or tensors[name].shape != wanted[name].shape]
    if wrong or set(tensors) - set(wanted):
        first = wrong[0] if wrong else sorted(set(tensors) - set(wanted))[0]
        raise UserError(f"model: {type(model).__name__} has no plain ViT's tensors (first: {first}); wrap timm's model")
    vit.load_state_dict(tensors)
    weight = tensors["patch_embed.proj.weight"]
    return vit.to(weight.device, weight.dtype).train(model.training)


def to_huggingface(model: TapVisionTransformer | VisionTransformer, target: nn.Module) -> nn.Module:
    """Writes a ViT's weights into a Hugging Face model of the same sizes; registers of TAP have no place there.

    Args:
        model: what `wrap` or `from_huggingface` made, trained since.
        target: the model that receives them, in place.

    Returns:
        `target`.

    Raises:
        UserError: the sizes do not fit (nothing is written then).
    """
    prefix = _prefix(target)
    registers = getattr(_config(target), "num_register_tokens", 0)
    if isinstance(model, TapVisionTransformer):
        own = dict(model.encoder.vit.state_dict())
        own |= {f"head.{name}": value for name, value in model.head.state_dict().items()}
    else:
        own = dict(model.state_dict())
    state = target.state_dict()
    if registers:
        # Public DINOv2 gives its registers no position and its class token one; timm stores only the sum.
        name = f"{prefix}embeddings.position_embeddings"
        own["cls_token"] = own["cls_token"] - state[name][:, :1].to(own["cls_token"])
        own["pos_embed"] = torch.cat([state[name][:, :1].to(own["pos_embed"]), own["pos_embed"]], dim=1)
    written = {}
    for name, value in state.items():
        plain = _timm_name(name, prefix)
        if plain is None:
            continue
        source, part = plain
        found = own.get(source)
        if found is not None and part is not None:
            found = found.chunk(3)[part]
        if found is None or found.shape != value.shape:
            raise UserError(
                f"target: {name} {tuple(value.shape)} has no counterpart in the model; give one of its sizes"
            )
        written[name] = found
    target.load_state_dict(state | written)
    return target


def _resized(embeddings: Any, size: tuple[int, int]) -> Tensor:
    """The position table of another image size, as the model computes it in every pass."""
    down, across = _pair(embeddings.patch_size)
    if size[0] % down or size[1] % across:
        raise UserError(f"image_size: {size[0]}x{size[1]} pixels are not multiples of the patch {down}x{across}")
    positions = embeddings.position_embeddings
    like = positions.new_zeros(1, 1 + (size[0] // down) * (size[1] // across), positions.shape[2])
    with torch.no_grad():
        return embeddings.interpolate_pos_encoding(like, *size)


def _to_timm(state: dict[str, Tensor], prefix: str, registers: int) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    fused: dict[str, dict[int, Tensor]] = {}
    for name, value in state.items():
        plain = _timm_name(name, prefix)
        if plain is None:
            continue
        target, part = plain
        if part is None:
            tensors[target] = value.clone()
        else:
            fused.setdefault(target, {})[part] = value
    tensors |= {name: torch.cat([parts[part] for part in range(3)]) for name, parts in fused.items()}
    if registers:  # their positions are none, so timm keeps the class token's in the token itself
        positions = tensors["pos_embed"]
        tensors["cls_token"] = tensors["cls_token"] + positions[:, :1]
        tensors["pos_embed"] = positions[:, 1:]
    return tensors


def _timm_name(name: str, prefix: str) -> tuple[str, int | None] | None:
    """timm's name of a tensor, with its third of the fused projection; None for what is not needed.

    Raises:
        UserError: the name is of another layout.
    """
    short = name.removeprefix(prefix)
    if short.startswith(_UNUSED):
        return None
    if short in _OUTSIDE:
        return _OUTSIDE[short], None
    match = _LAYER.match(short)
    if match is not None:
        layer, part, kind = match.groups()
        kind = "gamma" if kind == "lambda1" else kind
        if part in ("attention.q_proj", "attention.k_proj", "attention.v_proj"):
            return f"blocks.{layer}.attn.qkv.{kind}", "qkv".index(part[len("attention.")])
        if part in _INSIDE:
            return f"blocks.{layer}.{_INSIDE[part]}.{kind}", None
    raise UserError(
        f"model: '{name}' is no tensor of the layout of transformers 5; update transformers, or wrap timm's"
    )


def _prefix(model: nn.Module) -> str:
    name = type(model).__name__
    if name not in _BODIES:
        raise UserError(f"model: Hugging Face's {name} cannot be wrapped; give one of {', '.join(_BODIES)}")
    return _BODIES[name]


def _config(model: nn.Module) -> Any:
    return model.config


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)
