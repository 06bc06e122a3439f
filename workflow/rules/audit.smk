# The audit: a verdict on every claim of the paper, from whatever the scale has measured so far.


rule audit:
    input:
        tables=group(
            [*(f"tab_{task}" for task in BUILT_TASKS), *GROUPED], [".csv"], TABLES
        ),
        tidy=[
            f"results/{SCALE}/tidy_{of}{task}.csv"
            for of in ("", "further_", "probes_")
            for task in BUILT_TASKS
        ],
        figures=group(DRAWN, [".svg", ".caption.md"], DRAWINGS),
        pictures=[str(run.folder / "picture.png") for run in pictured_runs(CFG)],
        # Its page shows the hash over all records but its own.
        headline=makes("headline", "record"),
        page=makes("paper_page", "record.json"),
        kept=of_all(tasks_shown(CFG), makes("kept_patches", "record")),
        paper=sorted(
            str(path)
            for pattern in ("claims/*.yaml", "reported/*.yaml", "audit/page/*")
            for path in Path("tap/paper").glob(pattern)
        ),
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
