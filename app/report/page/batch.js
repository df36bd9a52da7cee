// Lists the scenes of a batch. Names, warnings and errors are hostile: they enter the page as text alone.
"use strict";

const { title, scenes } = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);
function el(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter(child => child !== null));
  return element;
}
const grouped = value => Number(value).toLocaleString("en").replaceAll(",", " ");
const seconds = value => value >= 90 ? `${Math.floor(value / 60)} min ${Math.round(value % 60)} s` : `${value.toFixed(1)} s`;

byId("name").textContent = title;
document.title = `${title} · vggt-recon batch`;
const states = [...new Set(scenes.map(scene => scene.state))];
const countOf = state => scenes.filter(scene => scene.state === state).length;
byId("figures").append(...[["scenes", grouped(scenes.length), ""], ...states.map(state => [state, grouped(countOf(state)), state === "failed" ? "warn" : ""]),
  ["points", grouped(scenes.reduce((sum, scene) => sum + scene.points, 0)), ""],
  ["with warnings", grouped(scenes.filter(scene => scene.warnings.length).length), ""]]
  .map(([name, value, kind]) => el("div", { className: kind }, el("dt", {}, name), el("dd", {}, value))));

function cardOf(scene) {
  const picture = scene.picture ? el("img", { src: scene.picture, alt: "", loading: "lazy" }) : el("div", { className: "none" }, "no picture");
  const facts = [`${grouped(scene.frames)} frames`, scene.points ? `${grouped(scene.points)} points` : "", scene.seconds ? seconds(scene.seconds) : ""];
  const body = [picture, el("h2", {}, scene.name), el("p", { className: "soft" }, el("b", { className: `state ${scene.state}` }, scene.state),
    " ", facts.filter(Boolean).join(" · "))];
  if (scene.error) body.push(el("p", { className: "note" }, scene.error));
  if (scene.warnings.length) {
    body.push(el("details", {}, el("summary", {}, scene.warnings.length === 1 ? "1 warning" : `${scene.warnings.length} warnings`),
      ...scene.warnings.map(text => el("p", { className: "note" }, text))));
  }
  const whole = el("article", { className: "card scene" });
  if (scene.link) {
    const link = el("a", { href: scene.link }, ...body.slice(0, 2));
    whole.append(link, ...body.slice(2));
  } else {
    whole.append(...body);
  }
  return whole;
}

const ORDERS = { "as given": () => 0, "by name": (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }),
  "slowest first": (a, b) => b.seconds - a.seconds, "most warnings first": (a, b) => b.warnings.length - a.warnings.length };
let shown = "all";
function list() {
  const chosen = scenes.filter(scene => shown === "all" || scene.state === shown);
  byId("scenes").replaceChildren(...chosen.sort(ORDERS[byId("order").value]).map(cardOf));
}
byId("order").append(...Object.keys(ORDERS).map(name => el("option", {}, name)));
byId("order").onchange = list;
byId("states").append(...["all", ...(states.length > 1 ? states : [])].map(state => {
  const button = el("button", { type: "button" }, state);
  button.setAttribute("aria-pressed", state === shown);
  button.onclick = () => {
    shown = state;
    for (const other of byId("states").children) other.setAttribute("aria-pressed", other === button);
    list();
  };
  return button;
}));
list();
