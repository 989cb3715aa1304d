/* codec.js - the data of the page: base64 in script elements, deflated; numbers as pack.c writes them. */
const SLOTS = 18, REST = SLOTS - 1;

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

const pause = () => new Promise((done) => setTimeout(done, 0));

/* The element is whole when something stands behind it. */
async function elementOf(id) {
  for (;;) {
    const element = document.getElementById(id);
    if (element && (element.nextElementSibling || document.readyState !== 'loading')) return element;
    if (!element && document.readyState !== 'loading') throw new Error('this page is cut off: ' + id + ' is missing');
    await new Promise((done) => setTimeout(done, 10));
  }
}

/* The bytes of element ID, which is gone after that: the page needs its memory once. */
async function unpack(id) {
  const element = await elementOf(id), bytes = bytesOf(element.textContent);
  element.remove();
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpackJson(id) {
  return JSON.parse(new TextDecoder().decode(await unpack(id)));
}

/* Reads numbers off bytes.  They are exact up to 2^53: 8 PiB, or 104 days in nanoseconds. */
class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  byte() { return this.bytes[this.at++]; }
  number() {
    let byte = this.bytes[this.at++];
    if (byte < 128) return byte;
    let value = byte & 127, scale = 128;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte >= 128);
    return value;
  }
  static unfold(n) { return n % 2 ? -(n + 1) / 2 : n / 2; }
  signed() { return Reader.unfold(this.number()); }
  memory() {
    const n = this.number();
    return n % 2 ? (n - 1) / 2 : n * 256;
  }
  memorySigned() {
    const n = this.number();
    return n % 2 ? Reader.unfold((n - 1) / 2) : Reader.unfold(n / 2) * 512;
  }
  section() {
    const size = this.number(), part = this.bytes.subarray(this.at, this.at + size);
    this.at += size;
    return new Reader(part);
  }
}
