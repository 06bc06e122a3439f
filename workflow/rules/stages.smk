# The coarse stages of dvc.yaml (tap/provenance/stages.py) as groups of targets: `snakemake stage_base`, for example.
from tap.provenance.stages import STAGES


def targets_of(stage):
    """What the jobs of all kinds make for a stage; tables and figures where a reader looks."""
    if stage == "tables":
        return all_results()
    kinds = ((kind, kind.stages(CFG).get(stage, ())) for kind in JOBS.values())
    return [
        str(file)
        for kind, keys in kinds
        for key in keys
        for file in kind.made(CFG, key)
    ]


for stage in STAGES:

    rule:
        name:
            f"stage_{stage.name}"
        input:
            targets_of(stage.name),
