"""Own images, own ViT: fine-tunes a timm model under TAP and saves it with a model card.

    python examples/own_images.py <folder> [--model vit_small_patch16_224.augreg_in21k_ft_in1k --pretrained]

The folder holds `train/<class>/*.jpg` and `val/<class>/*.jpg`.
"""

import argparse

import timm
import torch
from timm.data import create_dataset, create_transform, resolve_data_config
from timm.optim import create_optimizer_v2
from torch.utils.data import DataLoader

import tap


def main() -> None:
    """Trains, evaluates and saves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--model", default="vit_small_patch16_224")
    parser.add_argument("--pretrained", action="store_true", help="timm's weights, fetched over the network")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--keep-rate", type=float, default=0.5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--out", default="own_model")
    args = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    images = {split: create_dataset("", args.folder, split) for split in ("train", "val")}
    classes = len(images["train"].reader.class_to_idx)
    vit = timm.create_model(args.model, args.pretrained, num_classes=classes, img_size=args.image_size)
    model = tap.wrap(vit, keep_rate=args.keep_rate).to(device)
    config = resolve_data_config({"img_size": args.image_size}, model=model)
    for split, data in images.items():
        data.transform = create_transform(**config, is_training=split == "train")
    loader = DataLoader(images["train"], args.batch, shuffle=True)
    optimizer = create_optimizer_v2(model, "adamw", lr=5e-4, weight_decay=0.05, layer_decay=0.75)
    steps = args.epochs * len(loader)
    for step, (batch, target) in enumerate(pair for _ in range(args.epochs) for pair in loader):
        model.train().set_progress(step / steps)
        loss = torch.nn.functional.cross_entropy(model(batch.to(device)), target.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    model.eval()
    with torch.inference_mode():
        right = sum(
            (model(batch.to(device)).argmax(dim=1).cpu() == target).sum().item()
            for batch, target in DataLoader(images["val"], args.batch)
        )
    top1 = f"top-1 {100 * right / len(images['val']):.1f} % of {len(images['val'])} images"
    print(top1)
    model.save_pretrained(args.out, data=f"{args.folder}, {len(images['train'])} training images; {top1}")


if __name__ == "__main__":
    main()
