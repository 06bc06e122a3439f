# Data: fetched and verified by the workflow (desk, smoke), or a person's own, which is checked (paper).


rule prepare_data:
    input:
        remade=remade("prepare_data"),
    output:
        manifest="{root}/manifest.json",
        record="{root}/record.json",
    log:
        ".tap/logs/data/{root}.log",
    wildcard_constraints:
        root="|".join(map(re.escape, PREPARED_ROOTS)) or "none",
    params:
        task=lambda wildcards: PREPARED_ROOTS[wildcards.root],
        # No scale: desk and smoke share their data, and a switch between them must repeat nothing.
        code=lambda wildcards: behind.code_of_data(
            CFG.tasks[PREPARED_ROOTS[wildcards.root]].data.name
        ),
    message:
        "Prepare the data in {wildcards.root}"
    shell:
        f"tap data prepare {{params.task}} --scale {SCALE} 2>&1 | tee {{log}}"


rule check_data:
    input:
        remade=remade("check_data"),
    output:
        report=f"results/{SCALE}/data/{{task}}.json",
        record=f"results/{SCALE}/data/{{task}}.record.json",
    log:
        f"{LOG_FOLDER}/data/{{task}}.log",
    params:
        data=lambda wildcards: CFG.tasks[wildcards.task].data.model_dump_json(
            exclude={"workers"}
        ),
        code=lambda wildcards: behind.code_of_data(CFG.tasks[wildcards.task].data.name),
    message:
        "Check the data of {wildcards.task}"
    shell:
        f"tap data check {{wildcards.task}} --scale {SCALE} --report {{output.report}} 2>&1 | tee {{log}}"
