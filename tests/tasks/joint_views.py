"""A joint model of three tiny tasks: a classifier, a dense one on a larger grid, and one on a ViTDet trunk."""

from tiny_models import tiny_encoder, tiny_images
from torch import nn

from tap.encoder.low_rank import add_low_rank, is_low_rank
from tap.tasks.joint import JointModel

TASKS = {
    "cls": {"reads": ()},
    "seg": {"reads": (2, 4), "grid": (6, 6)},
    "det": {"reads": (4,), "window": 2, "global_blocks": (2, 3), "relative": True},
}


class View(nn.Module):
    """Encoder and a head that reads what the task has: the class token, or the last grid."""

    def __init__(self, task):
        super().__init__()
        self.encoder = tiny_encoder("tap", 0.5, settings={"task": task, "dense": task != "cls"}, **TASKS[task])
        if TASKS[task]["reads"]:  # as the pipelines of dense tasks: the final norm is for classifiers
            self.encoder.vit.norm = self.encoder.vit.fc_norm = nn.Identity()
        add_low_rank(self.encoder.vit, rank=2, alpha=2.0)
        self.head = nn.Linear(16, 3)

    def forward(self, images, sample_ids=None):
        output = self.encoder(images, sample_ids)
        return self.head(output.grids[-1] if output.grids else self.encoder.pool(output))


def joint(tasks=tuple(TASKS), **ownership):
    views = {task: View(task) for task in tasks}
    first = views["cls"].encoder.vit.state_dict()
    for view in views.values():
        own = view.encoder.vit.state_dict()
        fitting = {n: v for n, v in first.items() if n in own and own[n].shape == v.shape and not is_low_rank(n)}
        view.encoder.vit.load_state_dict({**own, **fitting})
    return JointModel(views, **ownership)


def images_of(model, task):
    return tiny_images(model.view(task).encoder, seed=3)
