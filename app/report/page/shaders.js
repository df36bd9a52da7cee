// What the view in 3D is drawn with: vectors, a camera's matrix, and the programs of the graphics card.
"use strict";

const vector = {
  add: (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]],
  sub: (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]],
  scale: (a, s) => [a[0] * s, a[1] * s, a[2] * s],
  dot: (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2],
  cross: (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]],
  length: a => Math.hypot(a[0], a[1], a[2]),
  unit: a => vector.scale(a, 1 / (vector.length(a) || 1)),
  mix: (a, b, t) => vector.add(vector.scale(a, 1 - t), vector.scale(b, t)),
};

// Column by column, as WebGL takes it: clip = matrix · world.
function viewMatrix(eye, right, up, forward, focalX, focalY, near, far) {
  const { dot } = vector, back = vector.scale(forward, -1);
  const view = [right[0], up[0], back[0], 0, right[1], up[1], back[1], 0, right[2], up[2], back[2], 0,
    -dot(right, eye), -dot(up, eye), -dot(back, eye), 1];
  const a = (far + near) / (near - far), b = 2 * far * near / (near - far), result = new Float32Array(16);
  for (let column = 0; column < 4; ++column) {
    const [x, y, z, w] = view.slice(4 * column, 4 * column + 4);
    result.set([focalX * x, focalY * y, a * z + b * w, -z], 4 * column);
  }
  return result;
}

const SHADERS = {
  points: [`#version 300 es
    in vec3 place; in vec3 color; uniform mat4 clip; uniform vec3 low, side; uniform float size, least, cut;
    out vec3 shown;
    void main() {
      gl_Position = clip * vec4(low + side * place, 1);
      if (gl_Position.w < cut) gl_Position = vec4(2, 2, 2, 1);
      gl_PointSize = clamp(size / gl_Position.w, least, 48.);
      shown = color;
    }`, `#version 300 es
    precision mediump float; in vec3 shown; out vec4 pixel;
    void main() {
      vec2 away = gl_PointCoord - .5;
      if (dot(away, away) > .25) discard;
      pixel = vec4(shown, 1);
    }`],
  // Darkens what lies close behind something else, by the logarithm of depth, and hands the depth on.
  shade: [`#version 300 es
    void main() { gl_Position = vec4(vec2(gl_VertexID & 1, gl_VertexID >> 1) * 4. - 1., 0, 1); }`, `#version 300 es
    precision highp float; uniform sampler2D colors; uniform highp sampler2D depths; uniform vec2 range;
    uniform float strength, reach; uniform vec3 ground; out vec4 pixel;
    float far(ivec2 at) {
      float d = texelFetch(depths, clamp(at, ivec2(0), textureSize(depths, 0) - 1), 0).r;
      return d >= 1. ? 1e9 : log2(range.x * range.y / (range.y - d * (range.y - range.x)));
    }
    void main() {
      ivec2 at = ivec2(gl_FragCoord.xy);
      float here = far(at), hidden = 0.;
      gl_FragDepth = texelFetch(depths, at, 0).r;
      if (here > 1e8) { pixel = vec4(ground, 1); return; }
      int r = int(reach);
      for (int i = 0; i < 4; ++i) {
        ivec2 step = (i & 1) == 0 ? ivec2(i - 1, 0) : ivec2(0, i - 2);
        hidden += max(0., min(here - far(at + step * r), .15)) + max(0., min(here - far(at + step * r * 2), .15)) * .5;
      }
      pixel = vec4(texelFetch(colors, at, 0).rgb * exp(-strength * hidden), 1);
    }`],
  // A line from a to b, so many pixels wide, as four corners.
  lines: [`#version 300 es
    in vec3 a, b; in vec4 color; uniform mat4 clip; uniform vec2 pixels; uniform float near; out vec4 shown;
    void main() {
      vec4 p = clip * vec4(a, 1), q = clip * vec4(b, 1);
      if (p.w < near && q.w < near) { gl_Position = vec4(2, 2, 2, 1); return; }
      if (p.w < near) p = mix(p, q, (near - p.w) / (q.w - p.w));
      if (q.w < near) q = mix(q, p, (near - q.w) / (p.w - q.w));
      vec2 along = normalize((q.xy / q.w - p.xy / p.w) * pixels + vec2(1e-6, 0));
      vec4 end = (gl_VertexID & 1) == 0 ? p : q;
      vec2 aside = vec2(-along.y, along.x) * ((gl_VertexID & 2) == 0 ? -1. : 1.) * color.a * 4.;
      gl_Position = end + vec4(aside / pixels * end.w, 0, 0);
      shown = vec4(color.rgb, 1);
    }`, `#version 300 es
    precision mediump float; in vec4 shown; out vec4 pixel; void main() { pixel = shown; }`],
  image: [`#version 300 es
    in vec3 place; uniform mat4 clip; uniform float share; out vec2 at;
    void main() {
      gl_Position = clip * vec4(place, 1);
      at = vec2((gl_VertexID & 1) == 0 ? 0. : share, (gl_VertexID & 2) == 0 ? 0. : 1.);
    }`, `#version 300 es
    precision mediump float; in vec2 at; uniform sampler2D image; out vec4 pixel;
    void main() { pixel = texture(image, at); }`],
};

function program(gl, [vertex, fragment]) {
  const result = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(result, shader);
  }
  gl.linkProgram(result);
  if (!gl.getProgramParameter(result, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(result));
  const find = name => gl.getUniformLocation(result, name);
  return { use: () => gl.useProgram(result), find, place: name => gl.getAttribLocation(result, name) };
}
