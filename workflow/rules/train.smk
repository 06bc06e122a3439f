# Training. A killed training goes on where it was: its states lie in .tap/resume, outside of what Snakemake deletes.


rule pretrain:
    input:
        data=data_of,
        remade=remade("pretrain"),
    output:
        weights=f"{RUN_FOLDER}/model.safetensors",
        log=f"{RUN_FOLDER}/log.csv",
        record=f"{RUN_FOLDER}/run.json",
    log:
        f"{LOG_FOLDER}/train/{{task}}/{{method}}/r{{rate}}/{{variant}}/s{{seed}}.log",
    wildcard_constraints:
        method=PRETRAINING,
    threads: training_threads
    resources:
        gpu=TRAINING_GPUS,
    params:
        run=run_id,
        spec=training_settings,
        code=training_code,
    message:
        "Pre-train {params.run}"
    shell:
        f"tap train {{params.run}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule train_dense:
    input:
        data=data_of,
        start=start_of,
        remade=remade("train_dense"),
    output:
        weights=f"{RUN_FOLDER}/model.safetensors",
        log=f"{RUN_FOLDER}/log.csv",
        record=f"{RUN_FOLDER}/run.json",
    log:
        f"{LOG_FOLDER}/train/{{task}}/{{method}}/r{{rate}}/{{variant}}/s{{seed}}.log",
    wildcard_constraints:
        method=DENSE,
    threads: training_threads
    resources:
        gpu=TRAINING_GPUS,
    params:
        run=run_id,
        spec=training_settings,
        code=training_code,
    message:
        "Train {params.run} (no pruning)"
    shell:
        f"tap train {{params.run}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule endpoint:
    input:
        data=data_of,
        weights=lambda wildcards: [
            str(dense_run(CFG, wildcards.task, seed).folder / "model.safetensors")
            for seed in CFG.tasks[wildcards.task].seeds
        ],
        remade=remade("endpoint"),
    output:
        endpoint=f"results/{SCALE}/endpoint_{{task}}.json",
        record=f"results/{SCALE}/endpoint_{{task}}.record.json",
    log:
        f"{LOG_FOLDER}/endpoint/{{task}}.log",
    threads: evaluation_threads
    resources:
        gpu=EVALUATION_GPUS,
    params:
        specs=endpoint_settings,
        code=endpoint_code,
    message:
        "Choose the endpoint of the common recovery of {wildcards.task}"
    shell:
        f"tap endpoint {{wildcards.task}} --scale {SCALE} 2>&1 | tee {{log}}"


rule train_method:
    input:
        data=data_of,
        start=start_of,
        endpoint=endpoint_of,
        teacher=teacher_of,
        remade=remade("train_method"),
    output:
        weights=f"{RUN_FOLDER}/model.safetensors",
        log=f"{RUN_FOLDER}/log.csv",
        record=f"{RUN_FOLDER}/run.json",
    log:
        f"{LOG_FOLDER}/train/{{task}}/{{method}}/r{{rate}}/{{variant}}/s{{seed}}.log",
    wildcard_constraints:
        method="|".join(PRUNING_METHODS),
    threads: training_threads
    resources:
        gpu=TRAINING_GPUS,
    params:
        run=run_id,
        spec=training_settings,
        code=training_code,
    message:
        "Train {params.run}"
    shell:
        f"tap train {{params.run}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"
