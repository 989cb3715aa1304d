/*
 * paint.js - columns and blocks as pixels.
 *
 * The areas are written into an ImageData pixel by pixel: what a frame costs depends on the size of the picture, and
 * hardly on how many blocks lie in it.  A column whose areas are those of the column before is copied.
 */
const HUES = ['#56b4e9', '#0072b2', '#d55e00', '#e6b800', '#009e73', '#cc79a7', '#e69f00', '#8c6bb1', '#5e8c31', '#a6611a',
  '#88ccee', '#882255', '#44aa99', '#ddcc77', '#aa4499', '#7f8fa6'];
const KNOWN = { forward: '#56b4e9', logits: '#d55e00', backward: '#0072b2', optimizer: '#e6b800', 'no phase': '#8a8f98', evaluation: '#009e73',
  parameter: '#8a8f98', output: '#d55e00', gradient: '#0072b2', 'optimizer state': '#e6b800', activation: '#56b4e9', temporary: '#cc79a7', input: '#009e73', workspace: '#7f8fa6',
  'made in forward': '#88ccee', 'made in logits': '#e69f00', 'made in backward': '#8c6bb1', 'made in optimizer': '#ddcc77', 'made outside any phase': '#9aa0a8', 'no Python line': '#9aa0a8', 'no layer': '#9aa0a8' };
const REST_COLOR = '#6d6d72';

/* A name has one colour in all rows: what many recordings share always the same, others by their places. */
const named = new Map();
function colorOfNames(dim) {
  if (named.has(dim)) return named.get(dim);
  const names = new Set(recording.rows.flatMap((row) => row.dims[dim].slots)), taken = new Set([...names].map((name) => KNOWN[name]));
  const free = HUES.filter((hue) => !taken.has(hue)), colors = new Map();
  let next = 0;
  for (const name of names) colors.set(name, KNOWN[name] || free[next++ % free.length]);
  named.set(dim, colors);
  return colors;
}

/* The colour of each slot of a row. */
function colorsOf(row, dim) {
  const colors = [darkNow() ? '#57534c' : '#c9c4bb', ...row.dims[dim].slots.map((name) => colorOfNames(dim).get(name))];
  while (colors.length < REST) colors.push('#000000');
  colors[REST] = REST_COLOR;
  return colors;
}

function rgb(hex) {
  return [parseInt(hex.slice(1, 3), 16), parseInt(hex.slice(3, 5), 16), parseInt(hex.slice(5, 7), 16)];
}

function shade([r, g, b], by) {
  const to = by < 0 ? 0 : 255, part = Math.abs(by), mix = (c) => Math.round(c + (to - c) * part);
  return (255 << 24) | (mix(b) << 16) | (mix(g) << 8) | mix(r);
}

/* Of each slot: four shades for blocks, one for what is smaller, one for edges, one where something else is looked for. */
function shadesOf(row, dim) {
  return colorsOf(row, dim).map((hex) => {
    const c = rgb(hex), grey = Math.round(0.3 * c[0] + 0.59 * c[1] + 0.11 * c[2]);
    const dull = [0, 1, 2].map(() => Math.round(grey * 0.35 + 255 * 0.55));
    return { blocks: [0, 0.1, 0.2, 0.3].map((by) => shade(c, by)), rest: shade(c, 0.42), edge: shade(c, -0.25), dull: shade(darkNow() ? dull.map((v) => v >> 1) : dull, 0) };
  });
}

const darkNow = () => document.documentElement.classList.contains('dark');

/* Paints N columns into IMAGE.  LIT(slot, block): whether it is not greyed; null: all are. */
function paintAreas(image, row, columns, blocks, dim, top, lit) {
  const { width, height } = image, pixels = new Uint32Array(image.data.buffer), shades = shadesOf(row, dim), scale = height / top;
  const living = new Living(row, blocks, dim);
  let version = -1, areas = 0, highest = height; /* HIGHEST: the upper end of the column before */
  pixels.fill(0);
  for (let x = 0; x < width; x++) {
    living.forward(columns.t[x]);
    if (x && version === living.version && sameHeld(columns, x)) {
      for (let at = highest * width + x, end = width * height; at < end; at += width) pixels[at] = pixels[at - 1];
      continue;
    }
    version = living.version;
    highest = paintColumn(pixels, width, height, x, columns, living, scale, (slot, b) => {
      const s = shades[slot];
      areas++;
      return lit && !lit(slot, b) ? s.dull : b < 0 ? s.rest : s.blocks[(b * 7) & 3];
    }, shades);
  }
  return areas;
}

/* One column, from the bottom up, as areasOf in stack.js has it: but blocks too low for a row of pixels of their own
   cost an addition each.  Returns the upper end. */
function paintColumn(pixels, width, height, x, columns, living, scale, colorOf, shades) {
  const { held } = columns, size = living.table ? living.table.size : null;
  let bottom = height, base = 0; /* BOTTOM: the row of pixels below which all is painted */
  for (let slot = 0; slot < SLOTS; slot++) {
    const bytes = held[x * SLOTS + slot];
    if (!(bytes > 0)) continue;
    const top = base + bytes, alive = size ? living.alive[slot] : [];
    let y = base, next = (height - bottom + 0.5) / scale; /* NEXT: as many bytes reach into the next row */
    for (let i = 0; i <= alive.length; i++) {
      const b = i < alive.length ? alive[i] : -1;
      y = b < 0 ? top : Math.min(y + size[b], top);
      if (y < next) continue;
      const end = Math.max(Math.round(height - y * scale), 0);
      if (end >= bottom) continue;
      const color = colorOf(slot, b);
      let at = (bottom - 1) * width + x;
      for (let row = bottom; row > end; row--, at -= width) pixels[at] = color;
      if (b >= 0 && bottom - end > 3) pixels[end * width + x] = shades[slot].edge;
      bottom = end;
      next = (height - bottom + 0.5) / scale;
    }
    base = top;
  }
  return bottom;
}

function sameHeld(columns, x) {
  const at = x * SLOTS, before = at - SLOTS;
  for (let slot = 0; slot < SLOTS; slot++) if (columns.held[at + slot] !== columns.held[before + slot]) return false;
  return true;
}

/* What lies at Y bytes in column X. */
function pick(row, columns, blocks, dim, x, y) {
  const living = new Living(row, blocks, dim);
  let found = null;
  living.forward(columns.t[x]);
  areasOf(columns, x, living, (slot, b, from, to) => {
    if (y >= from && y < to) found = { slot, block: b };
  });
  return found;
}

/* Where block B lies, in each column that it lives in at the moment of its greatest value: [column, bytes below it, bytes up to its end]. */
function placesOf(row, columns, blocks, dim, b) {
  const { table } = row, { held } = columns, living = new Living(row, blocks, dim), slot = table.slots[dim][b], places = [];
  for (let x = 0; x < columns.n; x++) {
    const at = x * SLOTS;
    living.forward(columns.t[x]);
    if (columns.off[x] || table.born[b] > columns.t[x] || table.died[b] <= columns.t[x]) continue;
    let y = 0;
    for (let below = 0; below < slot; below++) y += Math.max(held[at + below], 0);
    const top = y + held[at + slot];
    for (const other of living.alive[slot]) {
      if (other === b) break;
      y += table.size[other];
    }
    places.push([x, Math.min(y, top), Math.min(y + table.size[b], top)]);
  }
  return places;
}
