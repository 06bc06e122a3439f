# Evaluation: score and token counts of one checkpoint. It measures no time (profile.smk does).


rule evaluate:
    input:
        data=reads("evaluate", "data"),
        weights=reads("evaluate", "weights"),
        registers=reads("evaluate", "registers"),
        endpoint=reads("evaluate", "endpoint"),
        remade=remade("evaluate"),
    output:
        metrics=makes("evaluate", "metrics"),
        per_sample=makes("evaluate", "per_sample"),
        record=makes("evaluate", "record"),
    log:
        f"{LOGS}/evaluate/{{task}}/{{method}}/r{{rate}}/{{variant}}/s{{seed}}.log",
    threads: threads("evaluate")
    resources:
        gpu=takes("evaluate", "gpus"),
        mem_mb=takes("evaluate", "memory_mb"),
        runtime=takes("evaluate", "minutes"),
    params:
        run=argument("evaluate"),
        spec=spec("evaluate"),
        code=code("evaluate"),
    message:
        "Evaluate {params.run}"
    shell:
        f"tap evaluate {{params.run}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


# All controls of a checkpoint in one process: most of what they compute is the same.
rule control:
    input:
        data=reads("control", "data"),
        weights=reads("control", "weights"),
        remade=remade("control"),
    output:
        values=makes("control", "values"),
        arrays=makes("control", "arrays"),
        record=makes("control", "record"),
    log:
        f"{LOGS}/control/{{task}}/{{method}}/r{{rate}}/{{variant}}/s{{seed}}.log",
    threads: threads("control")
    resources:
        gpu=takes("control", "gpus"),
        mem_mb=takes("control", "memory_mb"),
        runtime=takes("control", "minutes"),
    params:
        run=argument("control"),
        spec=spec("control"),
        code=code("control"),
    message:
        "Control {params.run}"
    shell:
        f"tap control {{params.run}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule kept_patches:
    input:
        data=reads("kept_patches", "data"),
        weights=reads("kept_patches", "weights"),
        endpoint=reads("kept_patches", "endpoint"),
        page=reads("kept_patches", "page"),
        remade=remade("kept_patches"),
    output:
        page=report(
            makes("kept_patches", "page"),
            caption="../report/kept_patches.rst",
            category="Pictures",
            labels={"task": "{task}"},
        ),
        pictured=makes("kept_patches", "pictured"),
        record=makes("kept_patches", "record"),
    log:
        f"{LOGS}/kept_patches/{{task}}.log",
    threads: threads("kept_patches")
    resources:
        gpu=takes("kept_patches", "gpus"),
        mem_mb=takes("kept_patches", "memory_mb"),
        runtime=takes("kept_patches", "minutes"),
    params:
        spec=spec("kept_patches"),
        code=code("kept_patches"),
    message:
        "Show what methods keep on {wildcards.task}"
    shell:
        f"tap kept {{wildcards.task}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule picture:
    input:
        data=reads("picture", "data"),
        weights=reads("picture", "weights"),
        remade=remade("picture"),
    output:
        picture=report(
            makes("picture", "picture"),
            caption="../report/picture.rst",
            category="Pictures",
            labels={"task": "{task}", "method": "{method}", "keep rate": "{rate}"},
        ),
        record=makes("picture", "record"),
    log:
        f"{LOGS}/picture/{{task}}/{{method}}/r{{rate}}/{{variant}}/s{{seed}}.log",
    resources:
        gpu=takes("picture", "gpus"),
        mem_mb=takes("picture", "memory_mb"),
        runtime=takes("picture", "minutes"),
    params:
        run=argument("picture"),
        spec=spec("picture"),
        code=code("picture"),
    message:
        "Draw {params.run}"
    shell:
        f"tap picture {{params.run}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"
