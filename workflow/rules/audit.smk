# The audit: a verdict on every claim of the paper, from whatever the scale has measured so far.


rule audit:
    input:
        tables=[
            f"results/{SCALE}/tables/{table}.csv"
            for table in [
                *(f"tab_{task}" for task in BUILT_TASKS),
                *OF_RATES,
                *OF_SETTINGS,
                *OF_PROBES,
            ]
        ],
        tidy=[f"results/{SCALE}/tidy_{task}.csv" for task in BUILT_TASKS] + TIDY_PROBES,
        figures=files_of_figures(f"results/{SCALE}/figures", [".png"]),
        paper=sorted(
            str(path)
            for pattern in ("claims/*.yaml", "reported/*.yaml", "audit/page/*")
            for path in Path("tap/paper").glob(pattern)
        ),
        remade=remade("audit"),
    output:
        [f"results/{SCALE}/audit/audit.{suffix}" for suffix in ("json", "md")],
        page=report(
            f"results/{SCALE}/audit/audit.html",
            caption="../report/audit.rst",
            category="Audit",
        ),
        record=f"results/{SCALE}/audit/audit.record.json",
    log:
        f"{LOG_FOLDER}/audit.log",
    params:
        main_rate=CFG.main_rate,
        code=behind.code_of_audit(),
    message:
        f"Audit the paper's claims at scale {SCALE}"
    shell:
        f"tap audit --scale {SCALE} 2>&1 | tee {{log}}"
