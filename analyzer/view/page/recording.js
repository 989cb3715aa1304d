/*
 * recording.js - the recording as the page has it: processes, rows (a device of a process), the columns of their
 * levels and their blocks, each unpacked when it is first wanted.
 */
const DIMS = ['role', 'layer', 'line', 'phase', 'tensor'], [ROLE, LAYER, LINE, PHASE, TENSOR] = DIMS.keys();

/* One part of a level: columns with their extremes, and the bytes that say who held them, by dimension. */
function readPart(bytes, width) {
  const all = new Reader(bytes), n = all.number(), fields = [];
  for (let i = 0; i < 10; i++) fields.push(all.section());
  const [index, events, flags, max, min, last, tMax, rMax, rMin, rLast] = fields;
  const part = {
    n, index: new Float64Array(n), events: new Float64Array(n), flags: new Uint8Array(n), max: new Float64Array(n),
    min: new Float64Array(n), last: new Float64Array(n), tMax: new Float64Array(n), rMax: new Float64Array(n),
    rMin: new Float64Array(n), rLast: new Float64Array(n), state: new Uint32Array(n), states: 0,
    held: DIMS.map(() => null), heldBytes: [],
  };
  for (let i = 0; i < n; i++) {
    const before = i > 0;
    part.index[i] = index.number() + (before ? part.index[i - 1] : 0);
    part.events[i] = events.number();
    part.flags[i] = flags.number();
    part.max[i] = max.memorySigned() + (before ? part.last[i - 1] : 0);
    part.min[i] = part.max[i] - min.memory();
    part.last[i] = part.max[i] - last.memory();
    part.tMax[i] = part.index[i] * width + tMax.number();
    part.rMax[i] = rMax.memorySigned() + (before ? part.rLast[i - 1] : 0);
    part.rMin[i] = part.rMax[i] - rMin.memory();
    part.rLast[i] = part.rMax[i] - rLast.memory();
    part.state[i] = part.states;
    part.states += part.flags[i] & 1 ? 2 : 1;
  }
  for (let i = 0; i < DIMS.length; i++) part.heldBytes.push(all.section());
  return part;
}

/* Who held what in each state of PART: SLOTS numbers a state. */
function heldOf(part, dim) {
  if (part.held[dim]) return part.held[dim];
  const from = part.heldBytes[dim], held = new Float64Array(part.states * SLOTS);
  for (let state = 0; state < part.states; state++) {
    const at = state * SLOTS;
    if (state) held.copyWithin(at, at - SLOTS, at);
    for (let differ = from.byte(); differ > 0; differ--) {
      const slot = from.byte();
      held[at + slot] += from.memorySigned();
    }
  }
  part.heldBytes[dim] = null;
  return (part.held[dim] = held);
}

class Row {
  constructor(facts, process, number) {
    Object.assign(this, facts);
    this.owner = process;
    this.number = number;
    this.levels = facts.levels.map((l) => ({ ...l, parts: l.parts.map((p) => ({ ...p, data: null, asked: false })) }));
    this.table = null; /* of blocks */
    this.tiles = new Map();
  }
  get label() {
    const device = `device ${this.device}` + (this.name ? `: ${this.name}` : '');
    return recording.processes.length > 1 ? `${this.owner.label}, ${device}` : device;
  }
  /* Asks for a part; CHANGED is called when it has come. */
  ask(level, part, changed) {
    if (part.asked) return;
    part.asked = true;
    unpack(part.id).then((bytes) => {
      part.data = readPart(bytes, level.width);
      changed();
    }, fail);
  }
  /* The parts of LEVEL that are needed from column FIRST to LAST, with the one before: null where some are still to come. */
  partsFor(level, first, last, changed) {
    const parts = level.parts;
    let from = 0, whole = true;
    while (from + 1 < parts.length && parts[from + 1].first <= first) from++;
    const wanted = [];
    for (let i = from; i < parts.length && (i === from || parts[i].first <= last); i++) {
      if (!parts[i].data) {
        whole = false;
        this.ask(level, parts[i], changed);
      } else wanted.push(parts[i].data);
    }
    return whole ? wanted : null;
  }
}

/* What of ROW's allocated is on the host, T nanoseconds into its process: bytes, and which. */
const awayAt = (row, t) => awayThen(row, t)[1];
const awayWords = (row, t) => awayThen(row, t)[2];

function awayThen(row, t) {
  const all = row.aways || [];
  let low = 0, high = all.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle][0] <= t) low = middle + 1; else high = middle;
  }
  return low ? all[low - 1] : [0, 0];
}

const recording = { processes: [], rows: [], overlay: false };

async function loadMeta() {
  const meta = await unpackJson('meta');
  recording.overlay = meta.overlay;
  recording.tensors = meta.tensors;
  recording.processes = meta.processes.map((p) => ({ ...p, texts_element: p.texts, scopes_element: p.scopes, texts: null, ranges: null }));
  recording.rows = meta.rows.map((r, i) => new Row(r, recording.processes[r.process], i));
  recording.first = Math.min(...recording.processes.map((p) => p.offset));
  recording.last = Math.max(...recording.processes.map((p) => p.offset + (p.last || 1)));
}

/* ---- texts and ranges of a process ---- */

async function loadTexts(process) {
  const json = await unpackJson(process.texts_element);
  const most = json.row.length ? json.row[json.row.length - 1] + 1 : 1;
  const texts = {
    parent: new Uint32Array(most), frame: new Uint32Array(most), line: new Uint32Array(most), layer: new Uint32Array(most),
    lines: json.lines, layers: json.layers, folds: json.folds, owns: json.owns, scopes: json.scopes, tensors: json.tensors, tensorNames: json.tensor_names, requests: json.requests,
    frames: json.frames.map((f) => {
      const [kind, text, file] = f.split('\n');
      return { kind: +kind, text, file };
    }),
  };
  json.row.forEach((row, i) => {
    texts.parent[row] = json.parent[i];
    texts.frame[row] = json.frame[i];
    texts.line[row] = json.line[i];
    texts.layer[row] = json.layer[i];
  });
  process.texts = texts;
}

async function loadRanges(process) {
  const all = new Reader(await unpack(process.scopes_element)), n = all.number(), fields = [];
  for (let i = 0; i < 6; i++) fields.push(all.section());
  const ranges = { n, from: new Float64Array(n), to: new Float64Array(n), lane: new Int16Array(n), name: new Uint32Array(n), phase: new Uint16Array(n), lanes: 0 };
  const depth = new Uint16Array(n), thread = new Float64Array(n), deepest = new Map();
  for (let i = 0; i < n; i++) {
    ranges.from[i] = fields[0].signed() + (i ? ranges.from[i - 1] : 0);
    const length = fields[1].number();
    ranges.to[i] = length ? ranges.from[i] + length - 1 : process.last;
    depth[i] = fields[2].number();
    thread[i] = fields[3].number();
    ranges.name[i] = fields[4].number();
    ranges.phase[i] = fields[5].number();
    const known = deepest.get(thread[i]) || { depth: 0, count: 0 };
    deepest.set(thread[i], { depth: Math.max(known.depth, depth[i]), count: known.count + 1 });
  }
  /* a lane for each depth of each thread, the busiest thread first; eight are shown */
  const base = new Map();
  for (const [id, t] of [...deepest].sort((a, b) => b[1].count - a[1].count)) {
    base.set(id, ranges.lanes);
    ranges.lanes += t.depth + 1;
  }
  for (let i = 0; i < n; i++) ranges.lane[i] = Math.min(base.get(thread[i]) + depth[i], 30000);
  ranges.shown = Math.min(ranges.lanes, 8);
  process.ranges = ranges;
}

/* ---- blocks ---- */

/* The blocks of ROW in the order of their births, and at every CHECK'th one which of those before it still live. */
const CHECK = 4096;

async function loadBlocks(row) {
  const n = row.kept, table = {
    n, seq: new Float64Array(n), born: new Float64Array(n), died: new Float64Array(n), size: new Float64Array(n),
    stack: new Uint32Array(n), phase: new Uint16Array(n), role: new Uint8Array(n), framework: new Uint8Array(n),
    firstUse: new Float64Array(n), lastUse: new Float64Array(n), tensor: new Uint32Array(n), alive: [],
  };
  let at = 0;
  for (const id of row.blocks) {
    const all = new Reader(await unpack(id)), count = all.number(), f = [];
    for (let i = 0; i < 10; i++) f.push(all.section());
    for (let i = 0; i < count; i++, at++) {
      table.seq[at] = f[0].number() + (i ? table.seq[at - 1] : 0);
      table.born[at] = f[1].number() + (i ? table.born[at - 1] : 0);
      const life = f[2].number();
      table.died[at] = life ? table.born[at] + life - 1 : Infinity;
      table.size[at] = f[3].memory();
      table.stack[at] = f[4].number();
      table.phase[at] = f[5].number();
      const role = f[6].number();
      table.role[at] = role >> 1;
      table.framework[at] = role & 1;
      const first = f[7].number(), last = f[8].number();
      table.firstUse[at] = first ? table.born[at] + first - 1 : NaN;
      table.lastUse[at] = first ? table.firstUse[at] + last : NaN;
      table.tensor[at] = f[9].number();
    }
    await pause();
  }
  let alive = [];
  for (let i = 0; i < n; i += CHECK) {
    const now = table.born[i];
    alive = alive.filter((b) => table.died[b] > now);
    for (let b = Math.max(i - CHECK, 0); b < i; b++) if (table.died[b] > now) alive.push(b);
    table.alive.push(Uint32Array.from(alive));
    if (i % (64 * CHECK) === 0) await pause();
  }
  table.slots = DIMS.map((_, dim) => slotsOf(row, table, dim));
  row.table = table;
}

/* The slot of each block in a dimension. */
function slotsOf(row, table, dim) {
  const slots = new Uint8Array(table.n), { texts, phases } = row.owner, slot = new Map();
  /* a marker that names the block's phase is no layer (dims.c) */
  const fold = (layer, phase) => texts.folds[layer && phase && texts.layers[layer] === phases[phase] ? 0 : layer];
  row.dims[dim].named.forEach((name, i) => slot.set(name, i + 1));
  for (let b = 0; b < table.n; b++) {
    const name = dim === PHASE ? table.phase[b] : dim === ROLE ? table.role[b] : dim === LAYER ? fold(texts.layer[table.stack[b]], table.phase[b])
      : dim === LINE ? texts.line[table.stack[b]] : texts.tensorNames[table.tensor[b]];
    slots[b] = slot.get(name) ?? REST;
  }
  return slots;
}

/* The name of block B in a dimension. */
function nameOf(row, b, dim) {
  const table = row.table, texts = row.owner.texts;
  if (dim === PHASE) return table.phase[b] ? row.owner.phases[table.phase[b]] : 'no phase';
  if (dim === ROLE) return row.roles[table.role[b]];
  if (dim === TENSOR) return texts.tensors[table.tensor[b]] || 'no tensor is known';
  return dim === LAYER ? texts.layers[texts.layer[table.stack[b]]] : texts.lines[texts.line[table.stack[b]]];
}

/* What block B was asked for as, with the bytes where they are not its size; '' where that is not known. */
function tensorOf(row, b) {
  const texts = row.owner.texts, number = row.table.tensor[b], request = texts.requests[number];
  return [texts.tensors[number], request === null || request === row.table.size[b] ? '' : `${request.toLocaleString('en')} bytes asked for`].filter((s) => s).join(', ');
}

/* The frames of block B, innermost first. */
function framesOf(row, b) {
  const texts = row.owner.texts, frames = [];
  for (let s = row.table.stack[b]; s; s = texts.parent[s]) frames.push(texts.frames[texts.frame[s]]);
  return frames;
}

/* The first block that was born at T or later. */
function firstBorn(table, t) {
  let low = 0, high = table.n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (table.born[middle] < t) low = middle + 1; else high = middle;
  }
  return low;
}

/* The blocks that live at T. */
function livingAt(table, t) {
  const end = firstBorn(table, t + 1), check = Math.max(Math.floor((end - 1) / CHECK), 0), living = [];
  if (!end) return living;
  for (const b of table.alive[check]) if (table.died[b] > t) living.push(b);
  for (let b = check * CHECK; b < end; b++) if (table.died[b] > t) living.push(b);
  return living;
}

/* Those that live in [FROM, TO), at least in part. */
function livingIn(table, from, to) {
  const living = livingAt(table, from), end = firstBorn(table, to);
  for (let b = firstBorn(table, from + 1); b < end; b++) living.push(b);
  return living;
}
