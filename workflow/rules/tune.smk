# The search of methods' own settings on the calibration split: `snakemake tune`, and `snakemake tune_budget` for lengths.
# What it finds is put into the settings by a person (`tasks.<task>.chosen`), so no training waits for it.
from tap.jobs.code_roots import built


rule tune:
    input:
        [
            makes("tune", "result").format(task=task, search="options")
            for task in built(CFG)
        ],


rule tune_budget:
    input:
        [
            makes("tune", "result").format(task=task, search="budget")
            for task in built(CFG)
        ],


rule tune_task:
    input:
        LOOKED,
        data=reads("tune", "data"),
        start=reads("tune", "start"),
        remade=remade("tune_task"),
    output:
        result=makes("tune", "result"),
        values=makes("tune", "values"),
        record=makes("tune", "record"),
    log:
        f"{LOGS}/tune/{{task}}/{{search}}.log",
    threads: threads("tune")
    resources:
        gpu=takes("tune", "gpus"),
        mem_mb=takes("tune", "memory_mb"),
        runtime=takes("tune", "minutes"),
    params:
        key=argument("tune"),
        spec=spec("tune"),
        code=code("tune"),
    message:
        "Search {wildcards.search} of {wildcards.task}"
    shell:
        f"tap tune {{params.key}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"
