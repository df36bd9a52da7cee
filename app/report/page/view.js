// The scene in 3D: points and cameras by WebGL2, nothing else. makeView() returns null where there is no WebGL2.
"use strict";

// points: {count, low, side, places: Uint16Array, colors: Uint8Array} or null. cameras: [{center, corners, color}] or
// null for frames without one. first: {eye, forward, up, distance, fov}. on: {choose(i), over(i, x, y), touched(), cut(share),
// lost(), back()}: the graphics card may be reset, and is then filled anew.
function makeView(canvas, points, cameras, first, on) {
  const gl = canvas.getContext("webgl2", { antialias: true, alpha: false, powerPreference: "high-performance" });
  if (!gl) return null;
  const { add, sub, scale, dot, cross, unit, length, mix } = vector;
  const ground = [0.094, 0.102, 0.118];
  const state = { size: 1, cameras: true, shade: true, chosen: -1, over: -1 };

  // The axis around which the view turns: what the cameras hold for up.
  let axis = [0, 0, 0];
  for (const camera of cameras) {
    if (camera) axis = add(axis, unit(sub(camera.corners[0], camera.corners[3])));
  }
  if (length(axis) < 0.3 * cameras.filter(Boolean).length || length(axis) === 0) axis = first.up;
  axis = unit(axis);
  const east = unit(cross(Math.abs(axis[0]) < 0.9 ? [1, 0, 0] : [0, 1, 0], axis)), north = cross(axis, east);

  const poseOf = (eye, forward, distance) => {
    const f = unit(forward);
    return { target: add(eye, scale(f, distance)), distance, cut: 0, wide: 1, yaw: Math.atan2(dot(f, north), dot(f, east)),
      pitch: Math.asin(Math.max(-1, Math.min(1, dot(f, axis)))), fov: first.fov };
  };
  // What is nearer than the nearest camera is cut away at first: it would hide the rest.
  const home = { ...poseOf(first.eye, first.forward, first.distance), cut: Math.min(0.95, 0.98 * first.nearest / first.distance) };
  let pose = { ...home }, flight = null;

  const frameOf = p => {
    const level = add(scale(east, Math.cos(p.yaw)), scale(north, Math.sin(p.yaw)));
    const forward = add(scale(level, Math.cos(p.pitch)), scale(axis, Math.sin(p.pitch)));
    const right = unit(cross(level, axis));
    return { forward, right, up: cross(right, forward), eye: sub(p.target, scale(forward, p.distance)) };
  };

  const buffer = data => {
    const result = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, result);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
    return result;
  };
  const attribute = (place, size, type, normalized, stride, offset, divisor) => {
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, size, type, normalized, stride, offset);
    gl.vertexAttribDivisor(place, divisor);
  };

  // All that lies on the graphics card.
  let programs, cloud, wires, wireBuffer, poster, posterBuffer, posterTexture, off;
  function build() {
    programs = Object.fromEntries(Object.entries(SHADERS).map(([name, text]) => [name, program(gl, text)]));
    cloud = gl.createVertexArray();
    if (points) {
      gl.bindVertexArray(cloud);
      buffer(points.places);
      attribute(programs.points.place("place"), 3, gl.UNSIGNED_SHORT, true, 0, 0, 0);
      buffer(points.colors);
      attribute(programs.points.place("color"), 3, gl.UNSIGNED_BYTE, true, 0, 0, 0);
    }
    wires = gl.createVertexArray();
    wireBuffer = gl.createBuffer();
    gl.bindVertexArray(wires);
    gl.bindBuffer(gl.ARRAY_BUFFER, wireBuffer);
    attribute(programs.lines.place("a"), 3, gl.FLOAT, false, 40, 0, 1);
    attribute(programs.lines.place("b"), 3, gl.FLOAT, false, 40, 12, 1);
    attribute(programs.lines.place("color"), 4, gl.FLOAT, false, 40, 24, 1);
    poster = gl.createVertexArray();
    posterBuffer = gl.createBuffer();
    posterTexture = gl.createTexture();
    gl.bindVertexArray(poster);
    gl.bindBuffer(gl.ARRAY_BUFFER, posterBuffer);
    attribute(programs.image.place("place"), 3, gl.FLOAT, false, 0, 0, 0);
    gl.bindVertexArray(null);
    off = { buffer: gl.createFramebuffer(), color: gl.createTexture(), depth: gl.createTexture(), ready: false };
  }

  let wireCount = 0;
  const drawnCorners = (camera, i) => i !== state.chosen ? camera.corners
    : camera.corners.map(corner => mix(camera.center, corner, 1.6));
  function fillWires() {
    const rows = [], half = Math.min(2, window.devicePixelRatio || 1);
    let last = null;
    cameras.forEach((camera, i) => {
      if (!camera) return;
      const lit = i === state.chosen || i === state.over;
      const color = i === state.chosen ? [1, 1, 1] : camera.color, width = half * (lit ? 1.3 : camera.warn ? 1 : 0.7) / 4;
      const corners = drawnCorners(camera, i);
      corners.forEach((corner, k) => {
        rows.push(...camera.center, ...corner, ...color, width, ...corner, ...corners[(k + 1) % 4], ...color, width);
      });
      if (last) rows.push(...last.center, ...camera.center, ...scale(camera.color, 0.75), half * 0.45 / 4);
      last = camera;
    });
    wireCount = rows.length / 10;
    gl.bindBuffer(gl.ARRAY_BUFFER, wireBuffer);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(rows), gl.DYNAMIC_DRAW);
  }

  let posterShare = 0, hung = [-1, "", 1];
  function hang(i, source, panels) {
    posterShare = 0;
    hung = [i, source, panels];
    if (i < 0 || !cameras[i] || !source) return;
    const image = new Image();
    image.onload = () => {
      if (hung[0] !== i) return;
      const [a, b, c, d] = drawnCorners(cameras[i], i);
      gl.bindBuffer(gl.ARRAY_BUFFER, posterBuffer);
      gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([a, b, d, c].flat()), gl.STATIC_DRAW);
      gl.bindTexture(gl.TEXTURE_2D, posterTexture);
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, image);
      for (const [name, value] of [["MIN_FILTER", "LINEAR"], ["MAG_FILTER", "LINEAR"], ["WRAP_S", "CLAMP_TO_EDGE"], ["WRAP_T", "CLAMP_TO_EDGE"]])
        gl.texParameteri(gl.TEXTURE_2D, gl["TEXTURE_" + name], gl[value]);
      posterShare = 1 / panels;
      draw();
    };
    image.src = source;
  }

  function resize() {
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const width = Math.max(1, Math.round(canvas.clientWidth * ratio)), height = Math.max(1, Math.round(canvas.clientHeight * ratio));
    if (canvas.width === width && canvas.height === height && off.ready) return;
    canvas.width = width;
    canvas.height = height;
    gl.bindFramebuffer(gl.FRAMEBUFFER, off.buffer);
    for (const [texture, inner, format, type, place] of [
      [off.color, gl.RGBA8, gl.RGBA, gl.UNSIGNED_BYTE, gl.COLOR_ATTACHMENT0],
      [off.depth, gl.DEPTH_COMPONENT24, gl.DEPTH_COMPONENT, gl.UNSIGNED_INT, gl.DEPTH_ATTACHMENT]]) {
      gl.bindTexture(gl.TEXTURE_2D, texture);
      gl.texImage2D(gl.TEXTURE_2D, 0, inner, width, height, 0, format, type, null);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
      gl.framebufferTexture2D(gl.FRAMEBUFFER, place, gl.TEXTURE_2D, texture, 0);
    }
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    off.ready = true;
  }

  let matrix = null, asked = false;
  function project() {
    const { eye, right, up, forward } = frameOf(pose);
    const aspect = canvas.width / canvas.height;
    // A narrower canvas than the picture's shows as much across, where the pose is one for the whole scene.
    const focal = (1 - pose.wide * (1 - Math.min(1, aspect / first.aspect))) / Math.tan(pose.fov / 2);
    const near = pose.distance * 0.01, far = pose.distance * 60 + first.reach * 4;
    matrix = viewMatrix(eye, right, up, forward, focal, focal, near, far);
    for (let c = 0; c < 4; ++c) matrix[4 * c] /= aspect;
    return { focal, near, far };
  }
  function paint(now) {
    asked = false;
    if (gl.isContextLost()) return;
    if (flight) {
      const t = Math.min(1, (now - flight.start) / 450), s = t * t * (3 - 2 * t);
      const turn = Math.atan2(Math.sin(flight.to.yaw - flight.from.yaw), Math.cos(flight.to.yaw - flight.from.yaw));
      pose = { target: mix(flight.from.target, flight.to.target, s), yaw: flight.from.yaw + s * turn };
      for (const name of ["distance", "pitch", "fov", "cut", "wide"]) pose[name] = flight.from[name] + s * (flight.to[name] - flight.from[name]);
      if (t >= 1) flight = null; else draw();
      on.cut(pose.cut);
    }
    resize();
    const { focal, near, far } = project(), width = canvas.width, height = canvas.height, ratio = height / canvas.clientHeight;
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LEQUAL);
    gl.viewport(0, 0, width, height);
    gl.bindFramebuffer(gl.FRAMEBUFFER, off.buffer);
    gl.clearColor(...ground, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    if (points) {
      const p = programs.points;
      p.use();
      gl.uniformMatrix4fv(p.find("clip"), false, matrix);
      gl.uniform3fv(p.find("low"), points.low);
      gl.uniform3fv(p.find("side"), points.side);
      gl.uniform1f(p.find("size"), state.size * first.spacing * focal * height / 2);
      gl.uniform1f(p.find("least"), 1.2 * ratio);
      gl.uniform1f(p.find("cut"), pose.cut * pose.distance);
      gl.bindVertexArray(cloud);
      gl.drawArrays(gl.POINTS, 0, points.count);
    }
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.depthFunc(gl.ALWAYS);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const s = programs.shade;
    s.use();
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, off.color);
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, off.depth);
    gl.activeTexture(gl.TEXTURE0);
    gl.uniform1i(s.find("colors"), 0);
    gl.uniform1i(s.find("depths"), 1);
    gl.uniform2f(s.find("range"), near, far);
    gl.uniform1f(s.find("strength"), state.shade ? 1.6 : 0);
    gl.uniform1f(s.find("reach"), Math.max(1, Math.round(ratio)));
    gl.uniform3fv(s.find("ground"), ground);
    gl.bindVertexArray(null);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    gl.depthFunc(gl.LEQUAL);
    if (!state.cameras) return;
    if (posterShare > 0) {
      const q = programs.image;
      q.use();
      gl.uniformMatrix4fv(q.find("clip"), false, matrix);
      gl.uniform1f(q.find("share"), posterShare);
      gl.uniform1i(q.find("image"), 0);
      gl.bindTexture(gl.TEXTURE_2D, posterTexture);
      gl.bindVertexArray(poster);
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    }
    const l = programs.lines;
    l.use();
    gl.uniformMatrix4fv(l.find("clip"), false, matrix);
    gl.uniform2f(l.find("pixels"), width, height);
    gl.uniform1f(l.find("near"), near);
    gl.bindVertexArray(wires);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, wireCount);
    gl.bindVertexArray(null);
  }
  function draw() {
    if (!asked) requestAnimationFrame(paint);
    asked = true;
  }

  // Where a point shows, in pixels of the page from the canvas's corner, and its depth.
  function screen(point) {
    const clip = [0, 1, 2, 3].map(r => matrix[r] * point[0] + matrix[4 + r] * point[1] + matrix[8 + r] * point[2] + matrix[12 + r]);
    return clip[3] <= 0 ? null : [(clip[0] / clip[3] + 1) / 2 * canvas.clientWidth, (1 - clip[1] / clip[3]) / 2 * canvas.clientHeight, clip[3]];
  }
  function isInside(x, y, corners) {
    let turns = 0;
    corners.forEach(([ax, ay], k) => {
      const [bx, by] = corners[(k + 1) % corners.length];
      turns += Math.sign((bx - ax) * (y - ay) - (by - ay) * (x - ax));
    });
    return Math.abs(turns) === corners.length;
  }
  // The camera under a pixel: the nearest whose image it lies in, else the one whose centre is nearest.
  function pick(x, y, slack) {
    if (!state.cameras || !matrix) return -1;
    let best = -1, least = Infinity;
    cameras.forEach((camera, i) => {
      if (!camera) return;
      const center = screen(camera.center), corners = drawnCorners(camera, i).map(screen);
      if (!center || corners.includes(null)) return;
      const away = Math.min(...[center, ...corners].map(p => Math.hypot(p[0] - x, p[1] - y)));
      const rank = isInside(x, y, corners) ? center[2] * 1e-6 : away < slack ? 1 + away : Infinity;
      if (rank < least) [best, least] = [i, rank];
    });
    return best;
  }

  const slide = (dx, dy) => {
    const { right, up } = frameOf(pose), step = 2 * pose.distance * Math.tan(pose.fov / 2) / canvas.clientHeight;
    pose.target = add(pose.target, add(scale(right, -dx * step), scale(up, dy * step)));
  };
  const turn = (dx, dy) => {
    pose.yaw -= dx * 0.006;
    pose.pitch = Math.max(-1.55, Math.min(1.55, pose.pitch - dy * 0.006));
  };
  const zoom = factor => { pose.distance = Math.max(first.reach * 1e-3, Math.min(first.reach * 30, pose.distance * factor)); };
  const over = (i, x, y) => {
    if (i !== state.over) { state.over = i; fillWires(); draw(); }
    on.over(i, x, y);
  };
  const moved = () => { flight = null; on.touched(); draw(); };

  listen(canvas, { slide, turn, zoom, moved, pick, choose: on.choose, over });
  canvas.addEventListener("webglcontextlost", event => { event.preventDefault(); on.lost(); });
  canvas.addEventListener("webglcontextrestored", () => {
    build();
    fillWires();
    hang(...hung);
    on.back();
    draw();
  });
  new ResizeObserver(draw).observe(canvas);

  const fly = to => { flight = { from: pose, to, start: performance.now() }; draw(); };
  build();
  fillWires();
  resize();
  project();
  on.cut(pose.cut);
  draw();
  return {
    choose(i, source, panels) { state.chosen = i; hang(i, source, panels); fillWires(); draw(); },
    set(name, value) { state[name] = value; draw(); },
    cut(share) { pose.cut = share; draw(); },
    reset: () => fly({ ...home }),
    // To where a camera stood, a little behind it.
    enter(i) {
      const { center, corners } = cameras[i], middle = scale(corners.reduce(add), 0.25);
      const forward = sub(middle, center), height = length(sub(corners[0], corners[3])), width = length(sub(corners[0], corners[1]));
      const aspect = canvas.clientWidth / canvas.clientHeight;
      const tall = Math.max(height, width / aspect) / 2 / length(forward) * 1.06;
      const to = poseOf(sub(center, scale(unit(forward), length(forward) * 0.15)), forward, first.distance);
      fly({ ...to, wide: 0, fov: Math.min(2.2, 2 * Math.atan(tall)) });
    },
    where(i) { return cameras[i] && screen(scale(drawnCorners(cameras[i], i).reduce(add), 0.25)); },
  };
}
