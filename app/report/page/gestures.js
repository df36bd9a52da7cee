// Mouse, fingers and keys on the view.
"use strict";

// act: {slide(dx, dy), turn(dx, dy), zoom(factor), moved(), pick(x, y, slack), choose(i), over(i, x, y)}, in pixels.
function listen(canvas, act) {
  const fingers = new Map();
  let path = 0;
  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
    if (fingers.size === 1) path = 0; else path = Infinity;
    canvas.classList.add("turning");
  });
  canvas.addEventListener("pointermove", event => {
    const before = fingers.get(event.pointerId), at = [event.offsetX, event.offsetY];
    if (!before) {
      const under = act.pick(...at, 10);
      canvas.classList.toggle("over", under >= 0);
      act.over(under, ...at);
      return;
    }
    const dx = at[0] - before[0], dy = at[1] - before[1];
    path += Math.abs(dx) + Math.abs(dy);
    if (fingers.size === 2) {
      const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
      const apart = p => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
      act.zoom(apart(before) / apart(at));
      act.slide(dx / 2, dy / 2);
      act.moved();
    } else if (path > 3) {
      event.buttons & 6 || event.shiftKey ? act.slide(dx, dy) : act.turn(dx, dy);
      act.moved();
    }
    fingers.set(event.pointerId, at);
  });
  const lift = event => {
    if (!fingers.delete(event.pointerId)) return;
    if (!fingers.size) canvas.classList.remove("turning");
    if (event.type === "pointerup" && path <= 3 && event.button === 0)
      act.choose(act.pick(event.offsetX, event.offsetY, event.pointerType === "touch" ? 22 : 12));
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => act.over(-1, 0, 0));
  canvas.addEventListener("contextmenu", event => event.preventDefault());
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    act.zoom(Math.exp(Math.max(-80, Math.min(80, event.deltaY * (event.deltaMode ? 30 : 1))) * 0.0025));
    act.moved();
  }, { passive: false });
  canvas.addEventListener("keydown", event => {
    const arrows = { ArrowLeft: [24, 0], ArrowRight: [-24, 0], ArrowUp: [0, 24], ArrowDown: [0, -24] }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (arrows) (event.shiftKey ? act.slide : act.turn)(...arrows);
    else if ("+=".includes(event.key)) act.zoom(0.88);
    else if (event.key === "-") act.zoom(1 / 0.88);
    else return;
    event.preventDefault();
    act.moved();
  });
}
