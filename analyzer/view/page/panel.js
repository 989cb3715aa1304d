/* panel.js - what stands beside the picture: who held the memory at a moment, what else is in sight, everything of one block. */
function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'class') e.className = value;
    else if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value);
  }
  /* text from the recording is text, never markup */
  for (const child of children) if (child !== null && child !== undefined) e.append(child);
  return e;
}

const details = () => document.getElementById('details');

/* A line without its directories, as in the report; whoever points at it sees all of it. */
function briefly(name) {
  return name.replace(/\S*\/(?=[^/\s]+:\d)/g, '');
}

/* It may go on in the next line after any of its parts. */
const breakable = (text) => text.split(/(?<=[/_]|\.(?!py\b|so\b))/).flatMap((part) => [part, element('wbr')]);

function swatch(color) {
  const e = element('span', { class: 'swatch' });
  e.style.background = color;
  return e;
}

function slotNames(row, dim) {
  const names = ['not in the file', ...row.dims[dim].slots];
  while (names.length < REST) names.push('');
  names[REST] = 'others';
  return names;
}

/* ---- the moment ---- */

function choose(row, t, block = -1) {
  view.row = row.number;
  view.at = Math.floor(t); /* nothing happens between two nanoseconds */
  view.block = block;
  view.later = tellMoment;
  changed();
}

const chosenMoment = (row) => momentOf(row, view.at - row.owner.offset, view.dim, changed);

/* How many layers those of LIVING in SLOT are of, where a name stands for several. */
function timesText(row, slot, name, living) {
  if (view.dim !== LAYER || !name.includes('*') || !living) return '';
  const { table } = row, { texts } = row.owner, slots = table.slots[LAYER];
  return ` x${new Set(living.filter((b) => slots[b] === slot).map((b) => texts.owns[texts.layer[table.stack[b]]])).size}`;
}

function nameCell(name, more = '') {
  const dull = view.litName && view.litName !== name ? ' muted' : '';
  return element('span', { class: 'name' + dull, title: name, onclick: () => lightName(name) }, ...breakable(briefly(name) + more));
}

function holdersTable(row, columns, living) {
  const names = slotNames(row, view.dim), colors = colorsOf(row, view.dim), table = element('table', { id: 'holders' }), held = [...names.keys()].filter((slot) => columns.held[slot] > 0);
  held.sort((a, b) => columns.held[b] - columns.held[a]);
  for (const slot of held) {
    const size = columns.held[slot], more = slot === REST ? ` (of ${row.dims[view.dim].rest_names} in the whole run)` : timesText(row, slot, names[slot], living);
    table.append(element('tr', {}, element('td', {}, swatch(colors[slot])), element('td', { title: names[slot] }, nameCell(names[slot], more)),
      element('td', { class: 'number', 'data-bytes': String(size) }, bytesText(size)), element('td', { class: 'number' }, `${((100 * size) / columns.max[0]).toFixed(1)} %`)));
  }
  return table;
}

/* What tells block B apart in a list: many have one role, or one phase. */
function inList(row, b) {
  if (view.dim !== ROLE && view.dim !== PHASE) return view.dim;
  return row.owner.texts.line[row.table.stack[b]] ? LINE : ROLE;
}

function blocksTable(row, living) {
  const table = element('table');
  living.sort((a, b) => row.table.size[b] - row.table.size[a]);
  for (const b of living.slice(0, 40))
    table.append(element('tr', { class: 'link', tabindex: '0', onclick: () => showBlock(row, b), onkeydown: (e) => e.key === 'Enter' && showBlock(row, b) },
      element('td', { class: 'number' }, bytesText(row.table.size[b])), element('td', {}, ...breakable(briefly(nameOf(row, b, inList(row, b)))))));
  return table;
}

/* What the moment is, and what is reserved then. */
function momentTexts(row, columns) {
  const t = columns.t[0], oom = row.ooms.find((o) => o.t === t), what = oom ? 'out of memory: ' : row.allocated.t === t ? 'the peak: ' : '';
  const asked = oom && [oom.requested ? `asked for ${bytesText(oom.requested)}` : '', oom.line && `by ${briefly(oom.line)}`, oom.free !== null && `${bytesText(oom.free)} free`].filter(Boolean).join(', ');
  const reserved = columns.rMin[0] < columns.rMax[0] ? `${bytesText(columns.rMin[0])} to ${bytesText(columns.rMax[0])}` : bytesText(columns.rMax[0]);
  const away = awayAt(row, t);
  const step = oom && oom.step !== null ? `step ${oom.step}` : stepAt(row, t + row.owner.offset);
  return [`${what}${row.allocated.at_least ? 'at least ' : ''}${bytesText(columns.max[0])} allocated at ${timeText(t + row.owner.offset)}`,
    [asked, step, oom && oom.phase && oom.phase !== 'none' ? `in ${oom.phase}` : '', away ? `${bytesText(away)} of it on the host${awayWords(row, t) ? ` (${awayWords(row, t)})` : ''}` : '', `${reserved} reserved`, columns.limited && columns.events[0] > 1 ? `the greatest of ${columns.events[0]} changes in ${timeText(columns.width)}` : ''].filter(Boolean).join(' · '), row.label];
}

function tellMoment() {
  const row = recording.rows[view.row], columns = row && view.at !== null ? chosenMoment(row) : null;
  if (!columns) return;
  if (columns.coarse) view.later = tellMoment; /* when its part has come */
  const t = columns.t[0], all = row.table && row.owner.texts ? livingAt(row.table, t) : null, sum = all ? all.reduce((n, b) => n + row.table.size[b], 0) : 0;
  const missing = columns.max[0] - columns.held[0] - sum, [what, how, where] = momentTexts(row, columns);
  writeLink();
  details().replaceChildren(element('h2', { id: 'moment', 'data-t': String(t), 'data-allocated': String(columns.max[0]), 'data-reserved': String(columns.rMax[0]), 'data-away': String(awayAt(row, t)) }, what),
    element('p', { class: 'file' }, how), element('p', { class: 'file' }, `${where} · `, element('a', { href: linkText() }, 'link to this moment')), holdersTable(row, columns, all && missing === 0 ? all : null),
    element('p', {}, element('button', { onclick: () => openFlame() }, 'by call stack (f)')));
  if (columns.folded[0]) details().append(element('p', {}, 'Of this stretch the file has sums alone: who held it is known of those only that lived on.'));
  const blocks = document.getElementById('blocks'), living = all && view.search ? all.filter((b) => row.match[b]) : all;
  blocks.replaceChildren();
  if (living && living.length) blocks.append(element('h2', {}, `${living.length} ${view.search ? 'of the blocks found' : 'blocks'}, the largest first`), blocksTable(row, living));
  if (all && missing > 0 && !row.all) blocks.append(element('p', { class: 'file' }, `${bytesText(missing)} more in blocks that this page does not hold one by one.`));
  tellFound(row, t, living);
  if (view.block >= 0) tellBlock(row, view.block);
  if (document.getElementById('flame').classList.contains('open')) drawIcicle();
  drawLegend();
}

/* ---- what else is in sight ---- */

function drawLegend() {
  const legend = document.getElementById('legend'), seen = new Map(), listed = new Set([...document.querySelectorAll('#holders .name')].map((e) => e.title));
  for (const { row, columns } of view.layout) {
    const names = slotNames(row, view.dim), colors = colorsOf(row, view.dim);
    for (let at = 0; columns && at < columns.held.length; at++)
      if (columns.held[at] > 0 && !listed.has(names[at % SLOTS])) {
        const { bytes } = seen.get(names[at % SLOTS]) || { bytes: 0 };
        if (columns.held[at] > bytes) seen.set(names[at % SLOTS], { bytes: columns.held[at], color: colors[at % SLOTS] });
      }
  }
  const rows = [...seen].sort((a, b) => b[1].bytes - a[1].bytes), key = JSON.stringify([rows, view.litName]);
  if (legend.dataset.key === key) return;
  legend.dataset.key = key;
  legend.replaceChildren();
  if (rows.length) legend.append(element('span', { class: 'heading' }, `also in sight, not held then: the most${view.layout.length > 1 ? ' in one row' : ''}`));
  for (const [name, { bytes, color }] of rows) legend.append(swatch(color), nameCell(name), element('span', { class: 'number' }, bytesText(bytes)));
}

/* Greys what has another name. */
function lightName(name) {
  view.litName = view.litName === name ? null : name;
  view.lit = view.litName && ((row) => {
    const slot = slotNames(row, view.dim).indexOf(name);
    return (s) => s === slot;
  });
  tellMoment();
  changed();
}

function stepAt(row, t) {
  const steps = row.owner.steps, next = steps.find((s) => s[1] + row.owner.offset >= t);
  return next && row.owner.step_count === steps.length ? `step ${next[0]}` : '';
}

/* ---- a block ---- */

function fact(table, name, value) {
  if (value !== null && value !== undefined && value !== '') table.append(element('tr', {}, element('th', {}, name), element('td', {}, ...breakable(value))));
}

function showBlock(row, b) {
  tellBlock(row, b);
  document.getElementById('side').scrollTop = 0; /* where it stands */
}

function tellBlock(row, b) {
  const table = row.table, facts = element('table', { id: 'block', 'data-seq': String(table.seq[b]), 'data-bytes': String(table.size[b]) }), frames = element('ol', { class: 'frames' });
  view.row = row.number;
  view.block = b;
  fact(facts, 'size', `${bytesText(table.size[b])} (${table.size[b].toLocaleString('en')} bytes)`);
  fact(facts, 'tensor', tensorOf(row, b));
  fact(facts, 'line', nameOf(row, b, LINE));
  fact(facts, 'layer', nameOf(row, b, LAYER));
  fact(facts, 'role', nameOf(row, b, ROLE));
  fact(facts, 'phase', nameOf(row, b, PHASE));
  fact(facts, 'kind', table.framework[b] ? 'a block of a caching allocator' : 'memory of the driver');
  fact(facts, 'born', timeText(table.born[b]));
  if (row.uses) {
    fact(facts, 'first use', Number.isNaN(table.firstUse[b]) ? 'none seen' : `${timeText(table.firstUse[b])} (${timeText(table.firstUse[b] - table.born[b])} later)`);
    fact(facts, 'last use', Number.isNaN(table.lastUse[b]) ? 'none seen' : timeText(table.lastUse[b]));
  }
  fact(facts, 'died', table.died[b] === Infinity ? 'lives at the end' : `${timeText(table.died[b])} (lived ${timeText(table.died[b] - table.born[b])})`);
  fact(facts, 'event', String(table.seq[b]));
  for (const f of framesOf(row, b)) frames.append(element('li', {}, f.text, ' ', element('span', { class: 'file' }, f.file)));
  const old = document.getElementById('one-block'), box = element('section', { id: 'one-block' }, element('h2', {}, 'block'), facts);
  if (frames.childElementCount) box.append(element('p', { class: 'file' }, 'call stack, innermost first'), frames);
  if (old) old.replaceWith(box);
  else details().prepend(box);
  changed();
}
