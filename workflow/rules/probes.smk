# Controlled probes: no-pruning checkpoints with one block pruned, their tables, and the figures drawn from them.


localrules:
    publish_figures,


# Behind tables and figures of probes: the probes, and of dense tasks what no pruning and a random encoder score, since
# captions say where the one is not above the other.
BEHIND_PROBES = {
    "tidy": [f"results/{SCALE}/tidy_probes_{task}.csv" for task in BUILT_TASKS],
    "verified": [
        f"results/{SCALE}/verified_probes_{task}.json" for task in BUILT_TASKS
    ],
    "results": [
        file for task in BUILT_TASKS for file in map(str, results_of_probes(CFG, task))
    ],
    "floors": [
        f"{run.folder}/metrics.json"
        for task in BUILT_TASKS
        for run in runs_of_table(CFG, task)
        if run.method == DENSE and TASKS[task].floors
    ],
}


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


rule tables_of_probes:
    input:
        **BEHIND_PROBES,
        reported=reported_of(OF_PROBES),
        remade=remade("tables_of_probes"),
    output:
        group(OF_PROBES, TABLE_RECORDED, TABLES),
    log:
        f"{LOGS}/tables/of_probes.log",
    resources:
        mem_mb=takes("table", "memory_mb", OF_PROBES),
        runtime=takes("table", "minutes", OF_PROBES),
    params:
        spec=spec("table", OF_PROBES),
        code=code("table", OF_PROBES),
        tables=OF_PROBES,
    message:
        "Build the tables of the probes"
    shell:
        f"tap table {{params.tables}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule figures:
    input:
        **BEHIND_PROBES,
        remade=remade("figures"),
    output:
        group(
            FIGURES, [suffix for suffix in FIGURE_FILES if suffix != ".png"], DRAWINGS
        ),
        pictures=report(
            group(FIGURES, [".png"], DRAWINGS),
            caption="../report/figure.rst",
            category="Figures",
        ),
    log:
        f"{LOGS}/figures.log",
    resources:
        mem_mb=takes("figure", "memory_mb", FIGURES),
        runtime=takes("figure", "minutes", FIGURES),
    params:
        spec=spec("figure", FIGURES),
        code=code("figure", FIGURES),
        figures=FIGURES,
    message:
        "Draw the figures"
    shell:
        f"tap figure {{params.figures}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule publish_figures:
    input:
        group(FIGURES, FIGURE_FILES, DRAWINGS),
        remade=remade("publish_figures"),
    output:
        group(FIGURES, FIGURE_FILES, "paper_figures/{name}"),
    log:
        f"{LOGS}/publish/figures.log",
    params:
        spec=spec("publish", FIGURES),
        figures=FIGURES,
    message:
        f"Publish the figures of scale {SCALE}"
    shell:
        f"tap publish {{params.figures}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"
