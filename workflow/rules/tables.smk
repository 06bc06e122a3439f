# Results: one tidy table of a task's runs, the paper's tables as functions of it, and a copy where a reader looks.


localrules:
    publish,
    publish_group,


rule gather:
    input:
        lambda wildcards: results_of(wildcards.task),
        remade=remade("gather"),
    output:
        tidy=f"results/{SCALE}/tidy_{{task}}.csv",
        record=f"results/{SCALE}/tidy_{{task}}.record.json",
    log:
        f"{LOG_FOLDER}/gather/{{task}}.log",
    params:
        code=behind.code_of_gathering(),
    message:
        "Gather the results of {wildcards.task}"
    shell:
        f"tap gather {{wildcards.task}} --scale {SCALE} --out {{output.tidy}} 2>&1 | tee {{log}}"


# Nothing edited gets into a table: what its tidy table was made from is compared with the records of the jobs.
rule verify:
    input:
        tidy=f"results/{SCALE}/tidy_{{task}}.csv",
        results=lambda wildcards: results_of(wildcards.task),
        remade=remade("verify"),
    output:
        f"results/{SCALE}/verified_{{task}}.json",
    log:
        f"{LOG_FOLDER}/verify/{{task}}.log",
    message:
        "Verify what the tables of {wildcards.task} are made from"
    shell:
        f"tap verify {{input.tidy}} --task {{wildcards.task}} --scale {SCALE} 2>&1 | tee {{log}}"


rule table:
    input:
        tidy=lambda wildcards: f"results/{SCALE}/tidy_{TABLES[wildcards.table]}.csv",
        verified=lambda wildcards: f"results/{SCALE}/verified_{TABLES[wildcards.table]}.json",
        results=lambda wildcards: results_of(TABLES[wildcards.table]),
        reported=lambda wildcards: f"tap/paper/reported/{TABLES[wildcards.table]}.yaml",
        remade=remade("table"),
    output:
        [
            f"results/{SCALE}/tables/{{table}}{suffix}"
            for suffix in TABLE_FILES
            if suffix != ".csv"
        ],
        csv=report(
            f"results/{SCALE}/tables/{{table}}.csv",
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
        record=f"results/{SCALE}/tables/{{table}}.record.json",
    log:
        f"{LOG_FOLDER}/tables/{{table}}.log",
    params:
        main_rate=CFG.main_rate,
        code=behind.code_of_tables(),
    message:
        "Build {wildcards.table}"
    shell:
        f"tap table {{wildcards.table}} --scale {SCALE} --out results/{SCALE}/tables 2>&1 | tee {{log}}"


# Small tables share a job: most of its time is the start of Python.
rule tables_of_rates:
    input:
        tidy=[f"results/{SCALE}/tidy_{task}.csv" for task in BUILT_TASKS],
        verified=[f"results/{SCALE}/verified_{task}.json" for task in BUILT_TASKS],
        reported=reported_of(OF_RATES),
        remade=remade("tables_of_rates"),
    output:
        files_of_tables(f"results/{SCALE}/tables", OF_RATES),
    log:
        f"{LOG_FOLDER}/tables/of_rates.log",
    params:
        main_rate=CFG.main_rate,
        code=behind.code_of_tables(),
        tables=OF_RATES,
    message:
        "Build the tables of keep rates and memory"
    shell:
        f"tap table {{params.tables}} --scale {SCALE} --out results/{SCALE}/tables 2>&1 | tee {{log}}"


rule tables_of_settings:
    input:
        reported=reported_of(OF_SETTINGS),
        remade=remade("tables_of_settings"),
    output:
        files_of_tables(f"results/{SCALE}/tables", OF_SETTINGS),
    log:
        f"{LOG_FOLDER}/tables/of_settings.log",
    params:
        settings=CFG.model_dump_json(),
        code=behind.code_of_tables(),
        tables=OF_SETTINGS,
    message:
        "Build the tables of settings"
    shell:
        f"tap table {{params.tables}} --scale {SCALE} --out results/{SCALE}/tables 2>&1 | tee {{log}}"


rule headline:
    input:
        [f"results/{SCALE}/tidy_{task}.csv" for task in BUILT_TASKS],
        remade=remade("headline"),
    output:
        json=f"results/{SCALE}/headline.json",
        csv=f"results/{SCALE}/headline.csv",
        record=f"results/{SCALE}/headline.record.json",
    log:
        f"{LOG_FOLDER}/headline.log",
    params:
        code=behind.code_of_headline(),
    message:
        "Write the numbers that stand for the scale"
    shell:
        f"tap headline --scale {SCALE} 2>&1 | tee {{log}}"


rule publish:
    input:
        [f"results/{SCALE}/tables/{{table}}{suffix}" for suffix in TABLE_FILES],
        remade=remade("publish"),
    output:
        [f"paper_tables/{{table}}{suffix}" for suffix in TABLE_FILES],
        record="paper_tables/{table}.record.json",
    log:
        f"{LOG_FOLDER}/publish/{{table}}.log",
    message:
        f"Publish {{wildcards.table}} of scale {SCALE}"
    shell:
        f"tap publish {{wildcards.table}} --scale {SCALE} 2>&1 | tee {{log}}"


rule publish_group:
    input:
        files_of_tables(
            f"results/{SCALE}/tables", [*OF_RATES, *OF_SETTINGS, *OF_PROBES]
        ),
        remade=remade("publish_group"),
    output:
        files_of_tables("paper_tables", [*OF_RATES, *OF_SETTINGS, *OF_PROBES]),
    log:
        f"{LOG_FOLDER}/publish/group.log",
    params:
        tables=[*OF_RATES, *OF_SETTINGS, *OF_PROBES],
    message:
        f"Publish the small tables of scale {SCALE}"
    shell:
        f"tap publish {{params.tables}} --scale {SCALE} 2>&1 | tee {{log}}"
