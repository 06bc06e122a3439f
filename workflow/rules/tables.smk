# Results: one tidy table of a task's runs, the paper's tables as functions of it, and a copy where a reader looks.


localrules:
    publish,


rule gather:
    input:
        lambda wildcards: results_of(wildcards.task),
    output:
        f"results/{SCALE}/tidy_{{task}}.csv",
    log:
        f"{LOG_FOLDER}/gather/{{task}}.log",
    params:
        code=behind.code_of_gathering(),
    message:
        "Gather the results of {wildcards.task}"
    shell:
        f"tap gather {{wildcards.task}} --scale {SCALE} --out {{output}} 2>&1 | tee {{log}}"


rule table:
    input:
        tidy=lambda wildcards: f"results/{SCALE}/tidy_{TABLES[wildcards.table]}.csv",
        results=lambda wildcards: results_of(TABLES[wildcards.table]),
        reported=lambda wildcards: f"tap/paper/reported/{TABLES[wildcards.table]}.yaml",
    output:
        [f"results/{SCALE}/tables/{{table}}{suffix}" for suffix in TABLE_FILES],
    log:
        f"{LOG_FOLDER}/tables/{{table}}.log",
    params:
        main_rate=CFG.main_rate,
        code=behind.code_of_tables(),
    message:
        "Build {wildcards.table}"
    shell:
        f"tap table {{wildcards.table}} --scale {SCALE} --out results/{SCALE}/tables 2>&1 | tee {{log}}"


rule publish:
    input:
        [f"results/{SCALE}/tables/{{table}}{suffix}" for suffix in TABLE_FILES],
    output:
        [f"paper_tables/{{table}}{suffix}" for suffix in TABLE_FILES],
    log:
        f"{LOG_FOLDER}/publish/{{table}}.log",
    message:
        f"Publish {{wildcards.table}} of scale {SCALE}"
    shell:
        "cp {input} paper_tables/ 2> {log}"
