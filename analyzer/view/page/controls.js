/* controls.js - the mouse, the keys, the switches, the search. */
const KEYS = [
  ['drag, ← →', 'move'], ['wheel, + −', 'zoom'], ['click', 'who holds it then; on an area, the block'], ['shift+drag', 'zoom to a stretch'],
  ['0', 'the whole run'], ['p', 'the peak'], ['1 2 3 4 5', 'stack by phase, role, layer, line, tensor'], ['r', 'reserved'], ['u', 'what the driver says is used'],
  ['c', 'the capacity'], ['o', 'lay runs over each other'], ['v', 'scale to what is in sight'], ['f', 'who held it, by call stack'],
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
  choose(row, timeAt(place, at.x), found && found.block >= 0 ? found.block : -1);
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
  p: () => showPeak(), r: () => flip('reserved'), u: () => flip('driver'), c: () => flip('capacity'), o: () => flip('overlay'), f: openFlame,
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
  view.lit = null;
  view.litSlot = undefined;
  view.block = -1;
  document.getElementById('search').value = '';
  document.getElementById('found').textContent = '';
  changed();
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
  view.litSlot = undefined;
  view.lit = null;
  document.querySelectorAll('#dims button').forEach((b, i) => b.setAttribute('aria-checked', String(i === dim)));
  changed();
  if (view.at !== null) view.later = tellMoment;
}

function setUpSwitches() {
  DIMS.forEach((name, dim) => {
    if (name === 'tensor' && !hasDim(dim)) return; /* only PyTorch has any */
    const none = hasDim(dim) ? {} : { disabled: '', title: 'No block of this recording has a role: record with vramscope run --access' };
    document.getElementById('dims').append(element('button', { role: 'radio', 'aria-checked': String(dim === view.dim), onclick: () => setDim(dim), ...none }, hasDim(dim) ? name : `${name}: not recorded`));
  });
  for (const name of ['reserved', 'driver', 'capacity', 'overlay'])
    document.getElementById('show-' + name).addEventListener('change', (event) => {
      view[name] = event.target.checked;
      changed();
    });
  document.getElementById('whole').addEventListener('click', showWhole);
  document.getElementById('peak').addEventListener('click', () => showPeak());
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
  const text = value.trim().toLowerCase(), said = document.getElementById('found');
  view.litSlot = undefined;
  if (!text) {
    view.lit = null;
    said.textContent = '';
    changed();
    return;
  }
  const stacks = recording.processes.map((p) => (p.texts ? stacksWith(p, text) : null));
  let count = 0, bytes = 0;
  for (const row of recording.rows) {
    if (!row.table || !stacks[row.process]) continue;
    const names = row.owner.phases.map((n) => n.toLowerCase().includes(text)), roles = row.roles.map((n) => n.toLowerCase().includes(text));
    const tensors = row.owner.texts.tensors.map((n) => n.toLowerCase().includes(text));
    row.match = new Uint8Array(row.table.n);
    for (let b = 0; b < row.table.n; b++)
      if (stacks[row.process][row.table.stack[b]] || names[row.table.phase[b]] || roles[row.table.role[b]] || tensors[row.table.tensor[b]]) {
        row.match[b] = 1;
        count++;
        bytes = Math.max(bytes, row.table.size[b]);
      }
  }
  said.textContent = count ? `${count} blocks, the largest ${bytesText(bytes)}` : 'nothing found';
  view.lit = (row) => {
    const slots = row.dims[view.dim].slots.map((n) => n.toLowerCase().includes(text));
    return (slot, b) => (b >= 0 && row.match ? row.match[b] === 1 : slot > 0 && slot < REST && slots[slot - 1]);
  };
  changed();
}
