/*
 * stack.js - which blocks are drawn with an area of their own, and in what order they lie on each other.
 *
 * As in levels.h time is cut into tiles, and a tile shows the LARGEST largest blocks that lived in it; a window sees
 * the one or two tiles that it touches, of the shortest that are no shorter than it.  In a column the slots lie on
 * each other in the order of the legend, in a slot the blocks by age, and on top of them what is smaller.
 */
const LARGEST = 2048;

/* The K-th greatest of N values in A, which are put in disorder. */
function kthGreatest(a, n, k) {
  let low = 0, high = n - 1;
  while (low < high) {
    const pivot = a[(low + high) >> 1];
    let i = low, j = high;
    while (i <= j) {
      while (a[i] > pivot) i++;
      while (a[j] < pivot) j--;
      if (i <= j) {
        const swap = a[i];
        a[i++] = a[j];
        a[j--] = swap;
      }
    }
    if (k <= j) high = j;
    else if (k >= i) low = i;
    else break;
  }
  return a[k];
}

function largestOf(table, blocks) {
  if (blocks.length <= LARGEST) return blocks;
  const sizes = Float64Array.from(blocks, (b) => table.size[b]), least = kthGreatest(sizes, sizes.length, LARGEST - 1);
  const chosen = blocks.filter((b) => table.size[b] > least);
  for (const b of blocks) {
    if (chosen.length === LARGEST) break;
    if (table.size[b] === least) chosen.push(b);
  }
  return chosen;
}

function tileBlocks(row, width, number) {
  const key = width + ':' + number;
  let blocks = row.tiles.get(key);
  if (!blocks) {
    blocks = largestOf(row.table, livingIn(row.table, number * width, (number + 1) * width));
    if (row.tiles.size > 64) row.tiles.delete(row.tiles.keys().next().value);
    row.tiles.set(key, blocks);
  }
  return blocks;
}

/* The blocks to be shown between FROM and TO in the order of their births, CHOSEN (-1: none) always among them. */
function visibleBlocks(row, from, to, chosen) {
  if (!row.table) return [];
  let width = (row.owner.last || 1) + 1;
  while (width / 2 >= to - from) width /= 2;
  const first = Math.max(Math.floor(from / width), 0), last = Math.max(Math.floor(to / width), 0), key = width + ':' + first + '-' + last + ':' + chosen;
  if (row.shownKey !== key) {
    const blocks = new Set(chosen < 0 ? [] : [chosen]);
    for (let tile = first; tile <= last && tile < first + 3; tile++) for (const b of tileBlocks(row, width, tile)) blocks.add(b);
    row.shownBlocks = Uint32Array.from(blocks).sort();
    row.shownDeaths = Uint32Array.from(blocks).sort((a, b) => row.table.died[a] - row.table.died[b]);
    row.shownKey = key;
  }
  const { born, died } = row.table, lives = (b) => born[b] < to && died[b] > from;
  const blocks = row.shownBlocks.filter(lives);
  blocks.deaths = row.shownDeaths.filter(lives);
  return blocks;
}

/* Keeps the shown blocks that live at a moment, by slot and age; moments go forward. */
class Living {
  constructor(row, blocks, dim) {
    this.table = row.table;
    this.slots = row.table ? row.table.slots[dim] : null;
    this.born = blocks;
    this.next = 0;
    this.died = blocks.deaths || [];
    this.nextDeath = 0;
    this.alive = Array.from({ length: SLOTS }, () => []); /* of each slot */
    this.version = 0;
  }
  forward(t) {
    const { table, slots, born, died } = this;
    for (; this.next < born.length && table.born[born[this.next]] <= t; this.next++) {
      this.alive[slots[born[this.next]]].push(born[this.next]);
      this.version++;
    }
    for (; this.nextDeath < died.length && table.died[died[this.nextDeath]] <= t; this.nextDeath++) {
      const list = this.alive[slots[died[this.nextDeath]]], at = list.indexOf(died[this.nextDeath]);
      if (at >= 0) list.splice(at, 1);
      this.version++;
    }
  }
}

/* Column X as areas from the bottom up: VISIT(slot, block or -1, from, to) in bytes. */
function areasOf(columns, x, living, visit) {
  let y = 0;
  for (let slot = 0; slot < SLOTS; slot++) {
    const top = y + Math.max(columns.held[x * SLOTS + slot], 0);
    if (living.table)
      for (const b of living.alive[slot]) {
        const size = Math.min(living.table.size[b], top - y);
        if (size > 0) visit(slot, b, y, y + size);
        y += size;
      }
    if (top > y) visit(slot, -1, y, top);
    y = top;
  }
}
