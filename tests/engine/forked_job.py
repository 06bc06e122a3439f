"""A training job of the toy task for processes that are forked from a server which has imported this and computed
nothing: a process in which gradients were computed may not be forked to compute some."""

import torch
from toy_task import ToyTask, toy_spec

from tap.engine.job import train_run


def forked_job() -> None:
    torch.set_num_threads(1)
    train_run(toy_spec(), ToyTask(pause=0.01))
