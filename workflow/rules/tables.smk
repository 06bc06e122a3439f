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
        f"{LOGS}/gather/{{of}}.log",
    wildcard_constraints:
        of=f"(further_)?({'|'.join(CFG.tasks)})",
    resources:
        mem_mb=takes("gather", "memory_mb"),
        runtime=takes("gather", "minutes"),
    params:
        spec=spec("gather"),
        code=code("gather"),
    message:
        "Gather the results of {wildcards.of}"
    shell:
        f"tap gather {{wildcards.of}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


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
        reported=reads("table", "reported"),
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
        profiles=also_reads("table"),
        spec=spec("table"),
        code=code("table"),
    message:
        "Build {wildcards.table}"
    shell:
        f"tap table {{wildcards.table}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


# Small tables share a job with those that are made from the same: most of its time is the start of Python. Profiles are
# whatever there are; where there is none, cells are missing (`snakemake profile` fills them).
for behind, tables in TABLE_GROUPS.items():

    rule:
        name:
            f"tables_of_{behind}"
        input:
            tidy=reads("table", "tidy", tables),
            verified=reads("table", "verified", tables),
            results=reads("table", "results", tables),
            floors=reads("table", "floors", tables),
            reported=reads("table", "reported", tables),
            remade=remade(f"tables_of_{behind}"),
        output:
            made("table", tables),
        log:
            f"{LOGS}/tables/of_{behind}.log",
        resources:
            mem_mb=takes("table", "memory_mb", tables),
            runtime=takes("table", "minutes", tables),
        params:
            profiles=also_reads("table", tables),
            spec=spec("table", tables),
            code=code("table", tables),
            tables=tables,
        message:
            f"Build the tables of {behind}"
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
        profiles=also_reads("headline"),
        spec=spec("headline"),
        code=code("headline"),
    message:
        "Write the numbers that stand for the scale"
    shell:
        f"tap headline --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule publish:
    input:
        reads("publish", "originals"),
        remade=remade("publish"),
    output:
        [makes("publish", suffix) for suffix in (*TABLE_FILES, ".record.json")],
    log:
        f"{LOGS}/publish/{{table}}.log",
    resources:
        mem_mb=takes("publish", "memory_mb"),
        runtime=takes("publish", "minutes"),
    params:
        spec=spec("publish"),
    message:
        f"Publish {{wildcards.table}} of scale {SCALE}"
    shell:
        f"tap publish {{wildcards.table}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule publish_group:
    input:
        reads("publish", "originals", GROUPED),
        remade=remade("publish_group"),
    output:
        made("publish", GROUPED),
    log:
        f"{LOGS}/publish/group.log",
    resources:
        mem_mb=takes("publish", "memory_mb", GROUPED),
        runtime=takes("publish", "minutes", GROUPED),
    params:
        spec=spec("publish", GROUPED),
        tables=GROUPED,
    message:
        f"Publish the small tables of scale {SCALE}"
    shell:
        f"tap publish {{params.tables}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


# A name that no table or figure has, or a file that no job makes of one: what there is, instead of "no rule to produce".
rule unknown:
    input:
        refuse_unknown,
    output:
        touch("{unknown}"),
    wildcard_constraints:
        unknown=rf"(?!({'|'.join(re.escape(str(file)) for file in (*SHOWN_FILES, *MADE_FILES))})$)(paper_|results/{SCALE}/)(tables|figures)/[^/]+",


# The same for what looks like the name of a rule.
rule unknown_rule:
    input:
        refuse_unknown_rule,
    output:
        touch("{unknown}"),
    wildcard_constraints:
        unknown="[a-z][a-z_]*",
