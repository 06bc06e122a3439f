"""Two processes train what one does: the same task in a step, half of its batch each."""

import os
from multiprocessing import get_context

import pytest
import torch
from joint_views import TASKS, View
from test_joint_training import TinyTask, settings
from tiny_models import tiny_encoder
from toy_task import toy_spec

from tap.encoder.low_rank import add_low_rank
from tap.engine.distributed import join_processes
from tap.engine.joint import Member, train_joint
from tap.engine.resume import ResumeStates
from tap.tasks.joint import JointModel

STEPS = 6


class Dense(View):
    """Keep rate 1, where a step draws nothing, so that halves of a batch can be compared with the whole."""

    def __init__(self, task):
        super().__init__(task)
        vit = tiny_encoder("tap", 1.0, settings={"task": task, "dense": task != "cls"}, **TASKS[task])
        if TASKS[task]["reads"]:
            vit.vit.norm = vit.vit.fc_norm = torch.nn.Identity()
        add_low_rank(vit.vit, rank=2, alpha=2.0)
        self.encoder = vit


def model():
    views = {}
    for task in TASKS:
        torch.manual_seed(3)
        views[task] = Dense(task)
    first = views["cls"].encoder.vit.state_dict()
    for view in views.values():
        own = view.encoder.vit.state_dict()
        view.encoder.vit.load_state_dict(
            {n: first[n] if n in first and first[n].shape == v.shape else v for n, v in own.items()}
        )
    return JointModel(views)


def trained(folder, processes):
    members = {task: Member(TinyTask(task), toy_spec(batch_size=4)) for task in TASKS}
    joint = model()
    states = ResumeStates(folder, {"processes": processes.world_size}, print)
    config = settings(length=STEPS, log_steps=1)
    found = train_joint("joint", members, joint, joint.views, config, 5, 13, states, processes, torch.device("cpu"))
    return found.rows, {name: value.clone() for name, value in found.tensors.items()}


def work(rank, world, port, folder, results):
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    with join_processes("cpu") as processes:
        rows, tensors = trained(folder, processes)
        results.put((world, rank, rows, {name: value.tolist() for name, value in tensors.items()}))


@pytest.mark.slow
def test_two_processes_have_the_losses_and_the_weights_of_one(tmp_path):
    context = get_context("spawn")
    results = context.Queue()
    found = {}
    for world in (1, 2):
        store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        port = store.port
        del store
        workers = [
            context.Process(target=work, args=(rank, world, port, tmp_path / str(world), results))
            for rank in range(world)
        ]
        for worker in workers:
            worker.start()
        found |= {(given[0], given[1]): given[2:] for given in (results.get(timeout=300) for _ in workers)}
        for worker in workers:
            worker.join()
    (whole, alone), (rows, first), (_, second) = found[1, 0], found[2, 0], found[2, 1]
    assert [sorted(name for name in row if name.endswith(".share")) for row in rows] == [
        sorted(name for name in row if name.endswith(".share")) for row in whole
    ]
    assert [row["loss"] for row in rows] == pytest.approx([row["loss"] for row in whole], abs=1e-5)
    assert first == second
    for name, value in alone.items():
        torch.testing.assert_close(torch.tensor(first[name]), torch.tensor(value), rtol=1e-3, atol=1e-4)
