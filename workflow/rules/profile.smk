# Profiles of this machine, apart from trainings and evaluations: `snakemake profile`. Another machine's stand beside them.
from tap.jobs.kinds.profile import key_here


rule profile:
    input:
        lambda _: [
            makes("profile", "profile").format(**key_here(CFG, task)._asdict())
            for task in BUILT_TASKS
        ],


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
        f"tap profile {{wildcards.task}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"
