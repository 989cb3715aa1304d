/* main.js - the order in which the page comes to life: the first picture, then everything else. */
function fail(error) {
  document.getElementById('notice').textContent = 'This page can\'t show its recording: ' + (error && error.message ? error.message : error);
}

let last = 0;
function afterDraw() {
  drawKey();
  if (view.later) {
    const later = view.later;
    view.later = null;
    later();
  } else drawLegend();
  const now = recording.rows[0] && view.layout[0] && view.layout[0].columns && !view.layout[0].columns.coarse;
  if (now && !last) {
    last = performance.now();
    document.documentElement.dataset.first = last.toFixed(0);
  }
}

function tellFacts() {
  const first = recording.processes[0], notices = [], row = recording.rows[0];
  document.getElementById('title').textContent = first.command || first.label;
  const facts = [recording.processes.length > 1 ? `${recording.processes.length} processes` : first.label, first.host, row && row.name,
    timeText(recording.last - recording.first), `${recording.rows.reduce((n, r) => n + r.events, 0).toLocaleString('en')} changes of memory`];
  document.getElementById('facts').textContent = facts.filter(Boolean).join(' · ');
  for (const p of recording.processes) {
    if (p.incomplete) notices.push((recording.processes.length > 1 ? p.label + ': ' : '') + p.incomplete);
    if (p.mark) notices.push(p.mark);
  }
  if (recording.processes.some((p) => p.stretches.length))
    notices.push('Hatched: of these stretches the recording has sums alone. The curve goes through the greatest and the least of each phase there; what lies between is not known.');
  if (recording.rows.some((r) => r.allocated.at_least)) notices.push('A library\'s pool does not say what it uses: allocated is at least this.');
  document.getElementById('notice').textContent = [...new Set(notices)].join(' ');
  document.getElementById('footer').textContent = tellContents();
}

/* What this page holds of the recording, and how exact the curves are: once, where all rows are alike. */
function tellContents() {
  return [...tellCurves(), ...new Set(recording.processes.flatMap((p) => p.notes.map((text) => `${text[0].toUpperCase()}${text.slice(1)}.`))), ...tellOutside(), ...recording.rows.flatMap(tellUnused)].join('\n');
}

function tellCurves() {
  const rows = recording.rows, hatched = recording.processes.some((p) => p.stretches.length) ? ', but where it is hatched' : '', part = rows.filter((row) => !row.all), finest = Math.max(...part.map((row) => row.levels[row.levels.length - 1].width));
  if (!part.length) return [`This page has all ${rows.reduce((n, r) => n + r.block_count, 0).toLocaleString('en')} blocks of the recording${recording.processes.length > 1 ? 's' : ''}. The curve is exact at every zoom${hatched}.`];
  return [...rows.map(tellBlocks), `Of each pixel the curve has the exact greatest and least value; where a pixel is shorter than ${timeText(finest)}, those of the ${timeText(finest)} around it${hatched}.`];
}

/* Memory that is in no row, as it is in no device's total; each by its own peak, which need not be at one time. */
const OUTSIDE = { pinned: 'page-locked', registered: 'registered of the host', managed: 'managed', host_vmm: 'mapped of the host', imported: 'imported' };

function tellOutside() {
  const whose = new Map(); /* ranks have the same, mostly */
  for (const p of recording.processes) {
    const each = p.outside.map((o) => `${OUTSIDE[o.kind]} ${o.at_least ? 'at least ' : o.at_most ? 'at most ' : ''}${bytesText(o.bytes)}${o.device >= 0 ? ` (device ${o.device})` : ''}`).join(', ');
    if (each) whose.set(each, [...(whose.get(each) || []), p.label]);
  }
  const names = (labels) => (recording.processes.length < 2 ? '' : labels.length < recording.processes.length ? ` (of ${labels.join('; ')})` : ' (of each process)');
  return [...whose].map(([each, labels]) => `Not in the picture${names(labels)}, each at its peak: ${each}.`);
}

/* What was reserved and not allocated, in words. */
function tellUnused(row) {
  return row.unused.map((text) => `${recording.rows.length > 1 ? row.label + ': ' : ''}${text[0].toUpperCase()}${text.slice(1)}.`);
}

function tellBlocks(row) {
  const who = recording.rows.length > 1 ? `${row.label}: ` : '', rule = row.tile === null ? '' : `, among them the ${row.largest} largest of every window of ${timeText(row.tile)} or more`;
  if (row.all) return `${who}all ${row.block_count.toLocaleString('en')} blocks are in this page.`;
  return `${who}${row.kept.toLocaleString('en')} of ${row.block_count.toLocaleString('en')} blocks are in this page one by one${rule}; who held what counts all of them.`;
}

async function start() {
  base = document.getElementById('base');
  over = document.getElementById('over');
  if (matchMedia('(prefers-color-scheme: dark)').matches) document.documentElement.classList.add('dark');
  await loadMeta();
  tellFacts();
  setUpSwitches();
  setUpMouse();
  setUpKeys();
  setUpIcicle();
  view.overlay = recording.overlay;
  document.getElementById('show-overlay').checked = view.overlay;
  view.from = recording.first;
  view.to = recording.last;
  setDim(DIMS.findIndex((_, dim) => hasDim(dim)));
  showWhole();
  if (!readLink()) openMoment();
  window.addEventListener('hashchange', readLink);
  new ResizeObserver(changed).observe(base.parentElement); /* also where a scroll bar comes */
  printInLight();
  await new Promise((done) => setTimeout(done, 60));
  for (const row of recording.rows) await loadRow(row);
  for (const process of recording.processes) if (!process.ranges) await loadProcess(process);
  document.documentElement.dataset.ready = performance.now().toFixed(0);
}

/* Paper is white. */
function printInLight() {
  let dark = false;
  window.addEventListener('beforeprint', () => {
    dark = darkNow();
    document.documentElement.classList.remove('dark');
    draw();
  });
  window.addEventListener('afterprint', () => {
    document.documentElement.classList.toggle('dark', dark);
    changed();
  });
}

async function loadProcess(process) {
  await loadTexts(process);
  await loadRanges(process);
  changed();
}

async function loadRow(row) {
  if (!row.owner.texts) await loadProcess(row.owner);
  await loadBlocks(row);
  /* the finer levels, so that zooming in finds them there */
  for (const level of row.levels) for (const part of level.parts) row.ask(level, part, changed);
  changed();
  if (view.row === row.number) view.later = tellMoment;
}

/* for the console, and for who tests the page */
window.vramscope = { recording, view, show, choose, columnsOf, livingAt, DIMS, colorsOf, showPeak, setDim, draw, openFlame, search, drawIcicle, flame, click, tensorOf };
start().catch(fail);
