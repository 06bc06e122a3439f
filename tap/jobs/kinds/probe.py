"""A controlled probe of a task's no-pruning checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from tap.config.load import load_scale
from tap.config.methods import DENSE
from tap.config.scale import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.arguments import ScaleOption, SpecOption, TaskArgument
from tap.jobs.code_roots import built
from tap.jobs.files import data_evidence, weights
from tap.jobs.job import Content, Job, Resources, evaluating_long
from tap.plan.runs import probe_folder, probed_runs, probes_of
from tap.plan.specs import probe_parameters
from tap.task_facts import TASKS

PROBE_FOLDER = "results/{scale}/probes/{task}/{kind}"
_FUNCTIONS: Final = {"layers": "run_layer_probe", "recovery": "run_recovery_probe"}
_ABOUT: Final = {
    "layers": "Prune each eligible block in turn by each criterion, without training.",
    "recovery": "Compare full offset and stand-in alone at each eligible block of a dense task, over the seeds.",
}


class ProbeKey(NamedTuple):
    """Which probe.

    Attributes:
        task: whose checkpoints.
        kind: `layers` (criteria at every block) or `recovery` (endpoints).
    """

    task: str
    kind: str


class Probe(Job[ProbeKey]):
    """Prunes one block of a frozen checkpoint after the other."""

    name, command = "probe", "probe"
    about = "Prune one block of the no-pruning checkpoints after the other, without training."
    makes: ClassVar[Mapping[str, str]] = {
        "values": f"{PROBE_FOLDER}/values.csv",
        "per_sample": f"{PROBE_FOLDER}/per_sample.npz",
        "record": f"{PROBE_FOLDER}/probe.json",
    }

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> ProbeKey:
        """Task and kind."""
        return ProbeKey(wildcards["task"], wildcards["kind"])

    def fields(self, cfg: ScaleConfig, key: ProbeKey) -> Sequence[Mapping[str, str]]:
        """Task and kind."""
        return [key._asdict()]

    def argument(self, key: ProbeKey) -> str:
        """Kind and task."""
        return f"{key.kind} {key.task}"

    def key_of_record(self, cfg: ScaleConfig, content: Content) -> ProbeKey:
        """Task and kind that a record names."""
        return ProbeKey(str(content["parameters"]["task"]), str(content["parameters"]["kind"]))

    def settings(self, cfg: ScaleConfig, key: ProbeKey) -> Any:
        """Those of the probed runs and of the probes."""
        return probe_parameters(cfg, key.task, key.kind)

    def reads(self, cfg: ScaleConfig, key: ProbeKey) -> Mapping[str, Sequence[Path]]:
        """Data and weights; dense tasks read at the endpoint that their recovery probe prefers."""
        endpoint = TASKS[key.task].dense and key.kind == "layers"
        return {
            "data": [data_evidence(cfg, key.task)],
            "weights": [weights(run) for run in probed_runs(cfg, key.task, key.kind)],
            "endpoint": [probe_folder(cfg.scale, key.task, "recovery") / "values.csv"] if endpoint else [],
        }

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[ProbeKey]]:
        """Those of every task."""
        return {"probes": [ProbeKey(task, kind) for task in built(cfg) for kind in probes_of(task)]}

    def roots(self, cfg: ScaleConfig, key: ProbeKey) -> Sequence[str]:
        """The probes, the task, and no pruning."""
        return (f"tap.studies.probes:{_FUNCTIONS[key.kind]}", *code_roots.of_model(key.task, DENSE))

    def libraries(self, key: ProbeKey) -> tuple[str, ...]:
        """Those that compute."""
        return code_roots.computing_with(key.task)

    def resources(self, cfg: ScaleConfig, key: ProbeKey) -> Resources:
        """As an evaluation, for as long as eleven criteria at every block may take."""
        return evaluating_long(cfg, key.task)

    def call(self, kind: str = "layers") -> Callable[..., None]:
        """Takes the task."""

        def call(task: TaskArgument, scale: ScaleOption = None, spec: SpecOption = None) -> None:
            cfg = load_scale(scale)
            key = ProbeKey(task, kind)
            self.require_planned(cfg, key, spec)
            stamp = self.stamp(cfg, key)
            from tap.studies import probes

            print(getattr(probes, _FUNCTIONS[kind])(cfg, task, stamp))

        return call

    def commands(self) -> Mapping[str, tuple[str, Callable[..., None]]]:
        """One for each kind."""
        return {f"probe {kind}": (about, self.call(kind)) for kind, about in _ABOUT.items()}


JOB = Probe()
