"""Two processes agree on gradients and values, and on who goes first."""

import os
import time
from multiprocessing import get_context

import pytest
import torch
from torch import nn

from tap.engine.distributed import Processes, join_processes

# value, and the gradient that each of the two processes has for it (None for none)
CASES = {
    "both": (2.0, 4.0),
    "one": (None, 3.0),
    "neither": (None, None),
    "not finite": (float("nan"), 1.0),
}
MEANS = {"both": 3.0, "one": 1.5, "neither": None}


def work(rank, port, folder, results):
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    with join_processes("cpu") as processes:
        parameters = {name: nn.Parameter(torch.zeros(2, 3)) for name in CASES}
        parameters["half"] = nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))
        parameters["frozen"] = nn.Parameter(torch.zeros(1), requires_grad=False)
        for name, gradients in CASES.items():
            if gradients[rank] is not None:
                parameters[name].grad = torch.full((2, 3), gradients[rank])
        parameters["half"].grad = torch.full((2,), float(rank), dtype=torch.bfloat16)
        processes.average_gradients(parameters.values())
        averaged = {name: None if p.grad is None else p.grad.float().tolist() for name, p in parameters.items()}

        def visit():
            time.sleep(0.1 * (1 - rank))  # the first one would come last if nobody waited
            (folder / f"{time.monotonic_ns()}-{rank}").touch()
            return rank

        own = processes.first_then_others(visit)
        results.put((rank, processes, averaged, processes.mean(torch.tensor([rank, 2.0])).tolist(), own))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("visits")
    context = get_context("fork")
    results = context.Queue()
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    port = store.port
    del store
    workers = [context.Process(target=work, args=(rank, port, folder, results)) for rank in (0, 1)]
    for worker in workers:
        worker.start()
    found = sorted((results.get(timeout=60) for _ in workers), key=lambda result: result[0])
    for worker in workers:
        worker.join()
    return found, [path.name[-1] for path in sorted(folder.iterdir())]


def test_each_process_knows_its_place(outcome):
    assert [processes for _, processes, *_ in outcome[0]] == [Processes(0, 2, 0), Processes(1, 2, 1)]
    assert [processes.first for _, processes, *_ in outcome[0]] == [True, False]


def test_gradients_become_their_mean_and_absent_ones_stay_absent_only_if_nobody_has_one(outcome):
    for _, _, averaged, *_ in outcome[0]:
        for name, mean in MEANS.items():
            assert averaged[name] == (None if mean is None else [[mean] * 3] * 2)
        assert averaged["half"] == [0.5, 0.5]
        assert averaged["frozen"] is None


def test_a_gradient_that_is_not_finite_in_one_process_is_so_in_all(outcome):
    for _, _, averaged, *_ in outcome[0]:
        assert torch.tensor(averaged["not finite"]).isnan().all()


def test_values_are_averaged(outcome):
    assert [means for *_, means, _ in outcome[0]] == [[0.5, 2.0]] * 2


def test_the_first_process_goes_first_and_each_gets_its_own_result(outcome):
    assert outcome[1] == ["0", "1"]
    assert [own for *_, own in outcome[0]] == [0, 1]


def test_without_torchrun_there_is_one_process(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    parameter = nn.Parameter(torch.zeros(1))
    parameter.grad = torch.ones(1)
    with join_processes("cpu") as processes:
        assert processes == Processes(0, 1, 0)
        processes.average_gradients([parameter])
        assert parameter.grad == 1
        assert processes.first_then_others(lambda: "own") == "own"
        assert not torch.distributed.is_initialized()
