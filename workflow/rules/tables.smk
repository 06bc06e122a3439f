# Results: one tidy table of a task's runs, the paper's tables as functions of it, and a copy where a reader looks.


localrules:
    publish,
    publish_group,


rule gather:
    input:
        reads("gather", "results"),
        remade=remade("gather"),
    output:
        tidy=makes("gather", "tidy"),
        record=makes("gather", "record"),
    log:
        f"{LOGS}/gather/{{task}}.log",
    resources:
        mem_mb=takes("gather", "memory_mb"),
        runtime=takes("gather", "minutes"),
    params:
        spec=spec("gather"),
        code=code("gather"),
    message:
        "Gather the results of {wildcards.task}"
    shell:
        f"tap gather {{wildcards.task}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


# Nothing edited gets into a table or figure: what its tidy table was made from is compared with the records of the jobs.
rule verify:
    input:
        tidy=reads("verify", "tidy"),
        results=reads("verify", "results"),
        remade=remade("verify"),
    output:
        makes("verify", "record"),
    log:
        f"{LOGS}/verify/{{of}}.log",
    resources:
        mem_mb=takes("verify", "memory_mb"),
        runtime=takes("verify", "minutes"),
    params:
        spec=spec("verify"),
    message:
        "Verify what the tables of {wildcards.of} are made from"
    shell:
        f"tap verify {{input.tidy}} --task {{wildcards.of}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule table:
    input:
        tidy=reads("table", "tidy"),
        verified=reads("table", "verified"),
        results=reads("table", "results"),
        reported=lambda wildcards: reported_of([wildcards.table]),
        remade=remade("table"),
    output:
        [makes("table", suffix) for suffix in TABLE_FILES if suffix != ".csv"],
        csv=report(
            makes("table", ".csv"),
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
        record=makes("table", ".record.json"),
    log:
        f"{LOGS}/tables/{{table}}.log",
    resources:
        mem_mb=takes("table", "memory_mb"),
        runtime=takes("table", "minutes"),
    params:
        spec=spec("table"),
        code=code("table"),
    message:
        "Build {wildcards.table}"
    shell:
        f"tap table {{wildcards.table}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


# Small tables share a job: most of its time is the start of Python.
rule tables_of_rates:
    input:
        tidy=[f"results/{SCALE}/tidy_{task}.csv" for task in BUILT_TASKS],
        verified=[f"results/{SCALE}/verified_{task}.json" for task in BUILT_TASKS],
        reported=reported_of(OF_RATES),
        remade=remade("tables_of_rates"),
    output:
        group(OF_RATES, TABLE_RECORDED, TABLES),
    log:
        f"{LOGS}/tables/of_rates.log",
    resources:
        mem_mb=takes("table", "memory_mb", OF_RATES),
        runtime=takes("table", "minutes", OF_RATES),
    params:
        spec=spec("table", OF_RATES),
        code=code("table", OF_RATES),
        tables=OF_RATES,
    message:
        "Build the tables of keep rates and memory"
    shell:
        f"tap table {{params.tables}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule tables_of_controls:
    input:
        tidy=[f"results/{SCALE}/tidy_{task}.csv" for task in BUILT_TASKS],
        verified=[
            f"results/{SCALE}/verified_{of}{task}.json"
            for of in ("", "controls_")
            for task in BUILT_TASKS
        ],
        results=[
            str(file) for task in BUILT_TASKS for file in files_of_controls(CFG, task)
        ],
        reported=reported_of(OF_CONTROLS),
        remade=remade("tables_of_controls"),
    output:
        group(OF_CONTROLS, TABLE_RECORDED, TABLES),
    log:
        f"{LOGS}/tables/of_controls.log",
    resources:
        mem_mb=takes("table", "memory_mb", OF_CONTROLS),
        runtime=takes("table", "minutes", OF_CONTROLS),
    params:
        spec=spec("table", OF_CONTROLS),
        code=code("table", OF_CONTROLS),
        tables=OF_CONTROLS,
    message:
        "Build the tables of the controls"
    shell:
        f"tap table {{params.tables}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule tables_of_settings:
    input:
        reported=reported_of(OF_SETTINGS),
        remade=remade("tables_of_settings"),
    output:
        group(OF_SETTINGS, TABLE_RECORDED, TABLES),
    log:
        f"{LOGS}/tables/of_settings.log",
    resources:
        mem_mb=takes("table", "memory_mb", OF_SETTINGS),
        runtime=takes("table", "minutes", OF_SETTINGS),
    params:
        spec=spec("table", OF_SETTINGS),
        code=code("table", OF_SETTINGS),
        tables=OF_SETTINGS,
    message:
        "Build the tables of settings"
    shell:
        f"tap table {{params.tables}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule headline:
    input:
        reads("headline", "tidy"),
        remade=remade("headline"),
    output:
        json=makes("headline", "json"),
        csv=makes("headline", "csv"),
        record=makes("headline", "record"),
    log:
        f"{LOGS}/headline.log",
    resources:
        mem_mb=takes("headline", "memory_mb"),
        runtime=takes("headline", "minutes"),
    params:
        spec=spec("headline"),
        code=code("headline"),
    message:
        "Write the numbers that stand for the scale"
    shell:
        f"tap headline --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule publish:
    input:
        [makes("table", suffix) for suffix in TABLE_FILES],
        remade=remade("publish"),
    output:
        [f"paper_tables/{{table}}{suffix}" for suffix in TABLE_FILES],
        record=makes("publish", "record"),
    log:
        f"{LOGS}/publish/{{table}}.log",
    params:
        spec=spec("publish"),
    message:
        f"Publish {{wildcards.table}} of scale {SCALE}"
    shell:
        f"tap publish {{wildcards.table}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule publish_group:
    input:
        group(GROUPED, TABLE_RECORDED, TABLES),
        remade=remade("publish_group"),
    output:
        group(GROUPED, TABLE_RECORDED, "paper_tables/{name}"),
    log:
        f"{LOGS}/publish/group.log",
    params:
        spec=spec("publish", GROUPED),
        tables=GROUPED,
    message:
        f"Publish the small tables of scale {SCALE}"
    shell:
        f"tap publish {{params.tables}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


# A name that no table or figure has: the nearest one and all that there are, instead of "no rule to produce".
rule unknown:
    input:
        refuse_unknown,
    output:
        touch("{folder}/{unknown}"),
    wildcard_constraints:
        folder="paper_tables|paper_figures",
        unknown=rf"(?!({'|'.join(KNOWN_STEMS)})\.)[^/]+",
