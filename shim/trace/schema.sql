-- schema.sql - the database that vramscope writes, and the only description of it.
--
-- Narrow tables (written by shim/trace/store.c, many rows) under views (what people and the analyzer query).
-- Conventions of the narrow tables:
--   t        nanoseconds since the run's start
--   x512     bytes in units of 512; a negative value -n stands for exactly n bytes (no multiple of 512)
--   x2m      bytes in units of 2 MiB, likewise -n for exactly n bytes
-- The views undo both: every column named *_bytes is in bytes, every *_ns in nanoseconds.
--
-- Start here:
--   SELECT t_ns, allocated_bytes, reserved_bytes FROM timeline WHERE device = 0;
--   SELECT phase, allocated_bytes, reserved_bytes FROM phase_peak;
--   SELECT size_bytes, phase, category, owner FROM live_at_peak ORDER BY size_bytes DESC LIMIT 20;

-- schema_version (1), tool version, start_realtime_ns, max_bytes, thinned_from_seq (where framework events
-- stopped being written one by one), clean_end (1 = the process ended in good order), journal (path, while running) ...
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE process(
  id INTEGER PRIMARY KEY,      -- 1 in a file of one process
  host TEXT, boot_id TEXT, pid INT,
  rank INT, local_rank INT, world_size INT,   -- NULL where no launcher told
  command TEXT, start_realtime_ns INT, end_ns INT, -- NULL while it runs or when it was killed
  simulated INT                -- 1 = the simulated driver: no GPU was involved
);
CREATE TABLE device(id INT, process INT, uuid TEXT, name TEXT, total_bytes INT, PRIMARY KEY(process, id)) WITHOUT ROWID;
CREATE TABLE thread(id INT, process INT, tid INT, name TEXT, autograd INT, PRIMARY KEY(process, id)) WITHOUT ROWID;
CREATE TABLE context(id INT, process INT, handle INT, device INT, PRIMARY KEY(process, id)) WITHOUT ROWID;

CREATE TABLE phase(id INTEGER PRIMARY KEY, name TEXT UNIQUE); -- id 0 = none
CREATE TABLE op(id INTEGER PRIMARY KEY, name TEXT);           -- enum vs_op
CREATE TABLE space(id INTEGER PRIMARY KEY, name TEXT);        -- enum vs_space
CREATE TABLE api(id INTEGER PRIMARY KEY, name TEXT);          -- driver entry point, enum vs_api
CREATE TABLE string(id INTEGER PRIMARY KEY, text TEXT UNIQUE);

-- what many events have in common, once
CREATE TABLE kind(id INTEGER PRIMARY KEY, process INT, api INT, space INT, context INT, stream INT, thread INT, status INT);

-- one row an event, in ring order (rowid = seq, from 1)
CREATE TABLE ev(
  seq INTEGER PRIMARY KEY,
  t INT,
  op INT,          -- op.id
  device INT,      -- CUDA ordinal, -1 unknown
  phase INT,       -- phase.id
  kind INT,        -- kind.id
  address INT,     -- x512
  size INT,        -- x512; a free has the size of what it freed
  range INT,       -- rng.id, 0 none
  stack INT,       -- stack.id, 0 none
  mate INT,        -- free: seq of its allocation (0: not seen); map: seq of the phys_create; failed free: seq of the free; reclassify: seq of the allocation
  framework INT,   -- x512: the device's totals after the event
  direct INT,      -- x512
  reserved INT     -- x2m
);

-- allocations alive at mark.upto_seq (while running) or at the end (afterwards); managed = 1: a framework carves blocks from it
CREATE TABLE live(alloc_seq INTEGER PRIMARY KEY, managed INT);
-- everything up to here is written, from the ring's sequence ring_seq
CREATE TABLE mark(id INTEGER PRIMARY KEY CHECK (id = 1), upto_seq INT, ring_seq INT);

-- peaks per ~1000 events: what plots and reports read instead of every event
CREATE TABLE zone(
  first_seq INT, last_seq INT, device INT, phase INT, t_first INT, t_last INT,
  min_allocated INT, max_allocated INT, max_allocated_t INT, min_reserved INT, max_reserved INT, -- bytes
  last_framework INT, last_direct INT, last_reserved INT -- bytes, after last_seq
);

CREATE TABLE rng(
  id INTEGER PRIMARY KEY, process INT,
  phase INT,       -- phase.id; 0 where the range names no phase
  name INT,        -- string.id
  domain INT,      -- string.id of the NVTX domain, NULL none
  source INT,      -- 1 marker, 2 NVTX, 3 automatic
  parent INT, thread INT, step INT, first_seq INT, t_push INT, t_pop INT -- t_pop NULL while open
);
CREATE TABLE range_peak(range INT, device INT, allocated_bytes INT, reserved_bytes INT, t_ns INT,
                        PRIMARY KEY(range, device)) WITHOUT ROWID;

-- per phase and device, kept by the ledger: exact, also where events were thinned
CREATE TABLE phase_stat(
  process INT, device INT, phase INT, ranges INT,
  ns INT,          -- NULL: unknown (a phase told by the thread alone has no beginning and end)
  events INT, allocated_bytes INT, reserved_bytes INT, -- peaks: the device's total in the phase's ranges and at its events
  end_allocated_bytes INT, t_allocated_ns INT, -- when the peak was first reached
  PRIMARY KEY(process, device, phase)) WITHOUT ROWID;

-- per device, kept by the ledger.  kind: 'allocated' 'reserved' 'framework' 'direct' 'managed_reserved' and, outside the device's
-- totals, 'pinned' 'registered' 'managed' 'host_vmm' (device -1 where they belong to none)
CREATE TABLE peak(process INT, device INT, kind TEXT, peak_bytes INT, seq INT, t_ns INT, end_bytes INT,
                  PRIMARY KEY(process, device, kind)) WITHOUT ROWID;
-- where events were thinned: the allocations alive at the peak of `allocated`, written out
CREATE TABLE peak_live(process INT, device INT, alloc_seq INT, t_ns INT, op INT, address INT, size_bytes INT, phase INT, range INT, stack INT, managed INT);

CREATE TABLE step(process INT, step INT, t_ns INT, seq INT);

CREATE TABLE stack(id INTEGER PRIMARY KEY, parent INT, frame INT, owner INT); -- owner: string.id of the library that asked; NULL unknown
CREATE TABLE frame(id INTEGER PRIMARY KEY, module INT, offset INT, function TEXT, file TEXT, line INT);
CREATE TABLE module(id INTEGER PRIMARY KEY, path TEXT, build_id TEXT, base INT, size INT);

CREATE TABLE sample(process INT, t_ns INT, device INT, driver_used_bytes INT,
  source TEXT,     -- 'nvml_process', 'meminfo' (whole device), 'nvml_device' (whole device)
  host_rss_bytes INT, pinned_bytes INT, reserved_bytes INT); -- reserved: our figure at that moment
CREATE TABLE loss(process INT, t_ns INT, events INT, why TEXT);
CREATE TABLE mismatch(process INT, seq INT, t_ns INT, device INT, what TEXT, ours_bytes INT, theirs_bytes INT);

-- ---- views ----

CREATE VIEW event AS SELECT k.process AS process, e.seq AS seq, e.t AS t_ns,
  (SELECT name FROM op WHERE id = e.op) AS op,
  (SELECT name FROM space WHERE id = k.space) AS space,
  (SELECT name FROM api WHERE id = k.api) AS api,
  e.device AS device, k.context AS context, k.stream AS stream,
  CASE WHEN e.address < 0 THEN -e.address ELSE e.address * 512 END AS address,
  CASE WHEN e.size < 0 THEN -e.size ELSE e.size * 512 END AS size_bytes,
  k.thread AS thread, (SELECT name FROM phase WHERE id = e.phase) AS phase, e.range AS range, e.stack AS stack, k.status AS status, e.mate AS mate,
  CASE WHEN e.framework < 0 THEN -e.framework ELSE e.framework * 512 END AS framework_bytes,
  CASE WHEN e.direct < 0 THEN -e.direct ELSE e.direct * 512 END AS direct_bytes,
  CASE WHEN e.framework < 0 THEN -e.framework ELSE e.framework * 512 END + CASE WHEN e.direct < 0 THEN -e.direct ELSE e.direct * 512 END AS allocated_bytes,
  CASE WHEN e.reserved < 0 THEN -e.reserved ELSE e.reserved * 2097152 END AS reserved_bytes
  FROM ev e JOIN kind k ON k.id = e.kind;

CREATE VIEW timeline AS SELECT (SELECT min(id) FROM process) AS process, e.t AS t_ns, e.device AS device,
  CASE WHEN e.framework < 0 THEN -e.framework ELSE e.framework * 512 END + CASE WHEN e.direct < 0 THEN -e.direct ELSE e.direct * 512 END AS allocated_bytes,
  CASE WHEN e.reserved < 0 THEN -e.reserved ELSE e.reserved * 2097152 END AS reserved_bytes,
  (SELECT name FROM phase WHERE id = e.phase) AS phase
  FROM ev e WHERE e.device >= 0 AND e.op < 30;

CREATE VIEW range AS SELECT r.id AS id, r.process AS process, (SELECT name FROM phase WHERE id = r.phase) AS phase,
  (SELECT text FROM string WHERE id = r.name) AS name, (SELECT text FROM string WHERE id = r.domain) AS domain,
  CASE r.source WHEN 1 THEN 'marker' WHEN 2 THEN 'nvtx' WHEN 3 THEN 'automatic' END AS source,
  r.parent AS parent, r.thread AS thread, r.step AS step, r.t_push AS t_push_ns, r.t_pop AS t_pop_ns FROM rng r;

CREATE VIEW phase_peak AS SELECT s.process AS process, s.device AS device,
  (SELECT name FROM phase WHERE id = s.phase) AS phase, s.ranges AS ranges, s.ns / 1e9 AS seconds,
  s.allocated_bytes AS allocated_bytes, s.reserved_bytes AS reserved_bytes, s.end_allocated_bytes AS end_allocated_bytes, s.events AS events FROM phase_stat s;
