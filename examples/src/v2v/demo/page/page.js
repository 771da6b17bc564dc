// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
// Shows one View after another (examples/src/v2v/demo/view.rs), and sends what the sliders say.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const TRACE_MS = 60_000;
const LONGEST_AGE_MS = 30_000;
const STALE_MS = 1_000;
/** Beyond this loss nothing is drawn between two vehicles. */
const SILENT_PERCENT = 98;

const byId = (id) => document.getElementById(id);
let town = null;
/** For each link: [at_ms, oldest_ms] of the last minute. */
const traces = [[], []];
/** Of the view before: less than that is another demo. */
let elapsed_s = 0;

/** The child with this key, made once and kept: thirty vehicles ten times a second leave no garbage. */
function keep(parent, key, name, build) {
  const children = (parent.kept ??= new Map());
  let child = children.get(key);
  if (!child) {
    child = document.createElementNS(SVG, name);
    build?.(child);
    parent.append(child);
    children.set(key, child);
  }
  child.used = true;
  return child;
}

function sweep(parent) {
  for (const [key, child] of parent.kept ?? []) {
    if (!child.used) {
      child.remove();
      parent.kept.delete(key);
    }
    child.used = false;
  }
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
}

function text(element, words) {
  if (element.textContent !== words) {
    element.textContent = words;
  }
}

const at = (point) => ({ x: point.x_m, y: -point.y_m });
const move = (point, more = "") => `translate(${at(point).x.toFixed(1)}px, ${at(point).y.toFixed(1)}px)${more}`;

function drawTown() {
  const all = town.streets.flat().map(at);
  const [left, right] = [Math.min(...all.map((p) => p.x)), Math.max(...all.map((p) => p.x))];
  const [top, bottom] = [Math.min(...all.map((p) => p.y)), Math.max(...all.map((p) => p.y))];
  const edge = 46;
  town.middle = (left + right) / 2;
  set(byId("map"), { viewBox: [left - edge, top - edge, right - left + 2 * edge, bottom - top + 2 * edge].join(" ") });
  for (const kind of ["edge", "lane"]) {
    for (const [a, b] of town.streets) {
      const line = document.createElementNS(SVG, "line");
      set(line, { class: kind, x1: at(a).x, y1: at(a).y, x2: at(b).x, y2: at(b).y });
      byId("streets").append(line);
    }
  }
}

/** Labels stand on the side where there is more town, a little below the vehicle's own street. */
function drawRings(own) {
  const rings = byId("rings");
  const { x, y } = at(own);
  const side = x < town.middle ? 1 : -1;
  for (const metres of [200, 350, town.range_m]) {
    const circle = keep(rings, `ring ${metres}`, "circle");
    set(circle, { r: metres, cx: x, cy: y, class: metres === town.range_m ? "range" : "" });
    const label = keep(rings, `label ${metres}`, "text");
    set(label, { x: x + side * metres * 0.97, y: y + metres * 0.26 });
    text(label, `${metres} m`);
  }
}

function drawVehicles(view) {
  const [vehicles, lines] = [byId("vehicles"), byId("lines")];
  const own = view.vehicles.find((v) => v.vehicle === town.own);
  for (const { vehicle, motion, distance_m, loss_percent } of view.vehicles) {
    const isOwn = vehicle === town.own;
    const car = keep(vehicles, vehicle, "g", (group) => {
      const [shape, label] = [document.createElementNS(SVG, "path"), document.createElementNS(SVG, "text")];
      set(shape, { d: "M0 -15 C6 -12 7.5 -4 7.5 4 L6.5 13 L-6.5 13 L-7.5 4 C-7.5 -4 -6 -12 0 -15 Z" });
      set(label, { y: -19 });
      label.textContent = isOwn ? "monitored" : String(vehicle);
      const turned = document.createElementNS(SVG, "g");
      turned.append(shape);
      group.append(turned, label);
    });
    car.setAttribute("class", isOwn ? "own" : distance_m > town.range_m ? "away" : "");
    car.style.transform = move(motion.position);
    car.firstChild.setAttribute("transform", `rotate(${motion.heading_deg.toFixed(1)})`);
    if (isOwn || loss_percent > SILENT_PERCENT) {
      continue;
    }
    const kind = loss_percent < 5 ? "loss-low" : loss_percent < 30 ? "loss-mid" : "loss-high";
    const [a, b] = [at(own.motion.position), at(motion.position)];
    set(keep(lines, `line ${vehicle}`, "line"), { class: kind, x1: a.x, y1: a.y, x2: b.x, y2: b.y });
    const label = keep(lines, `loss ${vehicle}`, "text");
    set(label, { x: (a.x + 2 * b.x) / 3, y: (a.y + 2 * b.y) / 3 + 5 });
    text(label, `${loss_percent < 9.5 ? loss_percent.toFixed(1) : loss_percent.toFixed(0)} %`);
  }
  sweep(vehicles);
  sweep(lines);
  drawRings(own.motion.position);
}

/** Where each link's monitor last heard every near vehicle. */
function drawGhosts(view) {
  const ghosts = byId("ghosts");
  const places = new Map(view.vehicles.map((v) => [v.vehicle, v]));
  view.links.forEach((link, index) => {
    for (const { vehicle, distance_m, position } of link.report?.vehicles ?? []) {
      const truth = places.get(vehicle)?.motion.position;
      if (!position || !truth || distance_m > town.range_m) {
        continue;
      }
      const [a, b] = [at(position), at(truth)];
      const tie = keep(ghosts, `tie ${index} ${vehicle}`, "line");
      set(tie, { class: `tie-${index}`, x1: a.x, y1: a.y, x2: b.x, y2: b.y });
      const ghost = keep(ghosts, `ghost ${index} ${vehicle}`, index === 0 ? "circle" : "rect", (shape) => {
        set(shape, index === 0 ? { r: 11 } : { x: -12, y: -12, width: 24, height: 24 });
      });
      ghost.setAttribute("class", `ghost-${index}`);
      ghost.setAttribute("transform", `translate(${a.x.toFixed(1)} ${a.y.toFixed(1)})`);
    }
  });
  sweep(ghosts);
}

/** A hazard is seen on the map when it happens, whether anybody hears of it or not. */
function drawFlashes(view) {
  const flashes = byId("flashes");
  const places = new Map(view.vehicles.map((v) => [v.vehicle, v.motion.position]));
  for (const { vehicle, number, at_ms } of view.links[0].report?.hazard_list ?? []) {
    if (view.at_ms - at_ms > 3_000 || !places.has(vehicle)) {
      continue;
    }
    const flash = keep(flashes, `${vehicle} ${number}`, "g", (group) => {
      const sign = document.createElementNS(SVG, "text");
      set(sign, { y: 34 });
      sign.textContent = "⚠";
      group.append(document.createElementNS(SVG, "circle"), sign);
    });
    flash.style.transform = move(places.get(vehicle));
  }
  sweep(flashes);
}

function showLink(view, index) {
  const { name, radio, report } = view.links[index];
  const section = byId(`link-${index}`);
  document.querySelectorAll(`.name-${index}`).forEach((element) => text(element, name));
  text(section.querySelector('[data-is="name"]'), name);
  text(section.querySelector('[data-is="radio"]'), `${radio.kbytes_per_s.toFixed(0)} kB/s`);
  if (!report) {
    return;
  }
  section.dataset.report = report.number;
  section.querySelectorAll("[data-shown]").forEach((element) => text(element, report.shown[element.dataset.shown]));
  const trace = traces[index];
  if (trace.at(-1)?.[0] !== report.at_ms) {
    trace.push([report.at_ms, report.ages.oldest_ms]);
  }
  while (trace.length && trace[0][0] < view.at_ms - TRACE_MS) {
    trace.shift();
  }
  showWarnings(section.querySelector(".warnings"), report.shown.warnings);
}

function showWarnings(list, rows) {
  while (list.children.length < rows.length) {
    const row = document.createElement("li");
    row.append(...["who", "what", "when"].map((part) => {
      const span = document.createElement("span");
      span.className = part;
      return span;
    }));
    list.append(row);
  }
  while (list.children.length > rows.length) {
    list.lastChild.remove();
  }
  rows.forEach(({ kind, vehicle, what, when }, index) => {
    const row = list.children[index];
    row.className = kind;
    [String(vehicle), what, when].forEach((words, part) => text(row.children[part], words));
  });
}

/** The trace without the moments that have no age, cut in pieces where they were. */
function piecesOf(trace) {
  const pieces = [[]];
  for (const moment of trace) {
    if (moment[1] === null) {
      pieces.push([]);
    } else {
      pieces.at(-1).push(moment);
    }
  }
  return pieces.filter((piece) => piece.length);
}

/** Ages on a logarithmic scale, from 50 ms at the bottom; above one second nobody knows where a vehicle is. */
function drawTrace(canvas, trace, now) {
  const [width, height, scale] = [canvas.clientWidth, canvas.clientHeight, window.devicePixelRatio || 1];
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(name).trim();
  const c = canvas.getContext("2d");
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.clearRect(0, 0, width, height);
  const [left, top, bottom] = [44, 4, height - 18];
  const y = (ms) => {
    const share = Math.log(Math.min(Math.max(ms, 50), LONGEST_AGE_MS) / 50) / Math.log(LONGEST_AGE_MS / 50);
    return bottom - share * (bottom - top);
  };
  const x = (ms) => width - 1 - ((now - ms) / TRACE_MS) * (width - 1 - left);
  c.font = "12px system-ui, sans-serif";
  c.textBaseline = "middle";
  c.lineWidth = 1;
  for (const [ms, label] of [[100, "0.1 s"], [1_000, "1 s"], [10_000, "10 s"]]) {
    c.strokeStyle = colour("--rule");
    c.beginPath();
    c.moveTo(left, Math.round(y(ms)) + 0.5);
    c.lineTo(width, Math.round(y(ms)) + 0.5);
    c.stroke();
    c.fillStyle = colour("--soft");
    c.textAlign = "right";
    c.fillText(label, left - 6, y(ms));
  }
  c.textAlign = "left";
  c.fillText("a minute ago", left, height - 6);
  c.textAlign = "right";
  c.fillText("now", width - 2, height - 6);

  c.save();
  c.beginPath();
  c.rect(left, 0, width - left, bottom + 1);
  c.clip();
  // While no vehicle is near there is no age, and nothing is drawn.
  const pieces = piecesOf(trace);
  // What is above a second is filled: there the link is blind.
  const limit = y(STALE_MS);
  c.beginPath();
  for (const piece of pieces) {
    c.moveTo(x(piece[0][0]), limit);
    piece.forEach(([ms, age]) => c.lineTo(x(ms), Math.min(y(age), limit)));
    c.lineTo(x(piece.at(-1)[0]), limit);
  }
  c.fillStyle = colour("--of-link");
  c.globalAlpha = 0.28;
  c.fill();
  c.globalAlpha = 1;
  c.beginPath();
  for (const piece of pieces) {
    piece.forEach(([ms, age], index) => (index ? c.lineTo(x(ms), y(age)) : c.moveTo(x(ms), y(age))));
  }
  c.strokeStyle = colour("--of-link");
  c.lineWidth = 1.8;
  c.lineJoin = "round";
  c.stroke();
  c.restore();
}

function show(view) {
  byId("gone").hidden = true;
  if (view.elapsed_s < elapsed_s) {
    traces.forEach((trace) => trace.splice(0));
  }
  elapsed_s = view.elapsed_s;
  const minutes = Math.floor(view.elapsed_s / 60);
  text(byId("elapsed"), `${minutes}:${String(Math.floor(view.elapsed_s % 60)).padStart(2, "0")} min`);
  text(byId("count"), `${view.vehicles.length} vehicles`);
  drawVehicles(view);
  drawGhosts(view);
  drawFlashes(view);
  view.links.forEach((_, index) => {
    showLink(view, index);
    drawTrace(byId(`link-${index}`).querySelector("canvas"), traces[index], view.at_ms);
  });
  showSliders(view.added);
  document.body.dataset.views = Number(document.body.dataset.views ?? 0) + 1;
}

const sliders = { drop: "drop_percent", burst: "burst_packets", delay: "delay_ms" };
const units = { drop: " %", burst: "", delay: " ms" };
const switches = ["fades", "second"];
/** While somebody moves a slider, and until the radio follows, the page does not move it back. */
let touched = 0;

function showSliders(added) {
  if (performance.now() - touched < 1_000) {
    return;
  }
  for (const [id, key] of Object.entries(sliders)) {
    byId(id).value = added[key];
  }
  for (const id of switches) {
    byId(id).checked = added[id];
  }
  showValues();
}

function showValues() {
  const values = Object.keys(sliders).map((id) => byId(id).value);
  Object.keys(sliders).forEach((id, index) => text(byId(`${id}-value`), values[index] + units[id]));
  document.querySelectorAll("[data-radio]").forEach((button) => {
    button.setAttribute("aria-pressed", String(button.dataset.radio === values.join(",")));
  });
}

let sending = false;
let again = false;

/** One request at a time; what changes meanwhile goes with the next. */
async function send() {
  touched = performance.now();
  showValues();
  if (sending) {
    again = true;
    return;
  }
  sending = true;
  do {
    again = false;
    const figures = Object.entries(sliders).map(([id, key]) => [key, Number(byId(id).value)]);
    const asked = Object.fromEntries([...figures, ...switches.map((id) => [id, byId(id).checked])]);
    try {
      const answer = await fetch("/api/radio", { method: "POST", body: JSON.stringify(asked) });
      const refused = answer.ok ? "" : (await answer.json()).error;
      text(byId("refused"), refused);
      byId("refused").hidden = !refused;
    } catch {
      byId("gone").hidden = false;
    }
  } while (again);
  sending = false;
}

function listenToSliders() {
  [...Object.keys(sliders), ...switches].forEach((id) => byId(id).addEventListener("input", send));
  document.querySelectorAll("[data-radio]").forEach((button) => {
    button.addEventListener("click", () => {
      const values = button.dataset.radio.split(",");
      Object.keys(sliders).forEach((id, index) => (byId(id).value = values[index]));
      send();
    });
  });
}

async function start() {
  for (const index of [0, 1]) {
    byId(`link-${index}`).append(byId("link-template").content.cloneNode(true));
  }
  listenToSliders();
  town = await (await fetch("/api/town")).json();
  byId("second-label").hidden = town.radios < 2;
  drawTown();
  const views = new EventSource("/api/views");
  views.onmessage = (event) => show(JSON.parse(event.data));
  views.onerror = () => (byId("gone").hidden = false);
}

start();
