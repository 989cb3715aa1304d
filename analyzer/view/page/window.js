/*
 * window.js - a stretch of time as columns of pixels: of each the extremes, the moment of its greatest value, and who
 * held what at that moment.
 *
 * Columns of a level that are no wider than a pixel are joined; where even the finest level's are wider, and the page
 * has every block, the blocks themselves are counted.  Where it has not, the finest columns are shown as they are, and
 * `limited` says so.
 */
function newColumns(n) {
  return {
    n, max: new Float64Array(n), min: new Float64Array(n), t: new Float64Array(n), rMax: new Float64Array(n),
    rMin: new Float64Array(n), held: new Float64Array(n * SLOTS), events: new Float64Array(n), folded: new Uint8Array(n),
    off: new Uint8Array(n), limited: false, width: 0, coarse: false,
  };
}

/* The widest level whose columns are no wider than PIXEL; the finest where all are. */
function levelFor(row, pixel) {
  const found = row.levels.findIndex((l) => l.width <= pixel);
  return found < 0 ? row.levels.length - 1 : found;
}

/* What is needed of LEVEL between FROM and TO, or of a coarser one as long as that is still to come. */
function partsNear(row, level, from, to, changed) {
  for (let i = level; i >= 0; i--) {
    const l = row.levels[i], parts = row.partsFor(l, Math.floor(from / l.width), Math.floor(to / l.width), changed);
    if (parts) return { level: l, number: i, parts };
  }
  return null;
}

/* Walks over the columns of several parts as if they were one array. */
class Walk {
  constructor(parts, index) {
    this.parts = parts;
    this.part = 0;
    this.i = -1; /* the last column whose index is below INDEX; -1 none */
    while (this.part + 1 < parts.length && parts[this.part + 1].index[0] < index) this.part++;
    const data = parts[this.part];
    let low = 0, high = data ? data.n : 0;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (data.index[middle] < index) low = middle + 1; else high = middle;
    }
    this.i = low - 1;
  }
  get data() { return this.i < 0 ? null : this.parts[this.part]; }
  /* The index of the next column, Infinity at the end. */
  next() {
    const data = this.parts[this.part];
    if (!data) return Infinity;
    if (this.i + 1 < data.n) return data.index[this.i + 1];
    return this.part + 1 < this.parts.length ? this.parts[this.part + 1].index[0] : Infinity;
  }
  step() {
    if (this.i + 1 < this.parts[this.part].n) this.i++;
    else {
      this.part++;
      this.i = 0;
    }
  }
}

function copyHeld(out, x, data, state, dim) {
  const held = heldOf(data, dim), at = state * SLOTS;
  for (let slot = 0; slot < SLOTS; slot++) out.held[x * SLOTS + slot] = held[at + slot];
}

function fillFromLevel(out, near, from, to, dim) {
  const { level, parts } = near, width = level.width, pixel = (to - from) / out.n;
  const walk = new Walk(parts, Math.floor(from / width));
  for (let x = 0; x < out.n; x++) {
    const left = from + x * pixel, end = Math.max(Math.ceil((left + pixel) / width), Math.floor(left / width) + 1);
    const before = walk.data, beforeAt = walk.i;
    let best = null, bestAt = 0, max = -Infinity, min = Infinity, rMax = -Infinity, rMin = Infinity;
    /* a column that reaches from one pixel into the next counts in both */
    let again = before && before.index[beforeAt] >= Math.floor(left / width);
    while (again || walk.next() < end) {
      if (!again) walk.step();
      again = false;
      const d = walk.data, i = walk.i;
      if (d.max[i] > max) {
        max = d.max[i];
        best = d;
        bestAt = i;
      }
      min = Math.min(min, d.min[i]);
      rMax = Math.max(rMax, d.rMax[i]);
      rMin = Math.min(rMin, d.rMin[i]);
      out.events[x] += d.events[i];
      out.folded[x] |= d.flags[i] & 2;
    }
    if (best) {
      out.max[x] = max;
      out.min[x] = min;
      out.rMax[x] = rMax;
      out.rMin[x] = rMin;
      out.t[x] = best.tMax[bestAt];
      copyHeld(out, x, best, best.state[bestAt], dim);
    } else if (before) { /* nothing happened: what the last column left */
      out.max[x] = out.min[x] = before.last[beforeAt];
      out.rMax[x] = out.rMin[x] = before.rLast[beforeAt];
      out.t[x] = left;
      copyHeld(out, x, before, before.state[beforeAt] + (before.flags[beforeAt] & 1), dim);
    } else out.t[x] = left;
  }
}

/* ---- counting blocks ---- */

/* Births and deaths of BLOCKS after FROM and before TO, in order; a death before a birth at the same moment. */
function eventsOf(table, blocks, from, to) {
  const events = [];
  for (const b of blocks) {
    if (table.born[b] > from && table.born[b] < to) events.push({ t: table.born[b], b, born: true });
    if (table.died[b] > from && table.died[b] < to) events.push({ t: table.died[b], b, born: false });
  }
  return events.sort((x, y) => x.t - y.t || x.born - y.born || x.b - y.b);
}

/* Extremes and holders pixel by pixel, where the page has every block.  What no block accounts for (slot 0) and what is
   reserved are the finest level's. */
function fillFromBlocks(out, row, from, to, dim, blocks) {
  const table = row.table, slots = table.slots[dim], pixel = (to - from) / out.n, now = new Float64Array(SLOTS);
  const events = eventsOf(table, blocks, from, to);
  let total = 0, e = 0;
  for (const b of blocks)
    if (table.born[b] <= from && table.died[b] > from) {
      now[slots[b]] += table.size[b];
      total += table.size[b];
    }
  for (let x = 0; x < out.n; x++) {
    const end = from + (x + 1) * pixel, other = out.held[x * SLOTS];
    let max = total, min = total, t = from + x * pixel, count = 0;
    const at = x * SLOTS;
    for (let slot = 1; slot < SLOTS; slot++) out.held[at + slot] = now[slot];
    for (; e < events.length && events[e].t < end; e++, count++) {
      const { b, born } = events[e], size = born ? table.size[b] : -table.size[b];
      total += size;
      now[slots[b]] += size;
      min = Math.min(min, total);
      if (total > max) {
        max = total;
        t = events[e].t;
        for (let slot = 1; slot < SLOTS; slot++) out.held[at + slot] = now[slot];
      }
    }
    out.max[x] = max + other;
    out.min[x] = min + other;
    out.t[x] = t;
    out.events[x] = count;
  }
}

const MOST_COUNTED = 60000;

/* Where the process had not begun, or had ended, there is nothing. */
function markOff(out, row, from, pixel) {
  for (let x = 0; x < out.n; x++) {
    if (from + (x + 1) * pixel > 0 && from + x * pixel <= row.owner.last) continue;
    out.off[x] = 1;
    out.max[x] = out.min[x] = out.rMax[x] = out.rMin[x] = 0;
    out.held.fill(0, x * SLOTS, (x + 1) * SLOTS);
  }
  return out;
}

/* One moment of ROW, T nanoseconds into its process, as one column.  At its peak, and where memory ran out, the recording
   itself says what lived; where its blocks are not all in the page, it is the greatest of the finest column there. */
function momentOf(row, t, dim, changed) {
  const known = [row.allocated, ...row.ooms].find((m) => m.held && m.t === t), c = columnsOf(row, t, t + 1, 1, dim, changed);
  if (!known) return c;
  c.max[0] = c.min[0] = known.bytes;
  c.rMax[0] = c.rMin[0] = known.reserved_then;
  c.t[0] = t;
  c.events[0] = c.folded[0] = 0;
  c.held.set(known.held[dim]);
  c.coarse = c.limited = false;
  return c;
}

/* ROW between FROM and TO (nanoseconds of its process) in N columns of pixels. */
function columnsOf(row, from, to, n, dim, changed) {
  return markOff(fillColumns(row, from, to, n, dim, changed), row, from, (to - from) / n);
}

function fillColumns(row, from, to, n, dim, changed) {
  const out = newColumns(n), pixel = (to - from) / n, level = levelFor(row, pixel), near = partsNear(row, level, from, to, changed);
  if (!near || !near.parts.length) {
    out.coarse = true;
    return out;
  }
  fillFromLevel(out, near, from, to, dim);
  out.coarse = near.number !== level;
  out.width = near.level.width;
  out.exact = near.level.width <= 1;
  if (near.level.width <= pixel || out.coarse) return out;
  if (row.all && row.table && !out.folded.includes(2)) {
    const blocks = livingIn(row.table, from, to);
    if (blocks.length <= MOST_COUNTED) {
      fillFromBlocks(out, row, from, to, dim, blocks);
      return out;
    }
  }
  out.limited = true;
  return out;
}
