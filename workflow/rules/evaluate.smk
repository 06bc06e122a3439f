# Evaluation: score, token counts and throughput of one checkpoint, in one process that has the machine to itself.


rule evaluate:
    input:
        data=data_of,
        weights=f"{RUN_FOLDER}/model.safetensors",
        endpoint=endpoint_of,
        remade=remade("evaluate"),
    output:
        metrics=f"{RUN_FOLDER}/metrics.json",
        per_sample=f"{RUN_FOLDER}/per_sample.npz",
        record=f"{RUN_FOLDER}/evaluation.json",
    log:
        f"{LOG_FOLDER}/evaluate/{{task}}/{{method}}/r{{rate}}/{{variant}}/s{{seed}}.log",
    # All cores: a throughput that is measured beside a training means nothing.
    threads: evaluation_threads
    resources:
        gpu=EVALUATION_GPUS,
    params:
        run=run_id,
        spec=evaluation_settings,
        code=evaluation_code,
    message:
        "Evaluate {params.run}"
    shell:
        f"tap evaluate {{params.run}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule picture:
    input:
        data=data_of,
        weights=f"{RUN_FOLDER}/model.safetensors",
        remade=remade("picture"),
    output:
        picture=report(
            f"{RUN_FOLDER}/picture.png",
            caption="../report/picture.rst",
            category="Pictures",
            labels={"task": "{task}", "method": "{method}", "keep rate": "{rate}"},
        ),
        record=f"{RUN_FOLDER}/picture.json",
    log:
        f"{LOG_FOLDER}/picture/{{task}}/{{method}}/r{{rate}}/{{variant}}/s{{seed}}.log",
    resources:
        gpu=EVALUATION_GPUS,
    params:
        run=run_id,
        spec=evaluation_settings,
        code=picture_code,
    message:
        "Draw {params.run}"
    shell:
        f"tap picture {{params.run}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"
