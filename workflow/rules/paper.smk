# All tables and figures in the paper's order, each beside the printed one: `snakemake paper_tables/paper.html`, and with
# LaTeX installed `snakemake paper_tables/paper.pdf`.


localrules:
    publish_paper,
    publish_paper_pdf,


rule paper_page:
    input:
        tables=reads("paper_page", "tables"),
        figures=reads("paper_page", "figures"),
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
        source=reads("paper_pdf", "source"),
        figures=reads("paper_pdf", "figures"),
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
        reads("publish", "originals", ("paper",)),
        remade=remade("publish_paper"),
    output:
        made("publish", ("paper",)),
    log:
        f"{LOGS}/publish/paper.log",
    resources:
        mem_mb=takes("publish", "memory_mb", ("paper",)),
        runtime=takes("publish", "minutes", ("paper",)),
    params:
        spec=spec("publish", ("paper",)),
    message:
        f"Publish the document of scale {SCALE}"
    shell:
        f"tap publish paper --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"


rule publish_paper_pdf:
    input:
        reads("publish", "originals", ("paper_pdf",)),
        remade=remade("publish_paper_pdf"),
    output:
        made("publish", ("paper_pdf",)),
    log:
        f"{LOGS}/publish/paper_pdf.log",
    resources:
        mem_mb=takes("publish", "memory_mb", ("paper_pdf",)),
        runtime=takes("publish", "minutes", ("paper_pdf",)),
    params:
        spec=spec("publish", ("paper_pdf",)),
    message:
        f"Publish the PDF of scale {SCALE}"
    shell:
        f"tap publish paper_pdf --scale {SCALE} --spec {{params.spec:q}} 2>&1 | tee {{log}}"
