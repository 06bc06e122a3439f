# The coarse stages of dvc.yaml (tap/provenance/stages.py) as groups of targets: `snakemake stage_base`, for example.
from tap.provenance.stages import STAGES, stage_of


def trained_by(stage):
    """Weights of the runs that a stage trains."""
    runs = [run for task in BUILT_TASKS for run in trained_runs(task)]
    return [
        str(run.folder / "model.safetensors")
        for run in runs
        if stage_of(run.method) == stage
    ]


def trained_runs(task):
    """All trainings of a task."""
    own = CFG.tasks[task].pretrain.weights is None
    runs = dict.fromkeys(map(trained_run, runs_of_table(CFG, task)))
    return [*([pretraining_run(CFG, task)] if own else []), *runs]


STAGE_TARGETS = {
    "data": [str(data_evidence(CFG, task)) for task in BUILT_TASKS],
    "pretrain": trained_by("pretrain"),
    "base": trained_by("base"),
    "tap": trained_by("tap"),
    "baselines": trained_by("baselines"),
    "joint": trained_by("joint"),
    "evaluate": [
        *(str(file) for task in BUILT_TASKS for file in results_of_runs(CFG, task)),
        *(str(file) for task in BUILT_TASKS for file in files_of_controls(CFG, task)),
        *(str(run.folder / "picture.png") for run in pictured_runs()),
        *of_all(tasks_with_removals(), makes("kept_patches", "page")),
    ],
    "probes": [
        str(file) for task in BUILT_TASKS for file in results_of_probes(CFG, task)
    ],
    "tables": all_results(),
    "audit": [f"results/{SCALE}/audit/audit.html"],
    "verify": [],
}


for stage in STAGES:

    rule:
        name:
            f"stage_{stage.name}"
        input:
            STAGE_TARGETS[stage.name],
