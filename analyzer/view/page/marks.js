/* marks.js - the marks that stand in the picture beside curves and areas, and what each of them means. */
function line(c, color, wide, x, y, toX, toY) {
  c.strokeStyle = color;
  c.lineWidth = wide;
  c.beginPath();
  c.moveTo(x, y);
  c.lineTo(toX, toY);
  c.stroke();
}

function triangle(c, color, x, y, toY) {
  c.fillStyle = color;
  c.beginPath();
  c.moveTo(x - 5, y);
  c.lineTo(x + 5, y);
  c.lineTo(x, toY);
  c.fill();
}

const sampleColor = (whole) => css(whole ? '--soft' : '--accent');

function drawSample(c, x, y, whole) {
  c.strokeStyle = sampleColor(whole);
  c.lineWidth = 1.2;
  c.strokeRect(x - 1.5, y - 1.5, 3, 3);
}

function drawBeyond(c, x, y, whole) {
  line(c, sampleColor(whole), 1.2, x - 3, y + 4, x, y);
  line(c, sampleColor(whole), 1.2, x, y, x + 3, y + 4);
}

function drawRing(c, x, y) {
  c.strokeStyle = css('--ink');
  c.fillStyle = css('--paper');
  c.lineWidth = 1;
  c.beginPath();
  c.arc(x, y, 4, 0, 7);
  c.fill();
  c.stroke();
}

function drawOom(c, x, top, bottom) {
  line(c, css('--mark'), 2, x, top, x, bottom);
  triangle(c, css('--mark'), x, top, top + 8);
}

/* The moment that is listed: with a handle in the row that it is listed of. */
function drawCursor(c, x, top, bottom, handle) {
  line(c, css('--accent'), 1.5, x, top, x, bottom);
  if (handle) triangle(c, css('--accent'), x, bottom, bottom - 8);
}

/* An edge around CORNERS that is seen on every colour. */
function strokeEdge(c, corners) {
  c.beginPath();
  corners.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y)));
  c.closePath();
  for (const [color, wide] of [['--paper', 4], ['--ink', 2]]) {
    c.strokeStyle = css(color);
    c.lineWidth = wide;
    c.stroke();
  }
}

/* Around the block that is described. */
function drawEdge(c, place) {
  const { row, columns, blocks, left, top, bottom, scale } = place, y = (v) => Math.round(bottom - (v / scale) * (bottom - top)), over = [], under = [];
  view.edge = placesOf(row, columns, blocks, view.dim, view.block);
  for (const [x, low, high] of view.edge) {
    over.push([left + x, y(high)], [left + x + 1, y(high)]);
    under.push([left + x, y(low)], [left + x + 1, y(low)]);
  }
  if (over.length) strokeEdge(c, [...over, ...under.reverse()]);
}

function drawMarks(c, place) {
  const { row, left, right, top, bottom, scale } = place, offset = row.owner.offset;
  c.textBaseline = 'middle';
  if (row.allocated.t !== null) {
    const x = xOf(place, row.allocated.t + offset), y = bottom - (row.allocated.bytes / scale) * (bottom - top);
    if (x >= left && x <= right) {
      const text = `peak ${row.allocated.at_least ? 'at least ' : ''}${bytesText(row.allocated.bytes)}`, wide = c.measureText(text).width, at = Math.min(x + 6, right - wide - 4);
      drawRing(c, x, y);
      c.fillStyle = css('--paper');
      c.fillRect(at - 2, y - 15, wide + 4, 13);
      c.fillStyle = css('--ink');
      c.textAlign = 'left';
      c.fillText(text, at, y - 8);
    }
  }
  for (const oom of row.ooms) {
    const x = xOf(place, oom.t + offset);
    if (x < left || x > right) continue;
    const text = `out of memory${oom.requested ? ': ' + bytesText(oom.requested) + ' asked' : ''}`, wide = c.measureText(text).width;
    drawOom(c, x, top, bottom);
    c.textAlign = 'left';
    const at = x + 7 + wide < right ? x + 7 : x - 7 - wide, y = top + (bottom - top) * 0.3;
    c.fillStyle = css('--paper');
    c.fillRect(at - 2, y - 7, wide + 4, 13);
    c.fillStyle = css('--mark');
    c.fillText(text, at, y);
  }
}

/* ---- what they mean ---- */

function keyLine(c, color, dash, wide = 1.5) {
  c.setLineDash(dash);
  line(c, css(color), wide, 0, 6.5, 22, 6.5);
}

function keyAreas(c) {
  const row = recording.rows[view.row], { blocks, rest, edge } = shadesOf(row, view.dim)[Math.min(row.dims[view.dim].slots.length, 1)];
  [[rest, 0, 3], [blocks[1], 3, 4], [edge, 3, 1], [blocks[0], 7, 5], [edge, 7, 1]].forEach(([color, y, high]) => {
    c.fillStyle = `rgb(${color & 255} ${(color >> 8) & 255} ${(color >> 16) & 255})`;
    c.fillRect(0, y, 22, high);
  });
}

function keyStrip(c) {
  ['#56b4e9', '#d55e00', '#0072b2'].forEach((color, i) => {
    c.fillStyle = color;
    c.fillRect(i * 8, 2, 7, 9);
  });
}

const rowsHave = (what) => recording.rows.some(what);
const anyOf = (process) => recording.processes.some(process);

/* Whether it is there, how it looks, what it is. */
const MARKS = [
  [() => true, keyAreas, () => 'colours: what it was for, as listed; a band: one block; pale: smaller ones together'],
  [() => true, (c) => keyLine(c, '--ink', []), () => 'allocated, the most in each pixel'],
  [() => true, (c) => { c.globalAlpha = 0.45; keyLine(c, '--ink', [], 1); }, () => 'the least in it'],
  [() => rowsHave((r) => r.aways), (c) => { keyAreas(c); c.fillStyle = css('--paper'); for (let y = 0; y < 12; y += 4) c.fillRect(0, y, 22, 2); }, () => 'lines across: on the host'],
  [() => view.reserved, (c) => keyLine(c, '--ink', [5, 2]), () => 'reserved: taken from the driver'],
  [() => view.driver && rowsHave((r) => r.samples.some((s) => !s[2])), (c) => drawSample(c, 11, 6, false), () => 'used by the process, as the driver says'],
  [() => view.driver && rowsHave((r) => r.samples.some((s) => s[2])), (c) => drawSample(c, 11, 6, true), () => 'used of the whole device, by all processes'],
  [() => view.driver && view.layout.some((p) => p.row.samples.some((s) => s[1] > p.scale)), (c) => drawBeyond(c, 11, 4, true), () => 'that, above the picture'],
  [() => view.capacity && rowsHave((r) => r.capacity), (c) => keyLine(c, '--mark', [8, 4]), () => 'capacity of the device'],
  [() => rowsHave((r) => r.allocated.t !== null), (c) => drawRing(c, 11, 6), () => 'peak of allocated'],
  [() => rowsHave((r) => r.ooms.length), (c) => drawOom(c, 11, 0, 12), () => 'memory ran out'],
  [() => anyOf((p) => p.steps.length), (c) => line(c, css('--soft'), 1, 11.5, 0, 11.5, 12), () => 'the end of a step'],
  [() => anyOf((p) => p.ranges && p.ranges.n), keyStrip, () => 'above: phases, and the program\'s ranges in them'],
  [() => anyOf((p) => p.stretches.length), (c) => [-8, -1, 6, 13].forEach((x) => line(c, css('--soft'), 1, x, 12, x + 12, 0)), () => 'hatched: sums alone are known'],
  [() => view.overlay, (c) => { c.fillStyle = LINES[0]; c.fillRect(0, 5, 22, 2); }, () => 'another run\'s allocated'],
  [() => true, (c) => drawCursor(c, 11, 0, 12, true), () => 'the moment that is listed'],
  [() => view.block >= 0, (c) => strokeEdge(c, [[2, 2], [20, 2], [20, 10], [2, 10]]), () => 'the block that is described'],
];

function drawKey() {
  const marks = MARKS.filter(([there]) => there()), key = document.getElementById('key'), said = marks.map((m) => MARKS.indexOf(m)).join() + darkNow() + view.dim + view.row;
  if (key.dataset.said === said) return;
  key.dataset.said = said;
  key.replaceChildren(...marks.map(([, paint, text]) => {
    const canvas = element('canvas', { width: 44, height: 26, 'aria-hidden': 'true' }), c = canvas.getContext('2d');
    c.scale(2, 2);
    paint(c);
    return element('span', {}, canvas, text());
  }), element('span', {}, 'click: who held it then, or what a block is · drag: move · wheel: zoom · ?: all keys'));
  changed(); /* it may have another height */
}
