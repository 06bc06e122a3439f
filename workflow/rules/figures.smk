# Figures: those that are made from the same results share a job, since most of its time is the start of Python.
# The growth of this or another machine is published where it was measured; profiles are whatever there are, as for tables.
for behind, figures in FIGURE_GROUPS.items():

    rule:
        name:
            f"figures_of_{behind}"
        input:
            tidy=reads("figure", "tidy", figures),
            verified=reads("figure", "verified", figures),
            results=reads("figure", "results", figures),
            floors=reads("figure", "floors", figures),
            remade=remade(f"figures_of_{behind}"),
        output:
            [file for file in made("figure", figures) if not file.endswith(".png")],
            pictures=report(
                made("figure", figures, ".png"),
                caption="../report/figure.rst",
                category="Figures",
            ),
        log:
            f"{LOGS}/figures/of_{behind}.log",
        resources:
            mem_mb=takes("figure", "memory_mb", figures),
            runtime=takes("figure", "minutes", figures),
        params:
            profiles=also_reads("figure", figures),
            spec=spec("figure", figures),
            code=code("figure", figures),
            figures=figures,
        message:
            f"Draw the figures of {behind}"
        shell:
            f"tap figure {{params.figures}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


for behind, figures in FIGURE_GROUPS.items():

    rule:
        name:
            f"publish_figures_of_{behind}"
        input:
            reads("publish", "originals", figures),
            remade=remade(f"publish_figures_of_{behind}"),
        output:
            made("publish", figures),
        log:
            f"{LOGS}/publish/figures_of_{behind}.log",
        localrule: True
        resources:
            mem_mb=takes("publish", "memory_mb", figures),
            runtime=takes("publish", "minutes", figures),
        params:
            spec=spec("publish", figures),
            figures=figures,
        message:
            f"Publish the figures of {behind} of scale {SCALE}"
        shell:
            f"tap publish {{params.figures}} --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"
