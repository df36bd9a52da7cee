// The cards below the view: health, the way from above, confidence, time, memory, points.
"use strict";

function table(rows) {
  return el("table", {}, el("tbody", {}, ...rows.filter(row => row[1] !== null && row[1] !== undefined && row[1] !== "")
    .map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)))));
}
const card = (title, ...children) => el("section", { className: "card" }, el("h2", {}, title), ...children);

function healthCard() {
  const content = [];
  for (const warning of health.warnings) {
    const note = el("div", { className: "note" }, warning.text);
    if (warning.first >= 0) {
      note.append(el("br"), ...[...new Set([warning.first, warning.last])].map(i =>
        el("button", { type: "button", onclick: () => choose(i, "gallery") }, files[i])));
    }
    content.push(note);
  }
  if (uncompared) content.push(el("p", {}, `The frames were not compared with each other: ${uncompared}.`));
  else if (!health.warnings.length) content.push(el("p", {}, "Nothing conspicuous: the frames are connected and agree with each other."));
  content.push(table([["Connected parts", health.parts > 0 ? health.parts : null],
    ["Confirmed by others, median", isNumber(health.agreement) ? percent(health.agreement) : null],
    ["Cameras", report.poses]]));
  const others = report.warnings.filter(text => !health.warnings.some(warning => warning.text === text));
  if (others.length) content.push(el("p", { className: "soft" }, "Other warnings of the run"), ...others.map(text => el("p", { className: "note" }, text)));
  return card("Health", ...content);
}

// The cameras' way from above: along the axis that they hold for up.
function trajectoryCard() {
  const known = scene.cameras.map((camera, i) => camera && { i, at: camera.center, look: camera.look }).filter(Boolean);
  if (!known.length) return null;
  const { east, north } = scene.ground, flat = p => [vector.dot(p, east), -vector.dot(p, north)];
  const cloud = (scene.plan || []), places = known.map(camera => flat(camera.at));
  const xs = [...places.map(p => p[0])], ys = [...places.map(p => p[1])];
  for (let k = 0; k + 1 < cloud.length; k += 2) { xs.push(cloud[k]); ys.push(-cloud[k + 1]); }
  const bounds = list => [list.reduce((a, b) => Math.min(a, b), Infinity), list.reduce((a, b) => Math.max(a, b), -Infinity)];
  const [x0, x1] = bounds(xs), [y0, y1] = bounds(ys), size = Math.max(x1 - x0, y1 - y0) || 1, pad = size * 0.06;
  const wide = 400, tall = Math.max(160, Math.min(360, wide * ((y1 - y0) + 2 * pad) / ((x1 - x0) + 2 * pad)));
  const scale = Math.min(wide / (x1 - x0 + 2 * pad), tall / (y1 - y0 + 2 * pad));
  const X = x => (x - (x0 + x1) / 2) * scale + wide / 2, Y = y => (y - (y0 + y1) / 2) * scale + tall / 2;
  const drawing = svg("svg", { viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": "The cameras' way from above" });
  let dots = "";
  for (let k = 0; k + 1 < cloud.length; k += 2) dots += `M${X(cloud[k]).toFixed(1)} ${Y(-cloud[k + 1]).toFixed(1)}h0`;
  drawing.append(svg("path", { d: dots, stroke: "var(--soft)", "stroke-opacity": 0.5, "stroke-width": 2, "stroke-linecap": "round", fill: "none" }),
    svg("polyline", { points: places.map(p => `${X(p[0])},${Y(p[1])}`).join(" "), fill: "none", stroke: "var(--soft)", "stroke-width": 1 }));
  known.forEach((camera, k) => {
    const [x, y] = [X(places[k][0]), Y(places[k][1])], look = flat(camera.look), long = Math.hypot(...look) || 1;
    const dot = svg("g", { style: "cursor:pointer" },
      svg("line", { x1: x, y1: y, x2: x + 11 * look[0] / long, y2: y + 11 * look[1] / long, stroke: cssColor(camera.i), "stroke-width": 2 }),
      svg("circle", { cx: x, cy: y, r: count > 300 ? 2 : 4, fill: cssColor(camera.i),
        stroke: warningsOf[camera.i].length ? "var(--warm)" : "none", "stroke-width": 2 }));
    dot.addEventListener("click", () => choose(camera.i));
    dot.append(svg("title", {}, files[camera.i]));
    drawing.append(dot);
  });
  const mark = svg("circle", { "data-mark": 1, r: 8, fill: "none", stroke: "var(--text)", "stroke-width": 2, visibility: "hidden" });
  marks.push(i => {
    const k = known.findIndex(camera => camera.i === i);
    mark.setAttribute("r", k < 0 ? 0 : 8);
    if (k >= 0) { mark.setAttribute("cx", X(places[k][0])); mark.setAttribute("cy", Y(places[k][1])); }
  });
  drawing.append(mark);
  return card("From above", drawing, el("p", { className: "soft" },
    "Blue is the first frame, red the last; strokes show where the cameras look."));
}

function histogramCard() {
  const { histogram } = scene;
  if (!histogram || !histogram.counts.length) return null;
  const { counts, low, high } = histogram, most = Math.max(...counts), wide = 400, tall = 130, step = wide / counts.length;
  const drawing = svg("svg", { viewBox: `0 0 ${wide} ${tall + 18}`, role: "img", "aria-label": "Histogram of confidence" });
  const xOf = value => (value - low) / (high - low || 1) * wide, limit = report.conf_threshold;
  counts.forEach((n, i) => {
    const height = n / most * tall, middle = low + (i + 0.5) * (high - low) / counts.length;
    drawing.append(svg("rect", { x: i * step + 0.5, width: step - 1, y: tall - height, height,
      fill: report.cloud_source && middle < limit ? "var(--line)" : "var(--accent)" }));
  });
  const text = (x, anchor, words) => svg("text", { x, y: tall + 14, "text-anchor": anchor, "font-size": 12, fill: "var(--soft)" }, words);
  drawing.append(text(0, "start", digits(low, 2)), text(wide, "end", digits(high, 2)));
  if (report.cloud_source && limit > low && limit < high) {
    drawing.append(svg("line", { x1: xOf(limit), x2: xOf(limit), y1: 0, y2: tall, stroke: "var(--warm)", "stroke-width": 2 }),
      text(Math.min(wide - 40, Math.max(40, xOf(limit))), "middle", digits(limit, 3)));
  }
  return card("Confidence", drawing, el("p", { className: "soft" },
    "How sure the network is of its pixels' depth; what is gray is below the limit and gives no points."));
}

function timeCard() {
  const stages = Object.entries(report.seconds).filter(([name]) => name !== "total"), predicted = report.predicted_seconds || {};
  for (const name of Object.keys(predicted)) if (!(name in report.seconds)) stages.push([name, 0]);
  const most = Math.max(1e-9, ...stages.map(([name, value]) => Math.max(value, predicted[name] || 0)));
  const bars = el("div", { className: "bars" });
  for (const [name, value] of stages) {
    const bar = el("div", { className: "bar" }, el("i", { style: { width: `${100 * value / most}%` } }));
    if (name in predicted) bar.append(el("b", { title: `predicted: ${seconds(predicted[name])}`, style: { left: `${100 * predicted[name] / most}%` } }));
    bars.append(el("span", {}, name.replaceAll("_", " ")), bar, el("span", { className: "number" },
      seconds(value) + (name in predicted ? ` (${seconds(predicted[name])})` : "")));
  }
  const note = Object.keys(predicted).length ? "In brackets, and as a stroke: what was predicted." : "";
  return card("Time", bars, el("p", { className: "soft" }, `In all ${seconds(report.seconds.total)}${"total" in predicted ? ` (${seconds(predicted.total)})` : ""}. ${note}`));
}

function memoryCard() {
  const size = value => value > 0 ? bytes(value) : null;
  return card("Memory", table([["Host, most in use", size(report.peak_host_bytes)], ["Predicted, host in all", size(report.predicted_peak_host_bytes)], ["GPU, tensors", size(report.peak_device_bytes)],
    ["GPU, reserved", size(report.peak_device_reserved_bytes)], ["Predicted for the network", size(report.predicted_network_bytes)],
    ["Predicted, host's tensors", size(report.predicted_host_bytes)], ["Predicted, pinned", size(report.predicted_pinned_bytes)],
    ["Predicted, files", size(report.predicted_scratch_bytes)], ["Plan", report.memory_plan]]));
}

function cloudCard() {
  const filters = report.filters.filter(filter => filter.before !== filter.after);
  return card("Points", table([["Made of", report.cloud_source], ["Points", report.cloud_source ? grouped(report.points) : null],
    ["Shown here", scene.points ? grouped(scene.points.count) : "none"],
    ["Network's image", `${report.network_size.width} × ${report.network_size.height}`],
    ["Median depth", report.median_depth ? digits(report.median_depth) : null],
    ...filters.map(filter => [`After ${filter.filter}`, `${grouped(filter.after)} of ${grouped(filter.before)}`])]));
}
