# Controlled probes: no-pruning checkpoints with one block pruned, their tables, and the figures drawn from them.


localrules:
    publish_figures,


# Behind tables and figures of probes: the probes, and of dense tasks what no pruning and a random encoder score, since
# captions say where the one is not above the other.
BEHIND_PROBES = {
    "tidy": TIDY_PROBES,
    "verified": [
        f"results/{SCALE}/verified_probes_{task}.json" for task in BUILT_TASKS
    ],
    "results": [file for task in BUILT_TASKS for file in probe_results(task)],
    "floors": [
        f"{run.folder}/metrics.json"
        for task in BUILT_TASKS
        for run in runs_of_table(CFG, task)
        if run.method == DENSE and TASKS[task].floors
    ],
}


rule probe:
    input:
        data=data_of,
        weights=probed_weights,
        endpoint=probed_endpoint,
        remade=remade("probe"),
    output:
        values=f"{PROBE_FOLDER}/values.csv",
        per_sample=f"{PROBE_FOLDER}/per_sample.npz",
        record=f"{PROBE_FOLDER}/probe.json",
    log:
        f"{LOG_FOLDER}/probes/{{task}}/{{kind}}.log",
    threads: evaluation_threads
    resources:
        gpu=EVALUATION_GPUS,
    params:
        settings=probe_settings,
        code=probe_code,
    message:
        "Probe {wildcards.task}: {wildcards.kind}"
    shell:
        f"tap probe {{wildcards.kind}} {{wildcards.task}} --scale {SCALE} 2>&1 | tee {{log}}"


rule gather_probes:
    input:
        lambda wildcards: probe_results(wildcards.task),
        remade=remade("gather_probes"),
    output:
        tidy=f"results/{SCALE}/tidy_probes_{{task}}.csv",
        record=f"results/{SCALE}/tidy_probes_{{task}}.record.json",
    log:
        f"{LOG_FOLDER}/gather_probes/{{task}}.log",
    params:
        code=behind.code_of_gathering_probes(),
    message:
        "Gather the probes of {wildcards.task}"
    shell:
        f"tap probe gather {{wildcards.task}} --scale {SCALE} 2>&1 | tee {{log}}"


# Nothing edited gets into a table or figure: as for the runs, what the tidy table was made from is compared with the
# records of the jobs.
rule verify_probes:
    input:
        tidy=f"results/{SCALE}/tidy_probes_{{task}}.csv",
        results=lambda wildcards: probe_results(wildcards.task),
        remade=remade("verify_probes"),
    output:
        f"results/{SCALE}/verified_probes_{{task}}.json",
    log:
        f"{LOG_FOLDER}/verify_probes/{{task}}.log",
    message:
        "Verify what is made of the probes of {wildcards.task}"
    shell:
        f"tap verify {{input.tidy}} --task probes_{{wildcards.task}} --scale {SCALE} 2>&1 | tee {{log}}"


rule tables_of_probes:
    input:
        **BEHIND_PROBES,
        reported=reported_of(OF_PROBES),
        remade=remade("tables_of_probes"),
    output:
        files_of_tables(f"results/{SCALE}/tables", OF_PROBES),
    log:
        f"{LOG_FOLDER}/tables/of_probes.log",
    params:
        main_rate=CFG.main_rate,
        code=behind.code_of_tables(),
        tables=OF_PROBES,
    message:
        "Build the tables of the probes"
    shell:
        f"tap table {{params.tables}} --scale {SCALE} --out results/{SCALE}/tables 2>&1 | tee {{log}}"


rule figures:
    input:
        **BEHIND_PROBES,
        remade=remade("figures"),
    output:
        files_of_figures(
            f"results/{SCALE}/figures",
            [suffix for suffix in FIGURE_FILES if suffix != ".png"],
        ),
        pictures=report(
            files_of_figures(f"results/{SCALE}/figures", [".png"]),
            caption="../report/figure.rst",
            category="Figures",
        ),
    log:
        f"{LOG_FOLDER}/figures.log",
    params:
        code=behind.code_of_figures(),
        figures=FIGURES,
    message:
        "Draw the figures"
    shell:
        f"tap figure {{params.figures}} --scale {SCALE} --out results/{SCALE}/figures 2>&1 | tee {{log}}"


rule publish_figures:
    input:
        files_of_figures(f"results/{SCALE}/figures", FIGURE_FILES),
        remade=remade("publish_figures"),
    output:
        files_of_figures("paper_figures", FIGURE_FILES),
    log:
        f"{LOG_FOLDER}/publish/figures.log",
    params:
        figures=FIGURES,
    message:
        f"Publish the figures of scale {SCALE}"
    shell:
        f"tap publish {{params.figures}} --scale {SCALE} 2>&1 | tee {{log}}"
