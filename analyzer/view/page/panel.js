/* panel.js - what stands beside the picture: the legend, who held the memory at a moment, everything of one block. */
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

/* A line's path without the directories that lead to the last one; whoever points at it sees all of it. */
function briefly(name) {
  return name.replace(/(^|: )\S*\/([^/\s]+\/[^/\s]+:\d+)/, '$1$2');
}

function swatch(color) {
  const e = element('span', { class: 'swatch' });
  e.style.background = color;
  return e;
}

function slotNames(row, dim) {
  const names = ['accounted for by no block', ...row.dims[dim].slots];
  const rest = row.dims[dim].rest_names;
  while (names.length < REST) names.push('');
  names[REST] = rest ? `others (${rest})` : 'others';
  return names;
}

/* ---- the legend ---- */

function drawLegend() {
  const legend = document.getElementById('legend'), row = recording.rows[view.row];
  if (!row) return;
  const names = slotNames(row, view.dim), colors = colorsOf(row, view.dim), place = view.layout.find((p) => p.row === row), seen = new Float64Array(SLOTS);
  if (place && place.columns) for (let x = 0; x < place.columns.n; x++) for (let s = 0; s < SLOTS; s++) seen[s] = Math.max(seen[s], place.columns.held[x * SLOTS + s]);
  const key = JSON.stringify([view.row, view.dim, darkNow(), view.litSlot ?? -1, [...seen].map(bytesText)]);
  if (legend.dataset.key === key) return;
  legend.dataset.key = key;
  legend.replaceChildren(element('span', { class: 'heading' }, `greatest in sight, ${recording.processes.length > 1 ? row.owner.label + ', ' : ''}device ${row.device}`));
  for (let slot = SLOTS - 1; slot >= 0; slot--) {
    if (seen[slot] <= 0) continue;
    const dull = view.litSlot !== undefined && view.litSlot !== slot ? ' muted' : '';
    legend.append(swatch(colors[slot]), element('span', { class: 'name' + dull, title: names[slot], onclick: () => lightSlot(slot) }, briefly(names[slot])),
      element('span', { class: 'number' + dull }, bytesText(seen[slot])));
  }
}

function lightSlot(slot) {
  view.litSlot = view.litSlot === slot ? undefined : slot;
  view.lit = view.litSlot === undefined ? null : () => (s) => s === view.litSlot;
  changed();
}

/* ---- a moment ---- */

/* The column that holds T, as the picture or, where it does not show it, as a window of its own has it. */
function columnAt(row, t) {
  const place = view.layout.find((p) => p.row === row), local = t - row.owner.offset;
  if (place && place.columns && local >= place.from && local < place.to) {
    const x = Math.min(Math.floor(((local - place.from) / (place.to - place.from)) * place.columns.n), place.columns.n - 1);
    return { columns: place.columns, x, place };
  }
  return null;
}

function choose(row, t, block = -1) {
  view.row = row.number;
  view.at = t;
  view.block = block;
  changed();
  view.later = () => {
    tellMoment();
    if (document.getElementById('flame').classList.contains('open')) drawIcicle();
  };
}

function holdersTable(row, columns, x) {
  const names = slotNames(row, view.dim), colors = colorsOf(row, view.dim), table = element('table', { id: 'holders' }), held = [];
  for (let slot = 0; slot < SLOTS; slot++) if (columns.held[x * SLOTS + slot] > 0) held.push([columns.held[x * SLOTS + slot], slot]);
  held.sort((a, b) => b[0] - a[0]);
  for (const [size, slot] of held)
    table.append(element('tr', {}, element('td', {}, swatch(colors[slot])), element('td', { title: names[slot] }, briefly(names[slot])), element('td', { class: 'number', 'data-bytes': String(size) }, bytesText(size)),
      element('td', { class: 'number' }, `${((100 * size) / columns.max[x]).toFixed(1)} %`)));
  return table;
}

function blocksTable(row, t) {
  const living = livingAt(row.table, t).sort((a, b) => row.table.size[b] - row.table.size[a]), table = element('table');
  for (const b of living.slice(0, 40))
    table.append(element('tr', { class: 'link', tabindex: '0', onclick: () => tellBlock(row, b), onkeydown: (e) => e.key === 'Enter' && tellBlock(row, b) },
      element('td', { class: 'number' }, bytesText(row.table.size[b])), element('td', {}, briefly(nameOf(row, b, view.dim === 0 ? 3 : view.dim)))));
  const sum = living.reduce((n, b) => n + row.table.size[b], 0);
  return { table, count: living.length, sum };
}

function tellMoment() {
  const row = recording.rows[view.row], found = row && view.at !== null ? columnAt(row, view.at) : null;
  if (!found) return;
  const { columns, x } = found, t = columns.t[x], panel = details();
  const inside = columns.events[x] > 1 ? `the greatest of ${columns.events[x]} changes in this column` : '';
  panel.replaceChildren(element('h2', { id: 'moment', 'data-t': String(t), 'data-allocated': String(columns.max[x]), 'data-reserved': String(columns.rMax[x]) },
    `${bytesText(columns.max[x])} allocated at ${timeText(t)}`),
  element('p', { class: 'file' }, [row.label, stepAt(row, t), `${bytesText(columns.rMax[x])} reserved`, inside].filter(Boolean).join(' · ')),
  element('p', {}, element('button', { onclick: () => openFlame() }, 'by call stack (f)')), holdersTable(row, columns, x));
  if (columns.folded[x]) panel.append(element('p', {}, 'Of this stretch the file has sums alone: who held it is known of those only that lived on.'));
  if (row.table && row.owner.texts) {
    const { table, count, sum } = blocksTable(row, t), missing = columns.max[x] - sum;
    panel.append(element('h2', {}, `${count} blocks, the largest first`), table);
    if (missing > 0 && !row.all) panel.append(element('p', { class: 'file' }, `${bytesText(missing)} more in blocks that this page does not hold one by one.`));
  }
  if (view.block >= 0) tellBlock(row, view.block);
}

function stepAt(row, t) {
  const steps = row.owner.steps, next = steps.find((s) => s[1] >= t);
  return next && row.owner.step_count === steps.length ? `step ${next[0]}` : '';
}

/* ---- a block ---- */

function fact(table, name, value) {
  if (value !== null && value !== undefined && value !== '') table.append(element('tr', {}, element('th', {}, name), element('td', {}, value)));
}

function tellBlock(row, b) {
  const table = row.table, facts = element('table', { id: 'block', 'data-seq': String(table.seq[b]), 'data-bytes': String(table.size[b]) }), frames = element('ol', { class: 'frames' });
  view.row = row.number;
  view.block = b;
  fact(facts, 'size', `${bytesText(table.size[b])} (${table.size[b].toLocaleString('en')} bytes)`);
  fact(facts, 'tensor', tensorOf(row, b));
  fact(facts, 'line', nameOf(row, b, 3));
  fact(facts, 'layer', nameOf(row, b, 2));
  fact(facts, 'role', nameOf(row, b, 1));
  fact(facts, 'phase', nameOf(row, b, 0));
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
