# The audit: a verdict on every claim of the paper, from whatever the scale has measured so far.


rule audit:
    input:
        tables=reads("audit", "tables"),
        tidy=reads("audit", "tidy"),
        figures=reads("audit", "figures"),
        pictures=reads("audit", "pictures"),
        records=reads("audit", "records"),
        searches=reads("audit", "searches"),
        paper=reads("audit", "paper"),
        remade=remade("audit"),
    output:
        [makes("audit", suffix) for suffix in ("json", "md")],
        page=report(
            makes("audit", "html"),
            caption="../report/audit.rst",
            category="Audit",
        ),
        record=makes("audit", "record.json"),
    log:
        f"{LOGS}/audit.log",
    resources:
        mem_mb=takes("audit", "memory_mb"),
        runtime=takes("audit", "minutes"),
    params:
        profiles=also_reads("audit"),
        spec=spec("audit"),
        code=code("audit"),
    message:
        f"Audit the paper's claims at scale {SCALE}"
    shell:
        f"tap audit --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"
