// Fills the page from the data in it. Names of files are hostile: they enter the page as text alone.
"use strict";

const byId = id => document.getElementById(id);
const dataOf = id => JSON.parse(byId(id).textContent);
const report = dataOf("report"), scene = dataOf("scene"), thumbnails = dataOf("thumbnails");
const health = report.health || { frames: [], warnings: [] };
const files = report.frames.files, count = files.length, hasCameras = scene.cameras.some(Boolean);
// Why nothing is known of how the frames fit together; empty where it is known.
const uncompared = health.parts > 0 ? "" : count === 1 ? "there is only one" : hasCameras ? "there is no depth" : "there are no cameras";

function el(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element[name] = value;
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}
function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const isNumber = value => typeof value === "number" && Number.isFinite(value);
const digits = (value, n = 3) => isNumber(value) ? String(Number(value.toPrecision(n))) : "–";
const percent = value => isNumber(value) ? `${Math.round(100 * value)} %` : "–";
const grouped = value => Number(value).toLocaleString("en").replaceAll(",", " ");
const seconds = value => value < 0.0005 ? "0 s" : value >= 90 ? `${Math.floor(value / 60)} min ${Math.round(value % 60)} s` : `${digits(value, value < 1 ? 2 : 3)} s`;
const bytes = value => value >= 2 ** 30 ? `${digits(value / 2 ** 30)} GiB` : `${digits(value / 2 ** 20)} MiB`;

// Blue for the first frame, over green and yellow, to red for the last, as in the picture.
function colorOf(i) {
  const stops = [[38, 84, 235], [16, 170, 160], [245, 190, 30], [226, 48, 40]], at = count < 2 ? 0 : 3 * i / (count - 1);
  const k = Math.min(2, Math.floor(at)), t = at - k;
  return stops[k].map((c, j) => Math.round(c * (1 - t) + stops[k + 1][j] * t));
}
const cssColor = i => `rgb(${colorOf(i).join(" ")})`;

const warningsOf = Array.from({ length: count }, () => []);
for (const warning of health.warnings) {
  for (let i = Math.max(0, warning.first); warning.first >= 0 && i <= warning.last && i < count; ++i) warningsOf[i].push(warning);
}
const sourceOf = i => thumbnails.images[i] ? "data:image/jpeg;base64," + thumbnails.images[i] : "";
const PANELS = ["Image", "Depth", "Confidence"].slice(0, thumbnails.panels);

// One of the pictures that lie side by side in a frame's thumbnail.
function pane(i, panel, lazy) {
  const { width, height, panels } = thumbnails;
  const box = el("div", { className: "pane", style: { "aspect-ratio": `${width} / ${height}` } });
  if (sourceOf(i)) {
    box.append(el("img", { loading: lazy ? "lazy" : "eager", alt: `${PANELS[panel]} of ${files[i]}`, src: sourceOf(i),
      style: { width: `${100 * panels}%`, left: `${-100 * panel}%` } }));
  }
  return box;
}

let chosen = -1, view = null, panel = 0;
const thumbs = [];

function figures() {
  const named = health.warnings.length, rows = [[grouped(count), count === 1 ? "frame" : "frames"]];
  if (report.cloud_source) rows.push([grouped(report.points), "points"]);
  rows.push([seconds(report.seconds.total), "in all"]);
  if (named || !uncompared) rows.push([named ? String(named) : "none", named === 1 ? "warning of health" : "warnings of health", named ? "warn" : "good"]);
  else rows.push(["not compared", count === 1 ? "one frame alone" : "with each other"]);
  byId("figures").append(...rows.map(([value, name, kind]) =>
    el("div", { className: kind || "" }, el("dt", {}, name), el("dd", {}, value))));
  byId("name").textContent = scene.name;
  document.title = `${scene.name} · vggt-recon`;
  byId("program").textContent = `vggt-recon ${report.versions["vggt-recon"] || ""} · ${report.device} · ${report.precision}`;
}

function frameRows(i) {
  const frame = health.frames[i] || {};
  return [["Confirmed by others", isNumber(frame.agreement) ? percent(frame.agreement) + " of what they see" : null],
    ["Seen by others", isNumber(frame.overlap) ? percent(frame.overlap) + " of the image" : null],
    ["Mean confidence", isNumber(frame.confidence) && frame.confidence ? digits(frame.confidence) : null],
    ["Tracks", frame.tracks ? `${grouped(frame.tracks)}, off by ${digits(frame.reprojection_px, 2)} pixels` : null],
    ["Step from the one before", isNumber(frame.step) ? `${digits(frame.step, 2)} of the usual` : null],
    ["Lens", scene.cameras[i] ? `${digits(scene.cameras[i].fov, 3)}° across` : "no camera"]];
}

function choose(i, scroll) {
  if (i === chosen) i = scroll === "toggle" ? -1 : i;
  if (thumbs[chosen]) thumbs[chosen].classList.remove("chosen");
  chosen = i;
  const aside = byId("frame");
  aside.replaceChildren();
  aside.classList.toggle("some", i >= 0);
  document.body.dataset.chosen = i;
  if (i < 0) {
    aside.append(el("p", { className: "soft" }, hasCameras
      ? "Choose a camera in the scene, or a frame below, to see its image, its depth and how it fits to the others."
      : "Choose a frame below."));
  } else {
    const step = by => el("button", { type: "button", title: by < 0 ? "The frame before ([)" : "The next frame (])",
      onclick: () => choose((i + by + count) % count) }, by < 0 ? "‹" : "›");
    aside.append(el("div", { className: "head" }, el("h3", {}, files[i]), el("div", { className: "steps" }, step(-1), step(1))));
    if (view && scene.cameras[i]) {
      aside.append(el("p", { className: "steps" }, el("button", { type: "button", id: "enter", title: "Look from there (Enter)",
        onclick: () => view.enter(i) }, "Look from there")));
    }
    for (const warning of warningsOf[i]) aside.append(el("p", { className: "note" }, warning.text));
    if (sourceOf(i)) PANELS.forEach((name, k) => aside.append(el("figure", {}, el("figcaption", {}, name), pane(i, k, false))));
    aside.append(table(frameRows(i)));
    if (thumbs[i]) {
      thumbs[i].classList.add("chosen");
      if (scroll === "gallery") byId("stage").scrollIntoView({ behavior: "smooth", block: "nearest" });
      const gallery = byId("gallery"), at = thumbs[i].offsetTop - gallery.offsetTop;
      if (at < gallery.scrollTop || at + thumbs[i].offsetHeight > gallery.scrollTop + gallery.clientHeight)
        gallery.scrollTop = at - gallery.clientHeight / 3;
    }
  }
  for (const mark of document.querySelectorAll("[data-mark]")) mark.setAttribute("visibility", i >= 0 ? "visible" : "hidden");
  moveMarks(i);
  if (view) view.choose(i, i < 0 ? "" : sourceOf(i), thumbnails.panels);
}
const marks = [];
function moveMarks(i) {
  for (const mark of marks) mark(i);
}

// A bar a frame: how much of it the others confirm, or how sure the network is where that is not known.
function strip() {
  const known = health.frames.some(frame => isNumber(frame.agreement));
  const most = Math.max(1e-9, ...health.frames.map(frame => frame.confidence || 0));
  const values = health.frames.map(frame => known ? frame.agreement : isNumber(frame.confidence) ? frame.confidence / most : NaN);
  if (count < 2 || !values.some(isNumber)) return byId("strip").remove();
  const what = known ? "share of a frame that the others confirm" : "the network's confidence, frame by frame";
  const width = 1000, height = 64, step = width / count, bars = svg("g", {});
  values.forEach((value, i) => {
    const tall = isNumber(value) ? Math.max(1.5, value * (height - 10)) : 1.5;
    bars.append(svg("rect", { x: i * step + step * 0.06, width: step * 0.88, y: height - tall, height: tall,
      fill: warningsOf[i].length ? "var(--warm)" : "var(--bar)" }),
    svg("rect", { x: i * step + step * 0.06, width: step * 0.88, y: 0, height: 4, fill: cssColor(i) }));
  });
  const mark = svg("rect", { "data-mark": 1, width: Math.max(2, step), y: 0, height, fill: "none", stroke: "var(--accent)",
    "stroke-width": 2, visibility: "hidden", "vector-effect": "non-scaling-stroke" });
  marks.push(i => mark.setAttribute("x", Math.max(0, i) * step));
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img",
    "aria-label": `A bar for each frame: ${what}` }, bars, mark);
  let down = false;
  const at = event => Math.min(count - 1, Math.max(0, Math.floor((event.offsetX / drawing.clientWidth) * count)));
  drawing.addEventListener("pointerdown", event => { down = true; choose(at(event)); });
  drawing.addEventListener("pointermove", event => { if (down && event.buttons && at(event) !== chosen) choose(at(event)); });
  drawing.addEventListener("pointerup", () => { down = false; });
  const key = (color, text) => el("span", {}, el("i", { style: { background: color } }), text);
  byId("strip").append(drawing, el("div", { className: "key" },
    key("var(--bar)", what),
    warningsOf.some(list => list.length) ? key("var(--warm)", "with a warning") : null));
}

function gallery() {
  const box = byId("gallery");
  if (!thumbnails.images.some(Boolean)) {
    byId("frames").append(el("p", { className: "soft" }, files.join(", ")));
    return;
  }
  box.style.setProperty("--thumb", `${Math.max(96, Math.min(170, thumbnails.width))}px`);
  for (let i = 0; i < count; ++i) {
    if (!thumbnails.images[i]) continue;
    const button = el("button", { type: "button", className: "thumb" + (warningsOf[i].length ? " warn" : ""), title: files[i],
      onclick: () => choose(i, "gallery") }, pane(i, panel, true), el("span", {}, (warningsOf[i].length ? "⚠ " : "") + files[i]));
    thumbs[i] = button;
    box.append(button);
  }
  if (PANELS.length > 1) {
    byId("panels").append(...PANELS.map((name, k) => {
      const button = el("button", { type: "button" }, name);
      button.setAttribute("aria-pressed", k === 0);
      button.onclick = () => {
        panel = k;
        for (const other of byId("panels").children) other.setAttribute("aria-pressed", other === button);
        for (const image of box.querySelectorAll("img")) image.style.left = `${-100 * k}%`;
      };
      return button;
    }));
  }
}

function settings() {
  const shown = value => Array.isArray(value) ? value.join(", ") : value === null ? "" : String(value);
  const rows = names => names.map(name => [`--${name}`, shown(report.options[name])]);
  const all = Object.keys(report.options), given = all.filter(name => scene.given.includes(name));
  byId("settings").append(el("div", { className: "title" }, el("h2", {}, "Options and versions")), el("div", { className: "columns" },
    table([...rows(given), ["Weights", report.weights], ["Heads", report.heads], ...Object.entries(report.versions)])),
  el("details", {}, el("summary", {}, "All options"), el("div", { className: "columns" }, table(rows(all)))));
  if (report.frames.skipped.length) {
    byId("settings").append(el("details", {}, el("summary", {}, `${report.frames.skipped.length} frames were skipped`),
      ...report.frames.skipped.map(text => el("p", { className: "note" }, text))));
  }
}

function pointsOf() {
  if (!scene.points) return null;
  const text = atob(byId("points").textContent.trim()), raw = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) raw[i] = text.charCodeAt(i);
  const { count: n, low, side } = scene.points;
  return { count: n, low, side, places: new Uint16Array(raw.buffer, 0, 3 * n), colors: raw.subarray(6 * n, 9 * n) };
}

function startView() {
  if (!scene.points && !hasCameras) {
    byId("stage").classList.add("bare");
    byId("view").replaceChildren(`No view in 3D: it needs cameras or points, and there are none (heads: ${report.heads}).`);
    return;
  }
  const cameras = scene.cameras.map((camera, i) => camera && { center: camera.center, corners: camera.corners,
    color: colorOf(i).map(c => c / 255), warn: warningsOf[i].length > 0 });
  const label = byId("label"), usual = "Drag turns · right drag or two fingers move · wheel zooms" + (hasCameras ? " · click a camera" : "");
  let touched = false;
  const show = (live, hint) => {
    byId("view").classList.toggle("live", live);
    byId("hint").textContent = hint;
    byId("hint").style.opacity = live && touched ? 0 : 1;
  };
  view = makeView(byId("canvas"), pointsOf(), cameras, scene.view, {
    choose: i => choose(i),
    over(i, x, y) {
      label.hidden = i < 0;
      if (i < 0) return;
      label.textContent = files[i];
      label.style.left = `${Math.min(x + 14, byId("canvas").clientWidth - 120)}px`;
      label.style.top = `${y + 12}px`;
    },
    touched() {
      if (!touched) byId("hint").style.opacity = 0;
      touched = true;
    },
    cut(share) { byId("cut").value = share; },
    lost() {
      label.hidden = true;
      show(false, "The graphics card was reset: a picture of the scene.");
    },
    back() { show(true, usual); },
  });
  if (!view) {
    byId("canvas").hidden = true;
    show(false, "This browser has no WebGL2: a picture of the scene.");
    return;
  }
  show(true, usual);
  byId("size").oninput = event => view.set("size", 2 ** Number(event.target.value));
  byId("cut").oninput = event => view.cut(Number(event.target.value));
  byId("cameras").onchange = event => view.set("cameras", event.target.checked);
  byId("shade").onchange = event => view.set("shade", event.target.checked);
  byId("reset").onclick = () => view.reset();
  const full = () => document.fullscreenElement ? document.exitFullscreen() : byId("view").requestFullscreen();
  if (byId("view").requestFullscreen) byId("full").onclick = full; else byId("full").hidden = true;
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
    const key = event.key.toLowerCase();
    if (key === "r") view.reset();
    else if (key === "f" && byId("full").onclick) full();
    else if (key === "enter" && event.target === byId("canvas") && chosen >= 0 && scene.cameras[chosen]) view.enter(chosen);
  });
}

function theme() {
  byId("theme").onclick = () => {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  };
}

figures();
strip();
byId("cards").append(...[healthCard(), trajectoryCard(), histogramCard(), timeCard(), memoryCard(), cloudCard()].filter(Boolean));
gallery();
settings();
theme();
startView();
choose(-1);
document.addEventListener("keydown", event => {
  if (event.target.tagName === "INPUT") return;
  if (event.key === "]") choose((chosen + 1) % count);
  if (event.key === "[") choose(chosen < 0 ? count - 1 : (chosen - 1 + count) % count);
  if (event.key === "Escape") choose(-1);
});
byId("foot").textContent = `${scene.name}: written by vggt-recon ${report.versions["vggt-recon"] || ""}. One file, no network.`;
