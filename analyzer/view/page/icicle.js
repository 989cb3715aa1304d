/*
 * icicle.js - the living blocks of a moment by call stack: callers above, what they called below, as wide as what was
 * allocated there.  By Python lines alone, or by every frame.
 */
const flame = { native: false, root: null, zoom: null, boxes: [], hover: null };
const FLAME_ROW = 18;

/* What only passes a call on to a module or optimizer, as show/report/hidden.c leaves it out of call stacks: [file, function]. */
const WRAPPERS = [
  [/\/vramscope\/python\/vramscope\//, /./],
  [/\/torch\/nn\/modules\/module\.py(:\d+)?$/, /_call_impl$/],
  [/\/torch\/optim\/optimizer\.py(:\d+)?$/, /(wrapper|_use_grad)$/],
  [/\/torch\/utils\/_contextlib\.py(:\d+)?$/, /decorate_context$/],
];
const isWrapper = (frame) => WRAPPERS.some(([file, name]) => file.test(frame.file || '') && name.test(frame.text));
const inPython = (frame) => (frame.kind === 2 || frame.kind === 3) && !isWrapper(frame);

/* As everywhere a file in site-packages is shown from its package on. */
const shortFile = (file) => file.replace(/^.*\/(site|dist)-packages\//, '');

function framePath(row, b) {
  const frames = framesOf(row, b).reverse(), chosen = flame.native ? frames : frames.filter(inPython);
  return chosen.map((f) => (f.file ? `${f.text}  ${shortFile(f.file)}` : f.text));
}

function buildFlame(row, t, allocated) {
  const root = { name: 'all', bytes: 0, count: 0, children: new Map() };
  for (const b of livingAt(row.table, t)) {
    const size = row.table.size[b];
    let node = root;
    node.bytes += size;
    node.count++;
    for (const name of framePath(row, b)) {
      let child = node.children.get(name);
      if (!child) node.children.set(name, (child = { name, bytes: 0, count: 0, children: new Map(), parent: node }));
      child.bytes += size;
      child.count++;
      node = child;
    }
    if (node === root) {
      const name = flame.native ? 'no call stack recorded' : 'no Python line';
      let child = root.children.get(name);
      if (!child) root.children.set(name, (child = { name, bytes: 0, count: 0, children: new Map(), parent: root }));
      child.bytes += size;
      child.count++;
    }
  }
  const rest = allocated - root.bytes;
  if (rest > 0) {
    root.children.set('', { name: 'blocks that this page does not hold one by one, or no block', bytes: rest, count: 0, children: new Map(), parent: root });
    root.bytes += rest;
  }
  return root;
}

function openFlame() {
  document.getElementById('flame').classList.add('open');
  drawIcicle();
  document.getElementById('flame').scrollIntoView({ block: 'nearest' });
}

function flameHead(row, t) {
  const head = document.getElementById('flame-head');
  head.replaceChildren(element('strong', {}, `Who held it at ${timeText(t)}, by call stack`), element('span', { class: 'file' }, row.label),
    element('button', { 'aria-checked': String(!flame.native), onclick: () => switchFlame(false) }, 'Python lines'),
    element('button', { 'aria-checked': String(flame.native), onclick: () => switchFlame(true) }, 'all frames'),
    element('button', { onclick: () => document.getElementById('flame').classList.remove('open') }, 'close'), element('span', { id: 'flame-hover' }));
}

function switchFlame(native) {
  flame.native = native;
  drawIcicle();
}

function depthOf(node) {
  let most = 0;
  for (const child of node.children.values()) most = Math.max(most, 1 + depthOf(child));
  return most;
}

function drawIcicle() {
  const row = recording.rows[view.row], columns = row && view.at !== null ? chosenMoment(row) : null;
  if (!columns || !row.table || !row.owner.texts) return;
  const t = columns.t[0];
  flame.root = flame.zoom = buildFlame(row, t, columns.max[0]);
  flameHead(row, t);
  paintIcicle();
}

function paintIcicle() {
  const canvas = document.getElementById('icicle'), wide = Math.max(document.getElementById('flame').clientWidth - 28, 300), ratio = window.devicePixelRatio || 1;
  const deep = Math.min(depthOf(flame.zoom) + 1, 60), high = deep * FLAME_ROW;
  canvas.width = wide * ratio;
  canvas.height = high * ratio;
  canvas.style.width = wide + 'px';
  canvas.style.height = high + 'px';
  const c = canvas.getContext('2d');
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.font = '11px system-ui, "DejaVu Sans", sans-serif';
  c.textBaseline = 'middle';
  flame.boxes = [];
  paintNode(c, flame.zoom, 0, 0, wide, deep);
}

function paintNode(c, node, x, depth, wide, deep) {
  if (wide < 0.7 || depth >= deep) return;
  const y = depth * FLAME_ROW, color = depth === 0 ? '#8a8f98' : phaseColor({ owner: { phases: [] } }, 0, node.name.replace(/:\d+.*/, ''));
  flame.boxes.push({ x, y, wide, node });
  c.fillStyle = color;
  c.fillRect(x, y, Math.max(wide - 1, 0.7), FLAME_ROW - 1);
  if (wide > 34) {
    const [r, g, b] = rgb(color), text = `${node.name}  ${bytesText(node.bytes)}`;
    c.fillStyle = 0.3 * r + 0.59 * g + 0.11 * b > 130 ? '#111111' : '#ffffff';
    c.save();
    c.beginPath();
    c.rect(x, y, wide - 3, FLAME_ROW);
    c.clip();
    c.fillText(text, x + 3, y + FLAME_ROW / 2);
    c.restore();
  }
  let at = x;
  for (const child of [...node.children.values()].sort((a, b) => b.bytes - a.bytes)) {
    const part = (wide * child.bytes) / node.bytes;
    paintNode(c, child, at, depth + 1, part, deep);
    at += part;
  }
}

function flameAt(event) {
  const box = document.getElementById('icicle').getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  return flame.boxes.find((b) => x >= b.x && x < b.x + b.wide && y >= b.y && y < b.y + FLAME_ROW);
}

function setUpIcicle() {
  const canvas = document.getElementById('icicle');
  canvas.addEventListener('mousemove', (event) => {
    const found = flameAt(event), hover = document.getElementById('flame-hover');
    if (hover) hover.textContent = found ? `${found.node.name}: ${bytesText(found.node.bytes)} in ${found.node.count} blocks, ${((100 * found.node.bytes) / flame.root.bytes).toFixed(1)} %` : '';
  });
  canvas.addEventListener('click', (event) => {
    const found = flameAt(event);
    if (!found) return;
    flame.zoom = found.node === flame.zoom ? flame.root : found.node;
    paintIcicle();
  });
}
