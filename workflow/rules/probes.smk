# Controlled probes: no-pruning checkpoints with one block pruned.


rule probe:
    input:
        data=reads("probe", "data"),
        weights=reads("probe", "weights"),
        endpoint=reads("probe", "endpoint"),
        remade=remade("probe"),
    output:
        values=makes("probe", "values"),
        per_sample=makes("probe", "per_sample"),
        record=makes("probe", "record"),
    log:
        f"{LOGS}/probes/{{task}}/{{kind}}.log",
    threads: threads("probe")
    resources:
        gpu=takes("probe", "gpus"),
        mem_mb=takes("probe", "memory_mb"),
        runtime=takes("probe", "minutes"),
    params:
        spec=spec("probe"),
        code=code("probe"),
    message:
        "Probe {wildcards.task}: {wildcards.kind}"
    shell:
        f"tap probe {{wildcards.kind}} {{wildcards.task}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule gather_probes:
    input:
        reads("gather_probes", "results"),
        remade=remade("gather_probes"),
    output:
        tidy=makes("gather_probes", "tidy"),
        record=makes("gather_probes", "record"),
    log:
        f"{LOGS}/gather_probes/{{task}}.log",
    resources:
        mem_mb=takes("gather_probes", "memory_mb"),
        runtime=takes("gather_probes", "minutes"),
    params:
        spec=spec("gather_probes"),
        code=code("gather_probes"),
    message:
        "Gather the probes of {wildcards.task}"
    shell:
        f"tap probe gather {{wildcards.task}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"
