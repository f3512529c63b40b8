// The page of docket watch: one run at a time, folded from its event stream, drawn at most four times a second.
//
// Everything that a run says is shown as text, never as markup. Nothing is fetched but from this server.

import uPlot from "/static/vendor/uPlot.mjs";
import { Stream } from "/static/stream.mjs";
import { verifyFiles } from "/static/verifier/given.mjs";

const SHOWN_EVENTS = 300, SHOWN_CALLS = 100, KEPT_EVENTS = 60000, POINTS = 600, DRAW = 250;
const at = (id) => document.getElementById(id);

/** A new element with `text`, which is never read as markup. */
function element(tag, text = "", kind = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

const row = (cells) => {
  const made = element("tr");
  for (const cell of cells) made.append(cell instanceof Node ? cell : element("td", String(cell)));
  return made;
};

const fresh = () => ({
  docket: "", label: null, outcome: null, elapsed: 0, limits: {}, usd: 0, tokens: 0, calls: 0, errors: 0, denied: 0,
  kinds: {}, open: new Map(), done: [], breakers: {}, hits: 0, lost: 0, violations: [], breach: null, events: [], dropped: 0,
  types: new Set(), files: [], changes: {}, points: [[0], [0], [0]],
});

let run = fresh();
let stream = null;
let due = false;
let plot = null;

const folds = {
  "session.start": (d, e) => {
    run.docket = d.docket;
    run.outcome = null;
    run.label = e.private?.label?.value ?? null;
  },
  "policy.applied": (d, e) => {
    run.limits = e.private?.document?.value?.caps ?? {};
  },
  "session.end": (d) => {
    run.outcome = d.outcome;
    run.open.clear();
  },
  "model.request": (d, e) => {
    run.calls += 1;
    run.open.set(d.call, { call: d.call, model: d.model, since: e.elapsed_us, hold: Number(d.hold?.usd ?? 0) });
  },
  "model.response": (d, e) => end(d, e, false),
  "model.error": (d, e) => end(d, e, true),
  "model.denied": (d) => {
    run.denied += d.count;
  },
  "model.cache_hit": () => {
    run.hits += 1;
  },
  "x-docket.ledger-gap": (d) => {
    run.lost += d.lost.count;
  },
  "policy.violation": (d) => run.violations.push(d.rule),
  "cap.exceeded": (d) => {
    run.breach ??= d;
  },
  "fs.change": (d, e) => {
    run.changes[d.change] = (run.changes[d.change] ?? 0) + 1;
    if (run.files.length < SHOWN_EVENTS) run.files.push(`${d.change}  ${e.private?.path?.value ?? "(withheld)"}`);
  },
};

/** The end of a call; what caps count for it is its bill, or its hold where the bill is not known. */
function end(d, e, failed) {
  const begun = run.open.get(d.call) ?? { since: e.elapsed_us, hold: 0 };
  run.open.delete(d.call);
  run.errors += failed ? 1 : 0;
  const bill = d.usage;
  const cost = bill?.cost_usd === undefined ? null : Number(bill.cost_usd);
  const booked = cost === null ? (bill ? begun.hold : 0) : bill.source === "reported" ? cost : Math.max(cost, begun.hold);
  run.usd += booked;
  for (const item of bill?.items ?? []) {
    run.kinds[item.kind] = (run.kinds[item.kind] ?? 0) + item.quantity;
    if (item.per !== 1) run.tokens += item.quantity;
  }
  run.done.push({ call: d.call, model: d.model, since: begun.since, took: d.duration_us ?? 0, first: d.first_byte_us ?? null,
    reason: d.reason, status: d.status, usd: booked, failed });
  if (run.done.length > 2 * SHOWN_CALLS) run.done.splice(0, SHOWN_CALLS);
  const [times, usd, tokens] = run.points;
  times.push(e.elapsed_us / 1e6);
  usd.push(run.usd);
  tokens.push(run.tokens);
  if (times.length > 2 * POINTS) run.points = run.points.map((list) => list.filter((_, i) => i % 2 === 0 || i === list.length - 1));
}

function take(event) {
  run.elapsed = event.elapsed_us;
  if (event.type.startsWith("x-docket.breaker-")) run.breakers[event.data.upstream] = event.type.slice(17);
  folds[event.type]?.(event.data, event);
  if (!run.types.has(event.type) && run.types.size < 200) {
    run.types.add(event.type);
    at("filter").append(element("option", event.type));
  }
  run.events.push(event);
  if (run.events.length > KEPT_EVENTS) run.dropped += run.events.splice(0, KEPT_EVENTS / 4).length;
  wish();
}

/** Draw soon, once. */
function wish() {
  if (due) return;
  due = true;
  setTimeout(() => {
    due = false;
    draw();
  }, DRAW);
}

const seconds = (us) => (us < 60e6 ? `${(us / 1e6).toFixed(1)} s` : `${Math.floor(us / 60e6)} min ${Math.floor((us % 60e6) / 1e6)} s`);
const money = (usd) => usd.toFixed(6).replace(/\.?0+$/, "") || "0";

function draw() {
  const live = run.outcome === null;
  at("state").textContent = `${run.label ? `${run.label}: ` : ""}${run.outcome ?? "running"}, ${seconds(run.elapsed)}`;
  at("state").className = live ? "good" : run.outcome === "completed" ? "" : "warn";
  drawCaps();
  const facts = [
    ["calls", `${run.calls}, ${run.open.size} under way`], ["errors", run.errors], ["refused", run.denied],
    ["tokens", Object.entries(run.kinds).map(([kind, n]) => `${n.toLocaleString("en")} ${kind}`).join(", ") || "0"],
    ["from the cache", run.hits],
    ["breakers", Object.entries(run.breakers).map(([name, word]) => `${name}: ${word}`).join(", ") || "closed"],
  ];
  if (run.lost) facts.push(["events lost", run.lost]);
  if (run.violations.length) facts.push(["violations", run.violations.join(", ")]);
  if (run.breach) facts.push(["breached", `${run.breach.cap}: ${run.breach.observed} of ${run.breach.limit}`]);
  at("facts").replaceChildren(...facts.flatMap(([name, value]) => [element("dt", name), element("dd", String(value))]));
  plot?.setData(run.points);
  drawCalls();
  drawEvents();
  at("files-empty").hidden = run.files.length > 0;
  at("files").replaceChildren(...run.files.map((text) => element("li", text)));
}

function drawCaps() {
  const caps = [["max_usd", run.usd, "USD"], ["max_tokens", run.tokens, "tokens"], ["max_model_calls", run.calls, "calls"],
    ["max_wall_seconds", run.elapsed / 1e6, "s"]];
  const made = [element("p", `${money(run.usd)} USD booked`)];
  for (const [name, used, unit] of caps) {
    const limit = run.limits[name];
    if (limit === undefined || limit === null) continue;
    const share = Number(limit) ? used / Number(limit) : 1;
    const label = element("label", `${name}: ${money(used)} of ${limit} ${unit} (${Math.round(share * 100)} %)`);
    label.className = share >= 1 ? "bad" : share >= 0.8 ? "warn" : "";
    const bar = element("progress");
    bar.max = 1;
    bar.value = Math.min(share, 1);
    label.append(bar);
    made.push(label);
  }
  at("caps").replaceChildren(...made);
}

/** One call's place in time: waiting for the first byte, then the answer. */
function waterfall(call, from, to) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("class", "bar");
  svg.setAttribute("viewBox", "0 0 100 8");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `from ${seconds(call.since)}, ${seconds(call.took)}`);
  const x = (us) => (100 * (us - from)) / Math.max(1, to - from);
  const first = call.first ?? call.took;
  for (const [a, b] of [[from, to], [call.since, call.since + first], [call.since + first, call.since + call.took]]) {
    const rect = document.createElementNS(ns, "rect");
    rect.setAttribute("x", x(a));
    rect.setAttribute("width", Math.max(0, x(b) - x(a)));
    rect.setAttribute("height", 8);
    svg.append(rect);
  }
  return svg;
}

function drawCalls() {
  const open = [...run.open.values()].map((call) => ({ ...call, took: run.elapsed - call.since, first: null, reason: "under way", usd: null }));
  const calls = [...run.done.slice(-SHOWN_CALLS), ...open].slice(-SHOWN_CALLS);
  at("calls-empty").hidden = calls.length > 0;
  const from = Math.min(...calls.map((call) => call.since));
  const to = Math.max(...calls.map((call) => call.since + call.took));
  at("calls").tBodies[0].replaceChildren(
    ...calls.reverse().map((call) => {
      const time = element("td");
      time.append(waterfall(call, from, to));
      const status = element("td", call.status ? `${call.reason} ${call.status}` : call.reason, call.failed ? "bad" : "");
      return row([call.call, call.model, status, call.usd === null ? "" : money(call.usd), time]);
    }),
  );
}

const said = (event) => Object.entries(event.data).filter(([, v]) => typeof v !== "object").map(([k, v]) => `${k}=${v}`).join(" ");

function drawEvents() {
  const type = at("filter").value, text = at("search").value.toLowerCase();
  const found = [];
  for (let i = run.events.length - 1; i >= 0 && found.length < SHOWN_EVENTS; i -= 1) {
    const event = run.events[i];
    if (type && event.type !== type) continue;
    if (text && !`${event.type} ${said(event)}`.toLowerCase().includes(text)) continue;
    found.push(row([event.seq, event.ts.slice(11, 23), event.type, said(event)]));
  }
  at("events").tBodies[0].replaceChildren(...found);
}

async function check() {
  at("verdict").textContent = "reading …";
  at("verdict").className = "";
  at("remarks").replaceChildren();
  at("checks").tBodies[0].replaceChildren();
  const files = [];
  for (const name of ["receipt.json", "ledger.jsonl", "checkpoints"]) {
    const answer = await fetch(`/docket/documents/${name}?run=${encodeURIComponent(at("run").value)}`, { cache: "no-store" });
    if (answer.ok) files.push(new File([await answer.blob()], name));
  }
  const found = await verifyFiles(files);
  at("verdict").textContent = found.verdict;
  at("verdict").className = found.verdict === "verified" ? "good" : ["failed", "unreadable"].includes(found.verdict) ? "bad" : "warn";
  at("remarks").replaceChildren(...found.remarks.map((remark) => element("li", remark)));
  at("checks").tBodies[0].replaceChildren(
    ...found.checks.map(({ id, status, detail }) =>
      row([id, element("td", status, status === "fail" ? "bad" : status === "pass" ? "good" : "soft"), detail ?? ""])),
  );
}

/** The plot, in the colours of the page; made anew where its width changes. */
function makePlot() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--ink"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") } };
  plot?.destroy();
  plot = new uPlot(
    {
      width: at("plot").clientWidth, height: 220, scales: { x: { time: false } },
      series: [{ label: "s" }, { label: "USD", stroke: colour("--bar"), width: 2, scale: "usd" },
        { label: "tokens", stroke: colour("--good"), width: 1, dash: [6, 4], scale: "tokens" }],
      axes: [axis, { ...axis, scale: "usd", size: 70 }, { ...axis, scale: "tokens", side: 1, size: 80, grid: { show: false } }],
    },
    run.points, at("plot"),
  );
}

function follow() {
  stream?.stop();
  run = fresh();
  at("filter").replaceChildren(element("option", "all types"));
  at("filter").firstChild.value = "";
  at("verdict").textContent = "";
  makePlot();
  wish();
  let lostAt = null;
  stream = new Stream(`/docket/events?run=${encodeURIComponent(at("run").value)}`, {
    onEvent: take,
    onReset: () => {
      const keep = stream;
      run = fresh();
      stream = keep;
    },
    onState: ({ connected, failures = 0, error }) => {
      if (connected) lostAt = null;
      else lostAt ??= Date.now();
      const old = lostAt === null ? 0 : Math.round((Date.now() - lostAt) / 1000);
      at("link").textContent = error ?? (connected || failures < 2 ? "" : `reconnecting${old >= 60 ? `, ${old} s old` : ""}`);
      at("link").className = "warn";
    },
  });
  stream.run();
}

async function start() {
  const { runs } = await (await fetch("/docket/runs", { cache: "no-store" })).json();
  at("run").replaceChildren(...runs.reverse().map((name) => element("option", name)));
  at("run").addEventListener("change", follow);
  at("filter").addEventListener("change", wish);
  at("search").addEventListener("input", wish);
  at("verify").addEventListener("click", check);
  new ResizeObserver(() => plot?.setSize({ width: at("plot").clientWidth, height: 220 })).observe(at("plot"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", makePlot);
  if (runs.length) follow();
  else at("state").textContent = "no run yet";
}

start();
