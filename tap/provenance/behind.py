"""Which code is behind each kind of job: where the fingerprint that a workflow rule carries starts from.

The registries of tasks and methods choose a module by its name. They are not followed, or every job would depend on
every method; what they choose is named here instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tap.config.methods import DENSE, PRETRAINING, TAUGHT
from tap.errors import UserError
from tap.provenance.fingerprint import code_fingerprint, module_exists
from tap.task_facts import DATASETS, TASKS

COMPUTING: Final = ("numpy", "safetensors", "timm", "torch", "torchvision")
TABULATING: Final = ("numpy", "pandas")
DRAWING: Final = ("matplotlib", "seaborn")

PREPARED: Final = {data.name: data.preparing for data in DATASETS.values() if data.preparing}
"""Datasets that the workflow fetches, with the module whose `prepare` does."""
CHECKED: Final = {data.name: data.checking for data in DATASETS.values() if data.checking}
"""A person's own datasets, with the module whose `check` looks at them."""


def is_built(task: str) -> bool:
    """Whether this project has the pipeline of a task yet."""
    return module_exists(TASKS[task].module)


def code_of_data(name: str) -> str:
    """Fingerprint of what prepares a dataset, or checks one that is a person's own; of nothing where neither can be."""
    module = {**PREPARED, **CHECKED}.get(name)
    return "" if module is None else code_fingerprint([module])


def code_of_training(task: str, method: str) -> str:
    """Fingerprint of what trains a method on a task (`mae` is the pre-training).

    Raises:
        UserError: the task or the method is not built yet.
    """
    return code_fingerprint(["tap.engine.job", *_model(task, method)], [*COMPUTING, *TASKS[task].libraries])


def code_of_evaluation(task: str, method: str) -> str:
    """Fingerprint of what evaluates and profiles a method on a task.

    Raises:
        UserError: the task or the method is not built yet.
    """
    return code_fingerprint(["tap.studies.evaluation", *_model(task, method)], [*COMPUTING, *TASKS[task].libraries])


def code_of_picture(task: str, method: str) -> str:
    """Fingerprint of what draws the picture of a run.

    Raises:
        UserError: the task or the method is not built yet.
    """
    modules = ["tap.studies.picture", *filter(None, [TASKS[task].drawing]), *_model(task, method)]
    return code_fingerprint(modules, [*COMPUTING, *TASKS[task].libraries, "matplotlib"])


def code_of_endpoint(task: str, methods: Sequence[str]) -> str:
    """Fingerprint of what chooses a task's endpoint with some methods.

    Raises:
        UserError: the task or a method is not built yet.
    """
    modules = [module for method in methods for module in _model(task, method)]
    return code_fingerprint(["tap.studies.endpoint", *modules], [*COMPUTING, *TASKS[task].libraries])


def code_of_probe(task: str) -> str:
    """Fingerprint of what probes a task's no-pruning checkpoints.

    Raises:
        UserError: the task is not built yet.
    """
    return code_fingerprint(["tap.studies.probes", *_model(task, DENSE)], [*COMPUTING, *TASKS[task].libraries])


def code_of_gathering() -> str:
    """Fingerprint of what makes the tidy table."""
    return code_fingerprint(["tap.paper.tidy"], TABULATING)


def code_of_gathering_probes() -> str:
    """Fingerprint of what makes the tidy table of probes."""
    return code_fingerprint(["tap.paper.tidy_probes"], TABULATING)


def code_of_figures() -> str:
    """Fingerprint of what draws the paper's figures."""
    return code_fingerprint(["tap.paper.figures.registry"], [*TABULATING, *DRAWING])


def code_of_tables() -> str:
    """Fingerprint of what makes the paper's tables."""
    return code_fingerprint(["tap.paper.tables.registry"], TABULATING)


def code_of_audit() -> str:
    """Fingerprint of what audits the paper's claims."""
    return code_fingerprint(["tap.paper.audit.job"], [*TABULATING, "jinja2"])


def code_of_headline() -> str:
    """Fingerprint of what makes the numbers that stand for a scale."""
    return code_fingerprint(["tap.paper.headline"], TABULATING)


def _model(task: str, method: str) -> Sequence[str]:
    """The pipeline of a task and what registers its method, without what tables say of it."""
    if not is_built(task):
        raise UserError(f"task: '{task}' is not built yet; leave it out of `tasks` in params.yaml")
    pipeline = TASKS[task].pipeline
    if method == PRETRAINING:
        return ("tap.tasks.pretraining.task", pipeline, f"tap.reducers.{DENSE}:METHOD")
    if not module_exists(f"tap.reducers.{method}"):
        raise UserError(f"method: '{method}' is not built yet; leave it out of tasks.{task}.methods")
    methods = (method, DENSE) if method in TAUGHT else (method,)
    return (pipeline, *(f"tap.reducers.{name}:METHOD" for name in methods))
