# Training. A killed training goes on where it was: its states lie in .tap/resume, outside of what Snakemake deletes.


rule pretrain:
    input:
        LOOKED,
        data=reads("train", "data"),
        remade=remade("pretrain"),
    output:
        weights=makes("train", "weights"),
        log=makes("train", "log"),
        record=makes("train", "record"),
    log:
        f"{LOGS}/train/{{task}}/{{method}}/r{{rate}}/{{variant}}/s{{seed}}.log",
    wildcard_constraints:
        method=PRETRAINING,
    priority: 1  # nearly all trainings wait for it, and it may want every core
    threads: threads("train")
    resources:
        gpu=takes("train", "gpus"),
        mem_mb=takes("train", "memory_mb"),
        runtime=takes("train", "minutes"),
    params:
        run=argument("train"),
        spec=spec("train"),
        code=code("train"),
    message:
        "Pre-train {params.run}"
    shell:
        f"tap train {{params.run}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule train_dense:
    input:
        LOOKED,
        data=reads("train", "data"),
        start=reads("train", "start"),
        remade=remade("train_dense"),
    output:
        weights=makes("train", "weights"),
        log=makes("train", "log"),
        record=makes("train", "record"),
    log:
        f"{LOGS}/train/{{task}}/{{method}}/r{{rate}}/{{variant}}/s{{seed}}.log",
    wildcard_constraints:
        method=DENSE,
    threads: threads("train")
    resources:
        gpu=takes("train", "gpus"),
        mem_mb=takes("train", "memory_mb"),
        runtime=takes("train", "minutes"),
    params:
        run=argument("train"),
        spec=spec("train"),
        code=code("train"),
    message:
        "Train {params.run} (no pruning)"
    shell:
        f"tap train {{params.run}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule endpoint:
    input:
        data=reads("endpoint", "data"),
        weights=reads("endpoint", "weights"),
        remade=remade("endpoint"),
    output:
        endpoint=makes("endpoint", "endpoint"),
        record=makes("endpoint", "record"),
    log:
        f"{LOGS}/endpoint/{{task}}.log",
    threads: threads("endpoint")
    resources:
        gpu=takes("endpoint", "gpus"),
        mem_mb=takes("endpoint", "memory_mb"),
        runtime=takes("endpoint", "minutes"),
    params:
        spec=spec("endpoint"),
        code=code("endpoint"),
    message:
        "Choose the endpoint of the common recovery of {wildcards.task}"
    shell:
        f"tap endpoint {{wildcards.task}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule train_method:
    input:
        LOOKED,
        data=reads("train", "data"),
        start=reads("train", "start"),
        endpoint=reads("train", "endpoint"),
        teacher=reads("train", "teacher"),
        remade=remade("train_method"),
    output:
        weights=makes("train", "weights"),
        log=makes("train", "log"),
        record=makes("train", "record"),
    log:
        f"{LOGS}/train/{{task}}/{{method}}/r{{rate}}/{{variant}}/s{{seed}}.log",
    wildcard_constraints:
        method="|".join(name for name in METHODS if name not in (DENSE, *FROZEN)),
    threads: threads("train")
    resources:
        gpu=takes("train", "gpus"),
        mem_mb=takes("train", "memory_mb"),
        runtime=takes("train", "minutes"),
    params:
        run=argument("train"),
        spec=spec("train"),
        code=code("train"),
    message:
        "Train {params.run}"
    shell:
        f"tap train {{params.run}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


# One training for all tasks on a frozen base, which leaves a run of each.
if JOINT_TASKS:

    rule train_joint:
        input:
            LOOKED,
            data=reads("train_joint", "data"),
            base=reads("train_joint", "base"),
            start=reads("train_joint", "start"),
            remade=remade("train_joint"),
        output:
            weights=of_all(JOINT_TASKS, makes("train_joint", "weights")),
            log=of_all(JOINT_TASKS, makes("train_joint", "log")),
            record=of_all(JOINT_TASKS, makes("train_joint", "record")),
        log:
            f"{LOGS}/train_joint/{{method}}/r{{rate}}/{{variant}}/s{{seed}}.log",
        wildcard_constraints:
            method="|".join(FROZEN),
        threads: threads("train_joint")
        resources:
            gpu=takes("train_joint", "gpus"),
            mem_mb=takes("train_joint", "memory_mb"),
            runtime=takes("train_joint", "minutes"),
        params:
            run=argument("train_joint"),
            spec=spec("train_joint"),
            code=code("train_joint"),
        message:
            "Train {params.run} on all its tasks"
        shell:
            f"tap train-joint {{params.run}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"
