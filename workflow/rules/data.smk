# Data: fetched and verified by the workflow (desk, smoke), or a person's own, which is checked (paper).


rule prepare_data:
    input:
        remade=remade("prepare_data"),
    output:
        manifest=makes("prepare", "manifest"),
        record=makes("prepare", "record"),
    log:
        ".tap/logs/data/{root}.log",
    resources:
        mem_mb=takes("prepare", "memory_mb"),
        runtime=takes("prepare", "minutes"),
    params:
        task=argument("prepare"),
        # No scale: desk and smoke share their data, and a switch between them must repeat nothing.
        spec=spec("prepare"),
        code=code("prepare"),
    message:
        "Prepare the data in {wildcards.root}"
    shell:
        f"tap data prepare {{params.task}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log:q}}"


rule check_data:
    input:
        LOOKED,
        remade=remade("check_data"),
    output:
        report=makes("check", "report"),
        record=makes("check", "record"),
    log:
        f"{LOGS}/data/{{task}}.log",
    resources:
        mem_mb=takes("check", "memory_mb"),
        runtime=takes("check", "minutes"),
    params:
        spec=spec("check"),
        code=code("check"),
    message:
        "Check the data of {wildcards.task}"
    shell:
        f"tap data check {{wildcards.task}} --scale {SCALE} --spec {{params.spec:q}} --report {{output.report:q}} 2>&1"
        f" | tee {{log:q}}"


rule preflight:
    input:
        remade=remade("preflight"),
    output:
        report=makes("preflight", "report"),
        record=makes("preflight", "record"),
    log:
        f"{LOGS}/preflight.log",
    resources:
        gpu=takes("preflight", "gpus"),
        mem_mb=takes("preflight", "memory_mb"),
        runtime=takes("preflight", "minutes"),
    params:
        spec=spec("preflight"),
        code=code("preflight"),
    message:
        "Look at everything that trainings need"
    shell:
        f"tap preflight --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log:q}}"
