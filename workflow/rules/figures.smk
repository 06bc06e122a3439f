# Figures: those that are made from the same results share a job, since most of its time is the start of Python.
BEHIND_RATES = {
    "tidy": behind_runs("tidy", "csv"),
    "verified": behind_runs("verified", "json"),
}
BEHIND_FIGURES = {
    "probes": BEHIND_PROBES,
    "rates": BEHIND_RATES,
    "controls": {
        **BEHIND_RATES,
        "results": [
            str(file) for task in BUILT_TASKS for file in files_of_controls(CFG, task)
        ],
        "verified_controls": [
            f"results/{SCALE}/verified_controls_{task}.json" for task in BUILT_TASKS
        ],
    },
    "profiles": {},  # whatever there are, as for tables
}


for behind, drawn in {**FIGURES, "profiles": figures_of("profiles")}.items():

    rule:
        name:
            f"figures_of_{behind}"
        input:
            **BEHIND_FIGURES[behind],
            remade=remade(f"figures_of_{behind}"),
        output:
            group(
                drawn,
                [suffix for suffix in FIGURE_FILES if suffix != ".png"],
                DRAWINGS,
            ),
            pictures=report(
                group(drawn, [".png"], DRAWINGS),
                caption="../report/figure.rst",
                category="Figures",
            ),
        log:
            f"{LOGS}/figures/of_{behind}.log",
        resources:
            mem_mb=takes("figure", "memory_mb", drawn),
            runtime=takes("figure", "minutes", drawn),
        params:
            profiles=also_reads("figure", drawn),
            spec=spec("figure", drawn),
            code=code("figure", drawn),
            figures=drawn,
        message:
            f"Draw the figures of {behind}"
        shell:
            f"tap figure {{params.figures}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


for behind, drawn in {**FIGURES, **({"profiles": GROWN} if GROWN else {})}.items():

    rule:
        name:
            f"publish_figures_of_{behind}"
        input:
            group(drawn, FIGURE_FILES, DRAWINGS),
            remade=remade(f"publish_figures_of_{behind}"),
        output:
            group(drawn, FIGURE_FILES, "paper_figures/{name}"),
        log:
            f"{LOGS}/publish/figures_of_{behind}.log",
        localrule: True
        params:
            spec=spec("publish", drawn),
            figures=drawn,
        message:
            f"Publish the figures of {behind} of scale {SCALE}"
        shell:
            f"tap publish {{params.figures}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"
