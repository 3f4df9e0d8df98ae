"use strict";
// Draws the charts of the study in view, hands what a reader switches to them, and turns tables into CSV.
const studies = JSON.parse(document.getElementById("data").textContent);
const drawn = new Map(); // figure -> its view

const mainOf = (element) => element.closest("main");
const studyOf = (element) => studies[mainOf(element).dataset.study];

function rowsOf(table) {
  const names = Object.keys(table);
  return table[names[0]].map((_, k) => Object.fromEntries(names.map((name) => [name, table[name][k]])));
}

// What the controls of a study say, by the name of the parameter that they set.
function switched(main) {
  const value = (name) => main.querySelector(`[name=${name}]:checked`)?.value;
  const boxes = [...main.querySelectorAll("[name=shown]")];
  const slider = main.querySelector("[name=picked]");
  const all = studyOf(main.firstElementChild).names.map((_, k) => k);
  return {
    shown: boxes.length ? boxes.filter((box) => box.checked).map((box) => +box.value) : all,
    counted: value("counted"),
    scale: value("scale"),
    picked: slider ? JSON.parse(slider.dataset.groups)[+slider.value] : 0,
  };
}

function chosenOf(figure) {
  return +(figure.closest("section").querySelector("[name=chosen]")?.value ?? 0);
}

async function draw(figure) {
  const { tables, charts } = studyOf(figure);
  const now = switched(mainOf(figure));
  const spec = structuredClone(charts[figure.dataset.chart]);
  const used = new Set(JSON.stringify(spec).match(/"name":"(\w+)"/g).map((text) => text.slice(8, -1)));
  spec.datasets = {};
  for (const name of Object.keys(tables)) if (used.has(name)) spec.datasets[name] = rowsOf(tables[name]);
  if (now.scale === "log") {
    for (const { encoding } of spec.layer ?? [])
      for (const axis of spec.usermeta?.logarithmic ?? [])
        encoding[axis].scale = { ...encoding[axis].scale, type: "log", nice: false };
  }
  // Panels side by side, as many as fit, in rows that are equally long.
  if (spec.usermeta?.panel) {
    const { panel, panels } = spec.usermeta, fit = Math.max(1, Math.floor(figure.clientWidth / panel));
    spec.columns = Math.ceil(panels / Math.ceil(panels / fit));
  }
  for (const param of spec.params ?? []) {
    if (param.name === "chosen") param.value = chosenOf(figure);
    else if (param.name in now) param.value = now[param.name];
  }
  drawn.get(figure)?.finalize();
  const made = await vegaEmbed(figure.firstElementChild, spec, { mode: "vega-lite", renderer: "svg", actions: false, logLevel: 1 }); // errors; an empty chart is none
  drawn.set(figure, made);
  // The figure has a text of its own; Vega's would be read out a second time.
  figure.querySelector("svg")?.setAttribute("aria-hidden", "true");
  keepApart(figure);
}

function drawAll(main, which = () => true) {
  return Promise.all([...main.querySelectorAll("figure")].filter(which).map(draw));
}

function set(figures, name, value) {
  for (const figure of figures) {
    const view = drawn.get(figure)?.view;
    if (view && name in view.getState().signals) view.signal(name, value).runAsync().then(() => keepApart(figure));
  }
}

document.addEventListener("input", (event) => {
  const { target } = event;
  if (target.id === "study") return;
  const main = mainOf(target), now = switched(main), figures = [...main.querySelectorAll("figure")];
  if (target.name === "scale") drawAll(main, (figure) => studyOf(figure).charts[figure.dataset.chart].usermeta?.logarithmic?.length);
  else if (target.name === "chosen") set(target.closest("section").querySelectorAll("figure"), "chosen", +target.value);
  else set(figures, target.name, now[target.name]);
  if (target.name === "picked") {
    target.closest("section").querySelector("output").textContent = JSON.parse(target.dataset.says)[+target.value];
  }
});

document.getElementById("study")?.addEventListener("change", (event) => {
  for (const main of document.querySelectorAll("main")) {
    main.hidden = main.dataset.study !== event.target.value;
    if (!main.hidden) drawAll(main);
  }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-table]");
  if (!button) return;
  const { tables, names } = studyOf(button), table = tables[button.dataset.table], columns = Object.keys(table);
  const quoted = (text) => `"${String(text).replaceAll('"', '""')}"`;
  const cell = (name, k) => {
    const value = table[name][k];
    if (value === null) return "";
    if (name === "group") return quoted(names[value] ?? "truth");
    return typeof value === "string" ? quoted(value) : value;
  };
  const lines = table[columns[0]].map((_, k) => columns.map((name) => cell(name, k)).join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([[columns.join(","), ...lines, ""].join("\n")], { type: "text/csv" }));
  link.download = `${button.dataset.table}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});

let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return; // phones resize when a bar slides away
  width = innerWidth;
  drawAll(document.querySelector("main:not([hidden])"), (figure) => ["policy", "epochs"].includes(figure.dataset.chart));
});

drawAll(document.querySelector("main:not([hidden])")).then(() => (document.documentElement.dataset.drawn = "true"));
