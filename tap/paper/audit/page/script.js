"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const root = document.documentElement;
  const panel = byId("panel");

  // Theme: the reader's choice where the browser keeps one, else the system's.
  const keep = (value) => { try { localStorage.setItem("tap-audit-theme", value); } catch { /* pages from disk may not */ } };
  const kept = () => { try { return localStorage.getItem("tap-audit-theme"); } catch { return null; } };
  if (kept()) root.dataset.theme = kept();
  byId("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    keep(root.dataset.theme);
  });

  // Filters: no pressed tile shows every verdict.
  const tiles = [...document.querySelectorAll("[data-filter]")];
  const claims = [...document.querySelectorAll("details.claim")];
  const apply = () => {
    const wanted = tiles.filter((tile) => tile.getAttribute("aria-pressed") === "true").map((tile) => tile.dataset.filter);
    const text = byId("search").value.trim().toLowerCase();
    let shown = 0;
    for (const claim of claims) {
      const hit = (!wanted.length || wanted.includes(claim.dataset.verdict)) && claim.textContent.toLowerCase().includes(text);
      claim.hidden = !hit;
      shown += hit;
    }
    for (const group of document.querySelectorAll(".group")) group.hidden = !group.querySelector("details.claim:not([hidden])");
    byId("shown").textContent = shown === claims.length ? `${shown} claims` : `${shown} of ${claims.length} claims`;
  };
  for (const tile of tiles) {
    tile.addEventListener("click", () => {
      tile.setAttribute("aria-pressed", String(tile.getAttribute("aria-pressed") !== "true"));
      apply();
    });
  }
  byId("search").addEventListener("input", apply);
  byId("expand").addEventListener("click", (event) => {
    const open = event.target.textContent === "Open all";
    for (const claim of claims) claim.open = open;
    event.target.textContent = open ? "Close all" : "Open all";
  });
  apply();

  // A link to a table or claim opens it.
  const openTarget = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) { target.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", openTarget);
  openTarget();

  // The chain behind a number.
  const make = (name, props = {}, ...children) => {
    const element = Object.assign(document.createElement(name), props);
    element.append(...children);
    return element;
  };
  const short = (hash) => make("code", { title: hash }, String(hash).slice(0, 12));
  const facts = (pairs) => {
    const list = make("dl", { className: "facts" });
    for (const [name, value] of pairs) {
      if (value !== null && value !== undefined && value !== "") list.append(make("dt", {}, name), make("dd", {}, value));
    }
    return list;
  };
  const number = (value) => typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(6))) : String(value);
  const runOf = (file) => {
    const parts = file.split("/");
    if (parts[2] === "runs") return parts.slice(3, 8).join("/");
    return parts[2] === "probes" ? parts.slice(2, 5).join("/") : null;
  };
  const files = (entries, self) => {
    const list = make("ul");
    for (const [file, facts] of Object.entries(entries || {})) {
      const run = runOf(file);
      const item = make("li");
      if (run && run !== self && data.links[run]) {
        item.append(make("button", { type: "button", className: "chain", onclick: () => reveal(run) }, file));
      } else item.append(make("code", {}, file));
      const hash = facts.sha256 || facts.listing;
      if (hash) item.append(" ", short(hash));
      if (facts.bytes) item.append(` ${facts.bytes.toLocaleString("en")} bytes`);
      list.append(item);
    }
    return list;
  };
  const record = (name, content, self) => {
    const versions = Object.entries(content.versions || {}).map(([library, version]) => `${library} ${version}`).join(", ");
    const part = make("section", {}, make("h4", {}, content.job ? `${content.job} (${name})` : name));
    part.append(facts([
      ["code", content.fingerprint ? short(content.fingerprint) : ""],
      ["replayed with the same bits", content.job === "equivalence" ? `${content.parameters.shown}; made by commit ${content.parameters.commit.slice(0, 10)}` : ""],
      ["device", content.device], ["threads", content.threads], ["started", content.started], ["ended", content.ended],
      ["seconds", content.wall_seconds], ["versions", versions], ["seal", content.seal ? short(content.seal) : ""],
    ]));
    for (const key of ["inputs", "outputs"]) {
      if (Object.keys(content[key] || {}).length) part.append(make("strong", {}, key), files(content[key], self));
    }
    const settings = content.spec || content.parameters;
    if (settings) {
      part.append(make("details", {}, make("summary", {}, "parameters"), make("pre", { tabIndex: 0 }, JSON.stringify(settings, null, 1))));
    }
    return part;
  };
  const run = (id) => {
    const link = data.links[id];
    const name = link && link.name !== id ? [`${link.name} `, make("code", {}, id)] : [id];
    const box = make("details", { className: "run" }, make("summary", {}, ...name));
    box.dataset.run = id;
    if (!link) { box.append(make("div", {}, "No record of this run lies here.")); return box; }
    const body = make("div", {}, facts([["folder", make("code", {}, link.folder)]]));
    const metrics = Object.entries(link.metrics);
    if (metrics.length) body.append(make("h4", {}, "metrics"), facts(metrics.map(([name, value]) => [name, number(value)])));
    for (const [name, content] of Object.entries(link.records)) body.append(record(name, content, id));
    box.append(body);
    return box;
  };
  const reveal = (id) => {
    let box = [...byId("panel-body").querySelectorAll(".run")].find((item) => item.dataset.run === id);
    if (!box) { box = run(id); byId("panel-body").append(box); }
    box.open = true;
    box.scrollIntoView({ block: "start" });
    box.querySelector("summary").focus();
  };
  const show = (entry) => {
    byId("panel-title").textContent = entry.title;
    const bounds = entry.low === null ? "" : `${number(entry.low)} to ${number(entry.high)}`;
    const body = [
      facts([
        ["value", entry.text && `${entry.text} ${entry.unit}`.trim()], ["95 % interval or range", bounds],
        ["SD over seeds", entry.sd === null ? "" : number(entry.sd)], ["seeds", entry.seeds || ""], ["device", entry.devices.join(", ")],
      ]),
      make("p", { className: "hint" }, "Each run, and by its inputs what it was made from, back to the data."),
      ...entry.runs.map(run),
    ];
    byId("panel-body").replaceChildren(...body);
    if (entry.runs.length) byId("panel-body").querySelector(".run").open = true;
    panel.showModal();
    panel.scrollTop = 0;
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-number]");
    if (button) show(data.numbers[Number(button.dataset.number)]);
  });
  byId("close").addEventListener("click", () => panel.close());

  // A figure as large as the window; pressing it, or Escape, closes it.
  const large = byId("large");
  for (const button of document.querySelectorAll(".enlarge")) {
    button.addEventListener("click", () => {
      const { src, alt } = button.querySelector("img");
      large.replaceChildren(make("button", { type: "button", className: "shrink", ariaLabel: "Close" }, make("img", { src, alt })));
      large.showModal();
    });
  }
  large.addEventListener("click", () => large.close());
  panel.addEventListener("click", (event) => { if (event.target === panel) panel.close(); });
})();
