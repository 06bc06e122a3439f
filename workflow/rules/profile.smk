# Profiles of this machine, apart from trainings and evaluations: `snakemake profile`. Another machine's stand beside them.
from tap.jobs.code_roots import built
from tap.jobs.kinds.growth import growth_here
from tap.jobs.kinds.profile import key_here
from tap.plan.profiles import shapes_of


rule profile:
    input:
        lambda _: [
            makes("profile", "profile").format(
                **key_here(CFG, task, shapes=shapes)._asdict()
            )
            for shapes in shapes_of(CFG)
            for task in built(CFG)
        ],
        lambda _: makes("growth", "growth").format(**growth_here(CFG)._asdict()),


rule profile_task:
    input:
        remade=remade("profile_task"),
    output:
        profile=makes("profile", "profile"),
        record=makes("profile", "record"),
    log:
        f"{LOGS}/profile/{{device}}/{{shapes}}/{{task}}.log",
    # All cores: a speed that is measured beside a training means nothing.
    threads: threads("profile")
    resources:
        gpu=takes("profile", "gpus"),
        mem_mb=takes("profile", "memory_mb"),
        runtime=takes("profile", "minutes"),
    params:
        spec=spec("profile"),
        code=code("profile"),
    message:
        "Profile {wildcards.task} on {wildcards.device}"
    shell:
        f"tap profile {{wildcards.task}} --shapes {{wildcards.shapes}} --scale {SCALE} --spec {{params.spec:q}} 2>&1"
        f" | tee {{log}}"


rule growth:
    input:
        remade=remade("growth"),
    output:
        growth=makes("growth", "growth"),
        record=makes("growth", "record"),
    log:
        f"{LOGS}/profile/{{device}}/{{shapes}}/growth.log",
    threads: threads("growth")
    resources:
        gpu=takes("growth", "gpus"),
        mem_mb=takes("growth", "memory_mb"),
        runtime=takes("growth", "minutes"),
    params:
        spec=spec("growth"),
        code=code("growth"),
    message:
        "Profile growth on {wildcards.device}"
    shell:
        f"tap growth --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"
