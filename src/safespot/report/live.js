"use strict";
// Asks for the document every second, and draws what has changed. Texts are set as text, never as HTML.
const PAUSE = 1000;
const source = document.body.dataset.source;
const state = document.getElementById("state"), shown = document.getElementById("shown");
const token = new URLSearchParams(location.hash.slice(1)).get("token");
const headers = token ? { Authorization: `Bearer ${token}` } : {};
const drawn = new Map(); // name of a chart -> { spec, view }
let last = "";

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const number = (value) => (value === null ? "–" : short.format(value).replace("-", "−"));
const range = ([low, high]) => (low === high ? number(low) : `${number(low)} to ${number(high)}`);
const SIGNS = { ">=": "≥", "<=": "≤" };

function table(label, heads, rows) {
  const head = make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text))));
  const body = rows.map(([first, ...rest]) =>
    make("tr", {}, make("th", { scope: "row" }, first), ...rest.map((cell) => make("td", {}, cell))));
  return make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": label },
    make("table", { class: "results" }, head, make("tbody", {}, ...body)));
}

function section(title, says, ...content) {
  return make("section", {}, make("h2", {}, title), says ? make("p", {}, says) : null, ...content);
}

function figure(name, says) {
  const kept = document.querySelector(`figure[data-chart="${name}"]`);
  return kept ?? make("figure", { "data-chart": name }, make("div", { role: "img", "aria-label": says }));
}

const said = (sentences) => make("p", { class: "verdict" }, sentences.join(" "));

function limits(now) {
  const rows = now.limits.map((limit) => [
    limit.name, `${SIGNS[limit.sense]} ${limit.given ? "given, " : ""}${range(limit.bounds)}`,
    range(limit.violation), range(limit.violation_mean),
  ]);
  return table("Limits", ["Limit", "Known of it", "Violation so far", "an episode"], rows);
}

function certificates(now) {
  if (!now.certificates.length) return null;
  const rows = now.certificates.map((one) => [
    `after episode ${number(one.episode)}`, one.verdict.join(", "), range(one.reward),
    one.room.map(range).join("; "), `${100 * one.confidence} %`, one.policy,
  ]);
  return section("Certificates", "Each is about one policy that was frozen before its trial.",
    table("Certificates", ["Issued", "Verdict", "Reward", "Room within the limit", "Confidence", "Policy"], rows));
}

function budget(now) {
  if (!now.budget) return null;
  const rows = now.budget.limits.map((one) => [one.name, number(one.budget), range(one.spent)]);
  return section("Budget", now.budget.said, table("Budget", ["Limit", "Budget", "Spent, proven"], rows));
}

function learner(now) {
  const meters = Object.keys(now.charts).filter((name) => name.startsWith("meter-"));
  return [
    make("header", {}, said(now.said), limits(now)),
    ...(now.doubts.length ? [section("In doubt", now.doubts.join(" "))] : []),
    section("The meter", "The violation so far, as the episodes alone prove it: no model, whatever was played. A band above 0 is a proven violation, one below 0 is proven room.",
      make("div", { class: `grid n${Math.min(meters.length, 2)}` }, ...meters.map((name) => figure(name, "Bounds of the violation against episodes.")))),
    now.charts.epochs
      ? section("The epochs", "What was played when: grey the first policy, orange exploring, blue the trial of a frozen plan, green a retreat. ✓ certified, ✗ proven broken.",
        figure("epochs", "Parts of the phases against episodes."))
      : null,
    budget(now),
    certificates(now),
  ];
}

function store(now) {
  return [
    said(now.said),
    ...now.studies.map(({ problem, said: sentences, table: { heads, rows } }) =>
      section(problem, sentences.join(" "), table(problem, heads, rows))),
    make("p", {}, make("a", { href: "report.html" }, "The whole report, as of now")),
  ];
}

async function draw(name, spec, tables) {
  const div = document.querySelector(`figure[data-chart="${name}"] > div`), text = JSON.stringify(spec);
  const before = drawn.get(name);
  if (before && before.text === text) {
    for (const [key, rows] of Object.entries(tables)) if (before.keys.has(key)) before.view.data(key, rows);
    await before.view.runAsync();
    keepApart(div);
    return;
  }
  before?.view.finalize();
  const keys = new Set(Object.keys(tables).filter((key) => text.includes(`"name":"${key}"`)));
  const datasets = Object.fromEntries([...keys].map((key) => [key, tables[key]]));
  const made = await vegaEmbed(div, { ...structuredClone(spec), datasets }, { mode: "vega-lite", renderer: "svg", actions: false, logLevel: 1 });
  made.view.container().querySelector("svg")?.setAttribute("aria-hidden", "true");
  drawn.set(name, { text, keys, view: made.view });
  keepApart(div);
}

async function show(now) {
  shown.replaceChildren(...(now.kind === "store" ? store(now) : learner(now)).filter((part) => part !== null));
  const tables = { meter: now.curve, epochs: now.epochs };
  if (window.vegaEmbed) for (const [name, spec] of Object.entries(now.charts ?? {})) await draw(name, spec, tables);
}

async function ask() {
  try {
    const answer = await fetch(source, { headers, cache: "no-store" });
    const text = await answer.text();
    const inWords = answer.headers.get("Content-Type")?.startsWith("text/plain");
    if (!answer.ok) throw new Error(inWords ? text.trim() : `${answer.status} ${answer.statusText}`);
    if (text !== last) await show(JSON.parse(text));
    last = text;
    state.textContent = `live; last asked at ${new Date().toLocaleTimeString()}`;
    document.documentElement.dataset.live = "true";
  } catch (problem) {
    state.textContent = `no answer (${problem.message}); what is below is as of before. Asking again …`;
    document.documentElement.dataset.live = "false";
  }
  setTimeout(ask, PAUSE);
}

ask();
