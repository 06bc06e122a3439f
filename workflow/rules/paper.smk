# All tables and figures in the paper's order, each beside the printed one: `snakemake paper_tables/paper.html`, and with
# LaTeX installed `snakemake paper_tables/paper.pdf`.


localrules:
    publish_paper,
    publish_paper_pdf,


rule paper_page:
    input:
        tables=group(
            [*(f"tab_{task}" for task in BUILT_TASKS), *GROUPED], TABLE_FILES, TABLES
        ),
        figures=group(DRAWN, FIGURE_FILES, DRAWINGS),
        remade=remade("paper_page"),
    output:
        [makes("paper_page", suffix) for suffix in ("html", "tex", "record.json")],
    log:
        f"{LOGS}/paper_page.log",
    resources:
        mem_mb=takes("paper_page", "memory_mb"),
        runtime=takes("paper_page", "minutes"),
    params:
        spec=spec("paper_page"),
        code=code("paper_page"),
    message:
        "Set all tables and figures beside the printed ones"
    shell:
        f"tap paper page --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule paper_pdf:
    input:
        source=makes("paper_page", "tex"),
        figures=group(DRAWN, [".pdf"], DRAWINGS),
        remade=remade("paper_pdf"),
    output:
        makes("paper_pdf", "pdf"),
        makes("paper_pdf", "record"),
    log:
        f"{LOGS}/paper_pdf.log",
    resources:
        mem_mb=takes("paper_pdf", "memory_mb"),
        runtime=takes("paper_pdf", "minutes"),
    params:
        spec=spec("paper_pdf"),
        code=code("paper_pdf"),
    message:
        "Compile the document of all tables and figures"
    shell:
        f"tap paper pdf --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule publish_paper:
    input:
        [makes("paper_page", suffix) for suffix in ("html", "tex", "record.json")],
        remade=remade("publish_paper"),
    output:
        [f"paper_tables/paper.{suffix}" for suffix in ("html", "tex", "record.json")],
    log:
        f"{LOGS}/publish/paper.log",
    params:
        spec=spec("publish", ("paper",)),
    message:
        f"Publish the document of scale {SCALE}"
    shell:
        f"tap publish paper --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule publish_paper_pdf:
    input:
        makes("paper_pdf", "pdf"),
        makes("paper_pdf", "record"),
        remade=remade("publish_paper_pdf"),
    output:
        "paper_tables/paper.pdf",
        "paper_tables/paper_pdf.record.json",
    log:
        f"{LOGS}/publish/paper_pdf.log",
    params:
        spec=spec("publish", ("paper_pdf",)),
    message:
        f"Publish the PDF of scale {SCALE}"
    shell:
        f"tap publish paper_pdf --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"
