"""Models in Hugging Face's folder format: `model.safetensors`, `config.json` and a model card `README.md`.

The configuration holds all that the architecture needs, whatever the model was made from, so that a folder can be read
without the weights, the name or the package that it came from.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from safetensors.torch import save_file
from timm.layers import LayerNorm
from timm.layers.layer_scale import LayerScale
from timm.layers.mlp import Mlp
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from tap.config.methods import METHODS
from tap.config.options import OPTIONS
from tap.core.budget import keep_count
from tap.encoder.recovery_buffer import RecoverySettings
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.weights import read_tensors
from tap.errors import UserError
from tap.provenance.files import atomic_write
from tap.reducers.base import FixedSchedule, ReducerSettings
from tap.reducers.registry import get

Model = TypeVar("Model", bound=nn.Module)
WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"

_ACTIVATIONS: Final = {"GELU": "gelu", "GELUTanh": "gelu_tanh", "QuickGELU": "quick_gelu", "SiLU": "silu"}
_SHOWN = ("mean", "std", "interpolation", "crop_pct", "crop_mode")
"""What whoever prepares images for the model must know."""


def save_pretrained(
    model: Any,
    folder: str | Path,
    data: str | None = None,
    scale: str | None = None,
    speed: str | None = None,
    limits: str | None = None,
    license: str | None = None,
    overwrite: bool = False,
) -> None:
    """Writes weights, configuration and model card.

    Args:
        model: a `TapVisionTransformer`.
        folder: where to; is made if need be.
        data: what the model was trained on and what was measured with it, for the card.
        scale: the scale of that training (`smoke`, `desk`, `paper`, or one's own words).
        speed: measured throughput, with device, batch and kernel.
        limits: what the model should not be used for.
        license: of the weights, by Hugging Face's short name.
        overwrite: whether files that are there may be replaced.

    Raises:
        UserError: the folder holds such files already, or a part of the model has no description.
    """
    folder = Path(folder)
    there = [name for name in (WEIGHTS, CONFIG, CARD) if (folder / name).exists()]
    if there and not overwrite:
        raise UserError(f"{folder / there[0]}: is there already; give another folder, or overwrite=True")
    config = describe(model)
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    atomic_write(folder / WEIGHTS, lambda path: save_file(tensors, path, metadata={"format": "pt"}))
    atomic_write(folder / CONFIG, json.dumps(config, indent=2) + "\n")
    atomic_write(folder / CARD, card(model, data, scale, speed, limits, license))


def read_pretrained(folder: str | Path, kind: Callable[..., Model]) -> Model:
    """The model of a folder that `save_pretrained` wrote, in evaluation mode.

    Args:
        folder: the folder; `huggingface_hub.snapshot_download` makes one of a repository.
        kind: the model's class, which takes encoder, classes, task and steps to anneal over.

    Raises:
        UserError: a file is missing or damaged, or is not of such a model.
    """
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise UserError(f"{folder / CONFIG}: there is no such file; give a folder that save_pretrained wrote")
    try:
        config = json.loads((folder / CONFIG).read_text())
        model = rebuild(config, kind)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"{folder / CONFIG}: describes no TAP model ({error}); save the model anew") from error
    tensors = read_tensors(folder / WEIGHTS)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip()
        raise UserError(f"{folder / WEIGHTS}: does not fit {CONFIG} ({reason}); save the model anew") from error
    return model.eval()


def describe(model: Any) -> dict[str, Any]:
    """All that `rebuild` needs, as plain values.

    Raises:
        UserError: the ViT has parts that no argument of timm's constructor describes.
    """
    reducer, vit = model.encoder.reducer, model.encoder.vit
    settings = asdict(reducer.settings) | {"options": None}
    if reducer.settings.options is not None:
        settings["options"] = reducer.settings.options.model_dump(mode="json")
    config = {
        "architectures": [type(model).__name__],
        "library_name": "tap-vit",
        "method": reducer.name,
        "task": model.task,
        "num_classes": model.num_classes,
        "anneal_steps": model.anneal_steps,
        "recovery": asdict(model.encoder.recovery),
        "settings": settings,
        "vit": _describe_vit(vit),
        "pretrained_cfg": {key: model.pretrained_cfg[key] for key in _SHOWN if key in model.pretrained_cfg},
    }
    with torch.device("meta"):
        again = rebuild(json.loads(json.dumps(config)), type(model))
    wanted = {name: value.shape for name, value in model.state_dict().items()}
    found = {name: value.shape for name, value in again.state_dict().items()}
    if wanted != found:
        name = sorted(set(wanted.items()) ^ set(found.items()))[0][0]
        raise UserError(f"save_pretrained: '{name}' is no part of a plain timm ViT and would be lost; save its weights")
    return config


def rebuild(config: dict[str, Any], kind: Callable[..., Model]) -> Model:
    """The model of a description, with random weights."""
    vit = dict(config["vit"])
    norm, act = partial(LayerNorm, eps=vit.pop("norm_eps")), vit.pop("act_layer")
    trunk = VisionTransformer(**_tuples(vit), num_classes=0, norm_layer=norm, act_layer=act)
    given = dict(config["settings"])
    if given["options"] is not None:
        given["options"] = OPTIONS[config["method"]](**given["options"])
    reducer = get(config["method"])(ReducerSettings(**_tuples(given)))
    encoder = SparseEncoder(trunk, reducer, recovery=RecoverySettings(**config["recovery"]))
    model: Any = kind(encoder, config["num_classes"], config["task"], config["anneal_steps"])
    model.pretrained_cfg |= _tuples(config["pretrained_cfg"])
    return model


def card(
    model: Any,
    data: str | None = None,
    scale: str | None = None,
    speed: str | None = None,
    limits: str | None = None,
    license: str | None = None,
) -> str:
    """The model card: what it is, what it was trained on, what it keeps, how fast it is, what it is not for."""
    reducer, vit = model.encoder.reducer, model.encoder.vit
    rows, columns = vit.patch_embed.grid_size
    patches, size = rows * columns, "x".join(map(str, vit.patch_embed.img_size))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    front = [
        "---",
        "library_name: tap-vit",
        f"license: {license}" if license else "",
        "tags:",
        "- token-pruning",
        "---",
    ]
    lines = [
        *(line for line in front if line),
        f"# {METHODS[reducer.name].row.title} on a Vision Transformer of {len(vit.blocks)} blocks",
        "",
        "```python",
        "import tap",
        "",
        'model = tap.from_pretrained("<this folder>")',
        "logits = model(images)  # (B, 3, H, W), normalised as config.json says",
        "```",
        "",
        f"- **Data**: {data or 'not stated.'}",
        f"- **Scale**: {scale or 'not stated.'}",
        f"- **Task**: {model.task}, {model.num_classes} classes.",
        f"- **Keep rate**: {model.keep_rate}.",
        f"- **Counts**: {_counts(model, patches)} Images of {size} pixels.",
        f"- **Parameters**: {parameters:,}, of which {reducer.added_parameters():,} are the method's.",
        f"- **Speed**: {speed or 'not measured.'}",
        f"- **Limits**: {limits or 'not stated.'}",
    ]
    return "\n".join(lines) + "\n"


def _counts(model: Any, patches: int) -> str:
    reducer, kept = model.encoder.reducer, keep_count(patches, model.keep_rate)
    if reducer.method.calibrated:
        return (
            f"differ from image to image; the threshold decides, and {kept} of {patches} patches are meant on average."
        )
    text = f"{kept} of {patches} patches reach the last block in every image."
    if isinstance(reducer, FixedSchedule):
        left = ", ".join(map(str, reducer.schedule(patches)))
        return f"{text} Left after blocks {', '.join(map(str, reducer.settings.layers))}: {left}."
    return text


def _describe_vit(vit: Any) -> dict[str, Any]:
    block = vit.blocks[0]
    norm = vit.norm if not isinstance(vit.norm, nn.Identity) else vit.fc_norm
    activation = "gelu_tanh" if getattr(block.mlp.act, "approximate", "none") == "tanh" else None
    activation = activation or _ACTIVATIONS.get(type(block.mlp.act).__name__)
    if type(block.mlp) is not Mlp or activation is None or not isinstance(block.norm1, nn.LayerNorm):
        parts = ", ".join(type(part).__name__ for part in (block.mlp, block.mlp.act, block.norm1))
        raise UserError(f"save_pretrained: blocks of {parts} have no description; save their weights instead")
    return {
        "img_size": list(vit.patch_embed.img_size),
        "patch_size": list(vit.patch_embed.patch_size),
        "in_chans": vit.in_chans,
        "global_pool": vit.global_pool,
        "embed_dim": vit.embed_dim,
        "depth": len(vit.blocks),
        "num_heads": block.attn.num_heads,
        "mlp_ratio": block.mlp.fc1.out_features / vit.embed_dim,
        "qkv_bias": block.attn.qkv.bias is not None,
        "qk_norm": not isinstance(block.attn.q_norm, nn.Identity),
        "proj_bias": block.attn.proj.bias is not None,
        "init_values": 1e-5 if isinstance(block.ls1, LayerScale) else None,
        "class_token": vit.has_class_token,
        "pos_embed": "none" if vit.pos_embed is None else "learn",
        "no_embed_class": vit.no_embed_class,
        "reg_tokens": vit.num_reg_tokens,
        "pre_norm": not isinstance(vit.norm_pre, nn.Identity),
        "final_norm": not isinstance(norm, nn.Identity),
        "fc_norm": not isinstance(vit.fc_norm, nn.Identity),
        "pool_include_prefix": vit.pool_include_prefix,
        "dynamic_img_size": vit.dynamic_img_size,
        "norm_eps": block.norm1.eps,
        "act_layer": activation,
    }


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
