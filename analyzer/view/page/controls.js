/* controls.js - the mouse, the keys, the switches, the search. */
const KEYS = [
  ['drag, ← →', 'move'], ['wheel, + −', 'zoom'], ['click', 'who holds it then; on an area, the block'], ['shift+drag', 'zoom to a stretch'],
  ['0', 'the whole run'], ['p', 'the peak'], ['m', 'when memory ran out; again: the time before'], ['1 2 3 4 5', `stack by ${DIMS.join(', ')}`], ['r', 'reserved'], ['u', 'what the driver says is used'],
  ['c', 'the capacity'], ['o', 'lay runs over each other'], ['v', 'scale each row to what is in sight'], ['f', 'who held it, by call stack'],
  ['n N', 'the next, the previous step'], ['/', 'search'], ['d', 'light or dark'], ['Esc', 'show everything again'],
];

function placeAt(y) { return view.layout.find((p) => y >= p.title && y <= p.bottom) || view.layout[view.layout.length - 1]; }

function pointOf(event) {
  const box = base.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

/* ---- the mouse ---- */

function setUpMouse() {
  let grabbed = null;
  base.addEventListener('pointerdown', (event) => {
    grabbed = { ...pointOf(event), from: view.from, to: view.to, moved: false, zoom: event.shiftKey };
    base.setPointerCapture(event.pointerId);
  });
  base.addEventListener('pointermove', (event) => {
    const at = pointOf(event), place = placeAt(at.y);
    if (!place) return;
    view.mouse = { ...at, t: timeAt(place, at.x) };
    if (grabbed && Math.abs(at.x - grabbed.x) > 3) grabbed.moved = true;
    if (grabbed && grabbed.moved && !grabbed.zoom) {
      const by = ((at.x - grabbed.x) / (place.right - place.left)) * (grabbed.to - grabbed.from);
      show(grabbed.from - by, grabbed.to - by);
    } else requestAnimationFrame(drawOver);
  });
  base.addEventListener('pointerup', (event) => {
    const at = pointOf(event), place = placeAt(at.y), was = grabbed;
    grabbed = null;
    if (!was || !place) return;
    if (was.moved && was.zoom) show(Math.min(timeAt(place, was.x), timeAt(place, at.x)), Math.max(timeAt(place, was.x), timeAt(place, at.x)));
    else if (!was.moved) click(place, at);
  });
  base.addEventListener('pointerleave', () => {
    view.mouse = null;
    drawOver();
  });
  base.addEventListener('wheel', (event) => {
    const place = placeAt(pointOf(event).y);
    if (!place) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / 1000);
    else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), timeAt(place, pointOf(event).x));
  }, { passive: false });
}

function click(place, at) {
  const { columns, row, bottom, top, scale } = place, x = Math.floor(at.x - place.left);
  if (!columns || x < 0 || x >= columns.n) return;
  const found = pick(row, columns, place.blocks, view.dim, x, ((bottom - at.y) / (bottom - top)) * scale);
  choose(row, columns.t[x] + row.owner.offset, found && found.block >= 0 ? found.block : -1);
  document.getElementById('side').scrollTop = 0;
}

/* ---- keys ---- */

function nextStep(by) {
  const row = recording.rows[view.row], at = (view.from + view.to) / 2 - row.owner.offset, steps = row.owner.steps;
  let i = steps.findIndex((s) => s[1] >= at);
  if (i < 0) i = steps.length - 1;
  i = Math.max(0, Math.min(steps.length - 1, i + by));
  if (!steps.length) return;
  const to = steps[i][1] + row.owner.offset, from = (i ? steps[i - 1][1] : 0) + row.owner.offset;
  show(from - (to - from) * 0.05, to + (to - from) * 0.05);
}

const ACTIONS = {
  ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), '+': () => zoom(0.6), '=': () => zoom(0.6), '-': () => zoom(1 / 0.6), 0: showWhole, Home: showWhole,
  p: () => showPeak(), m: showOom, r: () => flip('reserved'), u: () => flip('driver'), c: () => flip('capacity'), o: () => flip('overlay'), f: openFlame,
  v: () => {
    view.fit = !view.fit;
    changed();
  },
  n: () => nextStep(1), N: () => nextStep(-1), d: switchTheme, '?': showHelp, '/': () => document.getElementById('search').focus(), Escape: showAll,
};

function setUpKeys() {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.tagName === 'INPUT' && event.target.type === 'search') {
      if (event.key === 'Escape') {
        event.target.blur();
        showAll();
      }
      return;
    }
    if (event.key >= '1' && event.key <= '5') setDim(+event.key - 1);
    else if (Object.hasOwn(ACTIONS, event.key)) ACTIONS[event.key]();
    else return;
    event.preventDefault();
  });
}

function showAll() {
  document.getElementById('search').value = '';
  view.block = -1;
  search('');
}

function showHelp() {
  const dialog = document.getElementById('help'), table = element('table');
  for (const [keys, what] of KEYS) table.append(element('tr', {}, element('td', {}, element('kbd', {}, keys)), element('td', {}, what)));
  dialog.replaceChildren(table, element('button', { onclick: () => dialog.close() }, 'close'));
  dialog.showModal();
}

function switchTheme() {
  document.documentElement.classList.toggle('dark');
  if (flame.root) paintIcicle();
  changed();
}

/* ---- switches ---- */

function flip(name) {
  view[name] = !view[name];
  document.getElementById('show-' + name).checked = view[name];
  changed();
}

/* Whether DIM tells blocks apart: where no role was recorded, roles do not. */
function hasDim(dim) {
  if (DIMS[dim] === 'tensor') return recording.tensors;
  return DIMS[dim] !== 'role' || recording.rows.some((row) => row.roles.length > 1);
}

function setDim(dim) {
  if (!hasDim(dim)) return;
  view.dim = dim;
  if (view.litName) view.lit = view.litName = null;
  document.querySelectorAll('#dims button').forEach((b) => b.setAttribute('aria-checked', String(b.dataset.dim === DIMS[dim])));
  view.later = tellMoment;
  changed();
}

function setUpSwitches() {
  DIMS.forEach((name, dim) => {
    if (name === 'tensor' && !hasDim(dim)) return; /* only PyTorch has any */
    const none = hasDim(dim) ? {} : { disabled: '', title: 'No block of this recording has a role: record with vramscope run --access' };
    document.getElementById('dims').append(element('button', { role: 'radio', 'data-dim': name, 'aria-checked': String(dim === view.dim), onclick: () => setDim(dim), ...none }, hasDim(dim) ? name : `${name}: not recorded`));
  });
  for (const name of ['reserved', 'driver', 'capacity', 'overlay'])
    document.getElementById('show-' + name).addEventListener('change', (event) => {
      view[name] = event.target.checked;
      changed();
    });
  document.getElementById('whole').addEventListener('click', showWhole);
  document.getElementById('peak').addEventListener('click', () => showPeak());
  document.getElementById('oom').addEventListener('click', showOom);
  document.getElementById('oom').hidden = !recording.rows.some((row) => row.ooms.length);
  document.getElementById('overlay-label').hidden = recording.rows.length < 2;
  document.getElementById('theme').addEventListener('click', switchTheme);
  document.getElementById('help-button').addEventListener('click', showHelp);
  document.getElementById('search').addEventListener('input', (event) => search(event.target.value));
}

/* ---- search ---- */

/* Which stacks of a process have TEXT in their line, layer or any frame. */
function stacksWith(process, text) {
  const t = process.texts, found = new Uint8Array(t.parent.length), has = (s) => s.toLowerCase().includes(text);
  const frames = t.frames.map((f) => has(f.text) || has(f.file)), lines = t.lines.map(has), layers = t.layers.map(has);
  for (let s = 1; s < found.length; s++) if (frames[t.frame[s]] || lines[t.line[s]] || layers[t.layer[s]] || found[t.parent[s]]) found[s] = 1;
  return found;
}

function search(value) {
  const text = value.trim().toLowerCase();
  view.search = text;
  view.lit = view.litName = null;
  if (text) {
    find(text);
    view.lit = (row) => {
      const slots = row.dims[view.dim].slots.map((n) => n.toLowerCase().includes(text));
      return (slot, b) => (b >= 0 && row.match ? row.match[b] === 1 : slot > 0 && slot < REST && slots[slot - 1]);
    };
  }
  view.later = tellMoment;
  changed();
}

/* Marks the blocks of all rows that TEXT finds. */
function find(text) {
  const stacks = recording.processes.map((p) => (p.texts ? stacksWith(p, text) : null)), has = (n) => n.toLowerCase().includes(text);
  for (const row of recording.rows) {
    if (!row.table || !stacks[row.process]) continue;
    const { table } = row, phases = row.owner.phases.map(has), roles = row.roles.map(has), tensors = row.owner.texts.tensors.map(has);
    row.match = Uint8Array.from(table.seq, (_, b) => stacks[row.process][table.stack[b]] || phases[table.phase[b]] || roles[table.role[b]] || tensors[table.tensor[b]]);
  }
}

/* The sum of what was found: of LIVING, those found at the moment T of ROW, and how many there are in the run. */
function tellFound(row, t, living) {
  const said = document.getElementById('found'), rows = recording.rows.filter((r) => r.match), count = view.search ? rows.reduce((n, r) => n + r.match.reduce((a, b) => a + b, 0), 0) : 0;
  const bytes = (living || []).reduce((n, b) => n + row.table.size[b], 0), atLeast = row.all ? '' : 'at least ';
  said.dataset.bytes = String(bytes);
  said.textContent = !view.search ? '' : !count ? 'nothing found'
    : `found: ${atLeast}${bytesText(bytes)} in ${living ? living.length : 0} blocks at ${timeText(t + row.owner.offset)}; ${atLeast}${count.toLocaleString('en')} blocks in the whole run; the rest is grey`;
}

/* ---- a link ---- */

/* The page's address names the moment, what is stacked by, and which row where there are several. */
function linkText() {
  const t = (view.at / 1e9).toFixed(9).replace(/\.?0+$/, '');
  return `#t=${t}&by=${DIMS[view.dim]}${recording.rows.length > 1 ? `&row=${view.row + 1}` : ''}`;
}

function writeLink() {
  try {
    history.replaceState(null, '', linkText());
  } catch { /* a page without an address of its own has no link */
  }
}

/* Goes to the moment of the address; false where it names none. */
function readLink() {
  const link = new URLSearchParams(location.hash.slice(1)), dim = DIMS.indexOf(link.get('by')), t = Math.round(parseFloat(link.get('t')) * 1e9), row = recording.rows[(link.get('row') || 1) - 1];
  if (dim >= 0) setDim(dim);
  if (!row || !(t >= recording.first && t <= recording.last)) return false;
  choose(row, t);
  return true;
}

/* As the report begins: where a run ended for lack of memory, the first of them; else the fullest device's peak, of a job's the highest. */
function openMoment() {
  const rows = visibleRows(), died = rows.flatMap((row) => row.ooms.filter((oom) => oom.died).map((oom) => [row, oom.t + row.owner.offset])).sort((a, b) => a[1] - b[1]);
  const full = (row) => (recording.processes.length > 1 ? row.allocated.bytes : row.reserved.bytes / row.capacity) || 0;
  const row = rows.reduce((a, b) => (full(b) > full(a) ? b : a), rows[0]);
  choose(...(died[0] || [row, (row.allocated.t || 0) + row.owner.offset]));
}
