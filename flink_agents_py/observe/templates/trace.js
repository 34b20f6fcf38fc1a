"use strict";
const { outcomes, agents, actions, types, functions, runs } = JSON.parse(document.getElementById("data").textContent);
// A run: [agent, key, sequence, outcome, began ms, ms, attempts, events, actions].
// An event: [id, type, ms after the run began, attributes as text, parent or -1, action or -1, times handled].
// An action: [event or -1, name, end, ms or null, outcome, marks, error or null, calls, notes, attempt].
// A call: [function, end, ms or null, outcome, attempts, replayed, error or null].
const AGENT = 0, KEY = 1, SEQUENCE = 2, OUTCOME = 3, BEGAN = 4, MS = 5, ATTEMPTS = 6, EVENTS = 7, ACTIONS = 8;
const ROW = 30;
const byId = (id) => document.getElementById(id);
const list = byId("list"), rows = byId("rows"), pane = byId("run");
const chosen = { outcomes: new Set(), key: "", action: -1, order: "urgent", run: null };
const slowest = runs.reduce((most, run) => Math.max(most, run[MS]), 0.001);
let shown = [];

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "class") made.className = value;
    else if (key === "style") made.style.cssText = value;
    else if (key.startsWith("on")) made[key] = value;
    else made.setAttribute(key, value);
  }
  for (const child of children) if (child !== null && child !== undefined) made.append(child);
  return made;
}

const tint = (outcome) => `--tint: var(--${outcome})`;
const duration = (ms) => ms === null ? "" : ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : `${ms.toFixed(ms < 10 ? 2 : 0)} ms`;
const clock = (ms) => new Date(ms).toISOString().slice(11, 23);

const orders = {
  urgent: (a, b) => a[OUTCOME] - b[OUTCOME] || b[MS] - a[MS],
  slow: (a, b) => b[MS] - a[MS],
  new: (a, b) => b[BEGAN] - a[BEGAN],
  old: (a, b) => a[BEGAN] - b[BEGAN],
};

function select() {
  const key = chosen.key.toLowerCase();
  shown = runs.filter((run) =>
    (chosen.outcomes.size === 0 || chosen.outcomes.has(run[OUTCOME])) &&
    (key === "" || run[KEY].toLowerCase().includes(key)) &&
    (chosen.action === -1 || run[ACTIONS].some((action) => action[1] === chosen.action)));
  shown.sort(orders[chosen.order]);
  rows.style.height = `${shown.length * ROW}px`;
  byId("count").textContent = `${shown.length.toLocaleString("en")} of ${runs.length.toLocaleString("en")} runs`;
  list.scrollTop = 0;
  draw();
}

// Only the rows in sight exist: a list of any length costs the same.
function draw() {
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
  const last = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 5);
  const drawn = [];
  for (let index = first; index < last; index++) {
    const run = shown[index], outcome = outcomes[run[OUTCOME]];
    drawn.push(element("div", {
      class: run === chosen.run ? "row chosen" : "row", style: `top: ${index * ROW}px; ${tint(outcome)}`,
      onclick: () => choose(run),
    },
    element("span", { class: "what" }, outcome),
    element("span", { class: "key", title: run[KEY] }, `${run[KEY]} #${run[SEQUENCE]}`),
    element("span", { class: "at" }, clock(run[BEGAN])),
    element("span", { class: "bar" }, element("i", { style: `width: ${(100 * run[MS]) / slowest}%` })),
    element("span", { class: "ms" }, duration(run[MS]))));
  }
  rows.replaceChildren(...drawn);
}

function lane(kind, name, outcome, end, ms, total) {
  const width = ms === null ? 0 : (100 * ms) / total;
  const from = Math.max(0, (100 * end) / total - width);
  return element("div", { class: `lane ${kind}`, style: tint(outcome) },
    element("span", { class: "name", title: name }, name),
    element("span", { class: "track" }, element("i", { style: `left: ${Math.min(99, from)}%; width: ${Math.min(100 - from, width)}%` })),
    element("span", { class: "ms" }, duration(ms)));
}

function marks(action) {
  const found = action[5].slice();
  if (action[9]) found.push(`attempt ${action[9]}`);
  return found.map((mark) => element("span", { class: "mark" }, mark));
}

const failure = (error) => error === null ? null : element("pre", {}, `${error.code}: ${error.message}${error.traceback ? `\n\n${error.traceback}` : ""}`);

function describeAction(run, action, children) {
  const outcome = outcomes[action[4]];
  const item = element("li", {}, element("span", { class: "tinted", style: tint(outcome) }, `→ ${actions[action[1]]}: ${outcome} ${duration(action[3])}`), ...marks(action), failure(action[6]));
  for (const call of action[7]) {
    item.append(element("div", { class: "place" }, `call ${functions[call[0]]}: ${call[3]}, ${call[4]} attempt(s) ${duration(call[2])}`,
      call[5] ? element("span", { class: "mark" }, "replayed") : null, failure(call[6])));
  }
  for (const note of action[8]) item.append(element("div", { class: "place" }, note));
  if (children.length) item.append(children);
  return item;
}

function tree(run, parent, top) {
  const branch = element("ul", { class: top ? "tree top" : "tree" });
  run[EVENTS].forEach((event, index) => {
    if (event[4] !== parent) return;
    const item = element("li", {}, element("span", { class: "event", title: event[0] }, types[event[1]]),
      event[6] > 1 ? element("span", { class: "mark" }, `handled ${event[6]} times`) : null,
      element("pre", {}, event[3]));
    const handled = element("ul", { class: "tree" });
    run[ACTIONS].forEach((action) => { if (action[0] === index) handled.append(describeAction(run, action, [])); });
    if (handled.childElementCount) item.append(handled);
    const below = tree(run, index, false);
    if (below.childElementCount) item.append(below);
    branch.append(item);
  });
  return branch;
}

function choose(run) {
  chosen.run = run;
  const total = Math.max(run[MS], 0.001), outcome = outcomes[run[OUTCOME]];
  const lanes = [];
  for (const action of run[ACTIONS]) {
    lanes.push(lane("action", actions[action[1]], outcomes[action[4]], Math.max(action[2], action[3] || 0), action[3], total));
    for (const call of action[7]) lanes.push(lane("call", functions[call[0]], call[3] === "returned" ? "call" : "failed", call[1], call[2], total));
  }
  pane.replaceChildren(
    element("h2", {}, `${run[KEY]} #${run[SEQUENCE]}: `, element("span", { class: "tinted", style: tint(outcome) }, outcome)),
    element("p", { class: "place" }, `${agents[run[AGENT]]}, began ${new Date(run[BEGAN]).toISOString()}, ${duration(run[MS])}` +
      (run[ATTEMPTS].length > 1 ? `, attempts ${run[ATTEMPTS].join(", ")} of the job` : "")),
    element("h3", {}, "Timeline"), ...lanes,
    element("h3", {}, "Events"), tree(run, -1, true));
  const lost = run[ACTIONS].filter((action) => action[0] === -1);
  if (lost.length) pane.append(element("ul", { class: "tree top" }, ...lost.map((action) => describeAction(run, action, []))));
  draw();
}

outcomes.forEach((outcome, index) => {
  const many = runs.reduce((sum, run) => sum + (run[OUTCOME] === index), 0);
  if (!many) return;
  byId("outcomes").append(element("button", {
    type: "button", "data-outcome": outcome, "aria-pressed": "false", style: tint(outcome),
    onclick: (event) => {
      const on = chosen.outcomes.delete(index) ? false : (chosen.outcomes.add(index), true);
      event.currentTarget.setAttribute("aria-pressed", String(on));
      select();
    },
  }, `${outcome} ${many.toLocaleString("en")}`));
});
actions.forEach((name, index) => byId("action").append(element("option", { value: index }, name)));
byId("action").onchange = (event) => { chosen.action = event.target.value === "" ? -1 : Number(event.target.value); select(); };
byId("order").onchange = (event) => { chosen.order = event.target.value; select(); };
byId("key").oninput = (event) => { chosen.key = event.target.value; select(); };
list.onscroll = () => requestAnimationFrame(draw);
window.onresize = draw;
select();
if (shown.length) choose(shown[0]);
document.body.dataset.ready = "true";
