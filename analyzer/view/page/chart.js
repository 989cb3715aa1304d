/*
 * chart.js - the picture: a row for each device with its strip of phases, one time axis under all of them; zoom, pan
 * and what the mouse points at.  All rows have one scale, so that they can be held against each other; where each is
 * scaled to what is in sight (v), each has its own.
 *
 * Everything that moves is drawn into #base, once a frame at most; what follows the mouse lies in #over.
 */
const view = {
  from: 0, to: 1, dim: 0, reserved: true, driver: true, capacity: false, overlay: false, fit: false, lit: null,
  search: '', row: 0, at: null, block: -1, frames: [], layout: [], mouse: null,
};
const LEFT = 74, RIGHT = 10, AXIS = 22, LANE = 11, TITLE = 17;
let pending = false, base, over, images = new Map();

/* A colour of the style sheet, looked up once a theme. */
const styles = new Map();
function css(name) {
  const key = name + darkNow();
  if (!styles.has(key)) styles.set(key, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return styles.get(key);
}

function changed() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    draw();
  });
}

/* ---- numbers for people: bytes as the report has them ---- */

function bytesText(n) {
  if (n === null || n === undefined || !Number.isFinite(n)) return 'unknown';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0, value = Math.abs(n);
  while (value >= 1023.995 && i < 5) {
    value /= 1024;
    i++;
  }
  return (n < 0 ? '-' : '') + (i === 0 ? value : value.toFixed(value >= 99.95 ? 1 : 2)) + ' ' + units[i];
}

function timeText(ns, step = 0) {
  if (!Number.isFinite(ns)) return 'unknown';
  const sizes = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']], by = Math.max(Math.abs(step) * 10 || Math.abs(ns), 1);
  const [size, unit] = sizes.find(([s]) => by >= s) || sizes[3];
  const digits = step ? Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9)) : Math.abs(ns) / size >= 100 ? 1 : 3;
  return (ns / size).toFixed(Math.min(digits, 9)) + ' ' + unit;
}

/* ---- layout ---- */

function visibleRows() { return view.overlay ? recording.rows.filter((r) => r.process === 0 || !recording.rows.some((o) => o.process === 0 && o.device === r.device)) : recording.rows; }

function layOut() {
  const width = Math.max(base.parentElement.clientWidth, 320), rows = visibleRows();
  const main = base.parentElement.parentElement, key = document.getElementById('key').offsetHeight, below = Math.min(key + document.getElementById('footer').offsetHeight, window.innerHeight / 6);
  const high = Math.max(rows.length > 1 ? 170 : 300, (window.innerHeight - main.offsetTop - AXIS - 14 - below) / Math.max(rows.length, 1) - 6);
  let y = 4;
  view.layout = rows.map((row) => {
    const lanes = row.owner.ranges ? row.owner.ranges.shown : 1, strip = y + TITLE, top = strip + lanes * LANE + 3;
    const bottom = Math.max(top + 90, y + high - 4);
    const place = { row, title: y, strip, lanes, top, bottom, left: LEFT, right: width - RIGHT };
    y = bottom + 10;
    return place;
  });
  const height = y + AXIS, ratio = window.devicePixelRatio || 1;
  for (const canvas of [base, over]) {
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = width + 'px';
      canvas.style.height = height + 'px';
    }
    canvas.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
  }
  view.axis = y;
  document.getElementById('side').style.maxHeight = Math.min(height, window.innerHeight - key - 8) + 'px';
}

const xOf = (place, t) => place.left + ((t - view.from) / (view.to - view.from)) * (place.right - place.left);
const timeAt = (place, x) => view.from + ((x - place.left) / (place.right - place.left)) * (view.to - view.from);

function topOf(place, columns) {
  const row = place.row;
  let most = view.fit ? columns.max.reduce((a, b) => Math.max(a, b), 0) : Math.max(row.allocated.bytes || 0, view.reserved ? row.reserved.bytes || 0 : 0);
  if (view.fit && view.reserved) most = columns.rMax.reduce((a, b) => Math.max(a, b), most);
  /* the driver's figure is seen, but does not make the rest small: beyond, it is drawn at the edge */
  const bound = 2 * most;
  if (!view.fit && view.driver) for (const s of row.samples) if (!s[2] && s[1] > most) most = Math.min(s[1], bound);
  if (view.capacity && row.capacity) most = Math.max(most, row.capacity);
  for (const other of overlaid(row)) most = Math.max(most, other.allocated.bytes || 0);
  return most > 0 ? most * 1.1 : 1; /* above it, the steps' numbers */
}

function overlaid(row) { return view.overlay ? recording.rows.filter((o) => o !== row && o.device === row.device) : []; }

/* ---- drawing ---- */

function draw() {
  const started = performance.now(), c = base.getContext('2d');
  layOut();
  c.fillStyle = css('--paper');
  c.fillRect(0, 0, base.width, base.height);
  c.font = '11px system-ui, "DejaVu Sans", sans-serif';
  view.shown = 0;
  view.areas = 0;
  for (const place of view.layout) measureRow(place);
  const most = Math.max(...view.layout.map((place) => place.scale));
  for (const place of view.layout) {
    if (!view.fit) place.scale = most;
    drawRow(c, place);
  }
  drawAxis(c);
  drawOver();
  const done = performance.now();
  view.frames.push(done - started);
  if (view.frames.length > 1000) view.frames.splice(0, 500);
  if (typeof afterDraw === 'function') afterDraw();
}

function measureRow(place) {
  const row = place.row, offset = row.owner.offset, from = view.from - offset, to = view.to - offset, wide = Math.max(Math.round(place.right - place.left), 1);
  const columns = columnsOf(row, from, to, wide, view.dim, changed), blocks = visibleBlocks(row, from, to, view.row === row.number ? view.block : -1);
  Object.assign(place, { columns, blocks, scale: topOf(place, columns), from, to });
  view.shown += blocks.length;
}

function drawRow(c, place) {
  drawTitle(c, place);
  drawGrid(c, place);
  drawAreas(c, place);
  drawStretches(c, place);
  drawAway(c, place);
  drawSteps(c, place);
  drawStrip(c, place);
  drawLines(c, place);
  drawOverlay(c, place);
  if (view.row === place.row.number && view.block >= 0) drawEdge(c, place);
  drawMarks(c, place);
}

function drawTitle(c, place) {
  const row = place.row, limited = place.columns.limited ? `   level of detail ends here: ${timeText(place.columns.width)} a column` : '';
  const listed = view.layout.length > 1 && view.row === row.number, { font } = c;
  c.font = (listed ? 'bold ' : '') + font;
  c.fillStyle = css(listed ? '--accent' : '--ink');
  c.textAlign = 'left';
  c.textBaseline = 'middle';
  c.fillText(row.label + limited, place.left, place.title + TITLE / 2, place.right - place.left);
  c.font = font;
}

function niceStep(range, count) {
  const rough = range / count, power = Math.pow(10, Math.floor(Math.log10(rough)));
  return power * [1, 2, 5, 10].find((n) => n * power >= rough);
}

function drawGrid(c, place) {
  const { top, bottom, left, right, scale } = place, unit = Math.pow(1024, Math.min(Math.floor(Math.log2(Math.max(scale, 1)) / 10), 4));
  const step = niceStep(scale / unit, Math.max((bottom - top) / 45, 2)) * unit;
  c.textAlign = 'right';
  c.strokeStyle = css('--grid');
  c.lineWidth = 1;
  for (let value = 0; value <= scale; value += step) {
    const y = Math.round(bottom - (value / scale) * (bottom - top)) + 0.5;
    c.beginPath();
    c.moveTo(left, y);
    c.lineTo(right, y);
    c.stroke();
    c.fillStyle = css('--soft');
    c.fillText(bytesText(value).replace(/\.?0+ (?=.iB)|(?<=\.\d)0 /, ' '), left - 5, y);
  }
}

function drawAreas(c, place) {
  const { row, columns, top, bottom, left } = place, width = columns.n, height = Math.round(bottom - top), key = row.number;
  let image = images.get(key);
  if (!image || image.data.width !== width || image.data.height !== height) {
    const canvas = document.createElement('canvas');
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext('2d');
    image = { canvas, context, data: context.createImageData(width, height) };
    images.set(key, image);
  }
  view.areas += paintAreas(image.data, row, columns, place.blocks, view.dim, place.scale, view.lit ? view.lit(row) : null);
  image.context.putImageData(image.data, 0, 0);
  c.drawImage(image.canvas, left, top, width, height);
}

/* What stands in the file as sums alone: hatched. */
function drawStretches(c, place) {
  const { row, columns, left, top, bottom } = place;
  if (!row.owner.stretches.length) return;
  c.save();
  c.beginPath();
  for (const [from, to] of row.owner.stretches) {
    const a = Math.max(xOf(place, from + row.owner.offset), left), b = Math.min(xOf(place, to + row.owner.offset), place.right);
    if (b > a) c.rect(a, top, Math.max(b - a, 1), bottom - top);
  }
  for (let x = 0; x < columns.n; x++) if (columns.folded[x]) c.rect(left + x, top, 1, bottom - top);
  c.clip();
  c.strokeStyle = css('--soft');
  c.globalAlpha = 0.4;
  c.lineWidth = 1;
  c.beginPath();
  for (let x = left - (bottom - top); x < place.right; x += 7) {
    c.moveTo(x, bottom);
    c.lineTo(x + bottom - top, top);
  }
  c.stroke();
  c.restore();
}

/* What of allocated is on the host: above what the device holds, lines across. */
function drawAway(c, place) {
  const { row, columns, left, bottom, top, scale } = place, y = (v) => bottom - (v / scale) * (bottom - top);
  if (!row.aways) return;
  c.save();
  c.beginPath();
  for (let x = 0; x < columns.n; x++) {
    const away = columns.off[x] ? 0 : Math.min(awayAt(row, columns.t[x]), columns.max[x]);
    if (away > 0) c.rect(left + x, y(columns.max[x]), 1, y(columns.max[x] - away) - y(columns.max[x]));
  }
  c.clip();
  c.fillStyle = css('--paper');
  for (let at = top; at < bottom; at += 4) c.fillRect(left, at, columns.n, 2);
  c.restore();
}

function drawSteps(c, place) {
  const steps = place.row.owner.steps, offset = place.row.owner.offset;
  c.strokeStyle = css('--soft');
  c.fillStyle = css('--soft');
  c.textAlign = 'right';
  c.lineWidth = 1;
  let last = -1e9;
  const inside = steps.filter((s) => s[1] >= place.from && s[1] <= place.to).length;
  if (inside > (place.right - place.left) / 8) return; /* a fence says nothing */
  for (const [number, t] of steps) {
    const x = xOf(place, t + offset);
    if (x < place.left || x > place.right || x - last < 5) continue;
    c.globalAlpha = 0.35;
    c.beginPath();
    c.moveTo(Math.round(x) + 0.5, place.strip);
    c.lineTo(Math.round(x) + 0.5, place.bottom);
    c.stroke();
    c.globalAlpha = 1;
    if (x - last > 46 && x - place.left > 46) c.fillText(`step ${number}`, x - 3, place.top + 8);
    last = x;
  }
}

function phaseColor(row, phase, name) {
  const text = phase ? row.owner.phases[phase] : name;
  if (KNOWN[text]) return KNOWN[text];
  let hash = 7;
  for (let i = 0; i < text.length; i++) hash = (hash * 31 + text.charCodeAt(i)) >>> 0;
  return HUES[hash % HUES.length];
}

function drawStrip(c, place) {
  const row = place.row, ranges = row.owner.ranges, texts = row.owner.texts, lastX = new Float64Array(9).fill(-1), pixel = (place.to - place.from) / (place.right - place.left);
  if (!ranges || !texts) return;
  c.textAlign = 'left';
  for (let i = 0; i < ranges.n && ranges.from[i] < place.to; i++) {
    const lane = ranges.lane[i];
    if (ranges.to[i] < place.from || lane >= 8) continue;
    const a = Math.max((ranges.from[i] - place.from) / pixel, 0) + place.left, b = Math.min((ranges.to[i] - place.from) / pixel + place.left, place.right);
    if (b <= lastX[lane]) continue;
    const name = texts.scopes[ranges.name[i]], y = place.strip + lane * LANE, wide = Math.max(b - a, 1);
    c.fillStyle = phaseColor(row, ranges.phase[i], name);
    c.fillRect(a, y, wide > 2 ? wide - 0.5 : wide, LANE - 1);
    lastX[lane] = Math.max(Math.ceil(b), Math.floor(a) + 1);
    if (wide > 26) {
      const [r, g, blue] = rgb(c.fillStyle);
      c.fillStyle = 0.3 * r + 0.59 * g + 0.11 * blue > 130 ? '#111111' : '#ffffff';
      c.save();
      c.beginPath();
      c.rect(a, y, wide - 2, LANE);
      c.clip();
      c.font = '9px system-ui, "DejaVu Sans", sans-serif';
      c.fillText(name, a + 2, y + LANE / 2);
      c.restore();
    }
  }
}

function stepLine(c, place, values, off) {
  const { bottom, top, scale, left } = place, y = (v) => bottom - (v / scale) * (bottom - top);
  c.beginPath();
  for (let x = 0; x < values.length; x++) {
    const at = y(values[x]);
    if (off[x]) continue;
    if (x === 0 || off[x - 1]) c.moveTo(left + x, at);
    else c.lineTo(left + x, at);
    c.lineTo(left + x + 1, at);
  }
  c.stroke();
}

function drawLines(c, place) {
  const { row, columns, left, right, top, bottom, scale } = place, y = (v) => bottom - (v / scale) * (bottom - top);
  c.save();
  c.beginPath();
  c.rect(left, top, right - left, bottom - top + 1);
  c.clip();
  c.lineWidth = 1;
  c.strokeStyle = css('--ink');
  stepLine(c, place, columns.max, columns.off);
  c.globalAlpha = 0.45;
  stepLine(c, place, columns.min, columns.off);
  c.globalAlpha = 1;
  if (view.reserved) {
    c.lineWidth = 1.5;
    c.setLineDash([5, 2]);
    stepLine(c, place, columns.rMax, columns.off);
    c.setLineDash([]);
  }
  if (view.driver) {
    for (const [t, used, whole] of row.samples) {
      const x = xOf(place, t + row.owner.offset);
      if (x < left || x > right) continue;
      if (used <= scale) drawSample(c, x, y(used), whole);
      else drawBeyond(c, x, top + 1, whole);
    }
  }
  if (view.capacity && row.capacity) {
    c.strokeStyle = css('--mark');
    c.setLineDash([8, 4]);
    c.beginPath();
    c.moveTo(left, y(row.capacity));
    c.lineTo(right, y(row.capacity));
    c.stroke();
    c.setLineDash([]);
    c.fillStyle = css('--mark');
    c.textAlign = 'right';
    c.fillText(`capacity ${bytesText(row.capacity)}`, right - 4, y(row.capacity) + 9);
  }
  c.restore();
}

const LINES = ['#d81b60', '#1e88e5', '#b8860b', '#004d40', '#7b1fa2'];

function drawOverlay(c, place) {
  const others = overlaid(place.row);
  others.forEach((row, i) => {
    const from = view.from - row.owner.offset, to = view.to - row.owner.offset;
    const columns = columnsOf(row, from, to, place.columns.n, view.dim, changed);
    c.strokeStyle = LINES[i % LINES.length];
    c.lineWidth = 2;
    stepLine(c, place, columns.max, columns.off);
    c.fillStyle = c.strokeStyle;
    c.textAlign = 'right';
    c.fillText(`${row.owner.label}: peak ${row.allocated.at_least ? 'at least ' : ''}${bytesText(row.allocated.bytes)}`, place.right - 4, place.top + 20 + 13 * i);
  });
}

function drawAxis(c) {
  const place = view.layout[0];
  if (!place) return;
  const step = niceStep(view.to - view.from, Math.max((place.right - place.left) / 110, 2));
  c.fillStyle = css('--soft');
  c.strokeStyle = css('--soft');
  c.textAlign = 'center';
  c.lineWidth = 1;
  for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
    const x = Math.round(xOf(place, t)) + 0.5;
    c.beginPath();
    c.moveTo(x, view.axis - 8);
    c.lineTo(x, view.axis - 3);
    c.stroke();
    if (x > place.left + 20 && x < place.right - 20) c.fillText(timeText(t, step), x, view.axis + 6);
  }
}

/* What follows the mouse, and the moment that was chosen. */
function drawOver() {
  const c = over.getContext('2d');
  c.clearRect(0, 0, over.width, over.height);
  c.lineWidth = 1;
  for (const place of view.layout) {
    const inside = (t) => t !== null && t >= view.from && t <= view.to, x = (t) => Math.round(xOf(place, t)) + 0.5;
    if (inside(view.at)) drawCursor(c, x(view.at), place.strip, place.bottom, place.row.number === view.row);
    if (view.mouse && inside(view.mouse.t)) line(c, css('--soft'), 1, x(view.mouse.t), place.strip, x(view.mouse.t), place.bottom);
  }
  drawHover(c);
}

/* What lies under the mouse, in a line beside it. */
function drawHover(c) {
  const at = view.mouse, place = at && view.layout.find((p) => at.y >= p.top && at.y <= p.bottom), x = place ? Math.floor(at.x - place.left) : -1;
  if (!place || !place.columns || x < 0 || x >= place.columns.n || place.columns.off[x]) return;
  const { columns, row, top, bottom, scale } = place, found = pick(row, columns, place.blocks, view.dim, x, ((bottom - at.y) / (bottom - top)) * scale);
  const parts = [timeText(columns.t[x]), bytesText(columns.max[x])];
  if (found) {
    parts.push(`${briefly(slotNames(row, view.dim)[found.slot])}: ${bytesText(columns.held[x * SLOTS + found.slot])}`);
    if (found.block >= 0 && row.owner.texts) parts.push(`block of ${bytesText(row.table.size[found.block])}, ${briefly(nameOf(row, found.block, view.dim === LINE ? ROLE : LINE))}`);
  }
  const text = parts.join('  ·  ');
  c.font = '11px system-ui, "DejaVu Sans", sans-serif';
  const wide = Math.min(c.measureText(text).width, place.right - place.left - 8), left = Math.max(Math.min(at.x + 12, place.right - wide - 6), place.left), y = Math.max(at.y - 16, top + 8);
  c.fillStyle = css('--panel');
  c.fillRect(left - 4, y - 9, wide + 8, 18);
  c.strokeStyle = css('--line');
  c.strokeRect(left - 4, y - 9, wide + 8, 18);
  c.fillStyle = css('--ink');
  c.textBaseline = 'middle';
  c.fillText(text, left, y, wide);
}

/* ---- moving ---- */

function show(from, to) {
  const whole = recording.last - recording.first, least = 50;
  let wide = Math.min(Math.max(to - from, least), whole * 1.04);
  const middle = (from + to) / 2, most = recording.last + whole * 0.02, first = recording.first - whole * 0.02;
  let left = middle - wide / 2;
  left = Math.max(Math.min(left, most - wide), first);
  view.from = left;
  view.to = left + wide;
  changed();
}

function zoom(by, t) {
  const at = t ?? (view.from + view.to) / 2;
  show(at - (at - view.from) * by, at + (view.to - at) * by);
}

function pan(part) {
  const by = (view.to - view.from) * part;
  show(view.from + by, view.to + by);
}

function showWhole() { show(recording.first, recording.last); }

/* The step of the moment T of ROW, or what lies around it. */
function showAround(row, t) {
  const ends = row.owner.steps.map((s) => s[1] + row.owner.offset), i = ends.findIndex((end) => end >= t), wide = (recording.last - recording.first) / 8;
  let from = t - wide / 2, to = t + wide / 2;
  if (ends.length && row.owner.step_count === ends.length) {
    from = i < 0 ? ends[ends.length - 1] : i ? ends[i - 1] : row.owner.offset;
    to = i < 0 ? Math.min(recording.last, t + (t - from) / 2) : ends[i];
  }
  show(from - (to - from) * 0.05, to + (to - from) * 0.05);
  choose(row, t);
  const place = view.layout.find((p) => p.row === row), top = base.getBoundingClientRect().top;
  if (place && (top + place.title < 0 || top + place.bottom > window.innerHeight - document.getElementById('key').offsetHeight)) window.scrollBy(0, top + place.title - 8);
}

function showPeak(row = recording.rows[view.row]) {
  if (row && row.allocated.t !== null) showAround(row, row.allocated.t + row.owner.offset);
}

/* The last time that memory ran out; from there the one before. */
function showOom() {
  const all = visibleRows().flatMap((row) => row.ooms.map((oom) => [row, oom.t + row.owner.offset])).sort((a, b) => b[1] - a[1]);
  const at = all.findIndex(([row, t]) => row.number === view.row && t === view.at), seen = view.to - view.from < recording.last - recording.first;
  if (all.length) showAround(...all[at < 0 ? 0 : (at + seen) % all.length]);
}
