-- schema.sql - the database that vramscope writes, and the only description of it.
--
-- Narrow tables (written by shim/trace/store*.c, many rows) under views (what people and the analyzer query).
-- Conventions of the narrow tables:
--   t        nanoseconds since the run's start
--   x512     bytes in units of 512; a negative value -n stands for exactly n bytes (no multiple of 512)
--   x2m      what is reserved, of which the last allocations of the driver's are often no multiple of anything: n >= 0 stands for n times 2 MiB, -2n - 1
--            for n times 2 MiB more than `direct` in the same row, and -2n - 2 for exactly n bytes
-- The views undo all of it: every column named *_bytes is in bytes, every *_ns in nanoseconds.
--
-- A file has one process, number 1, or, where files were joined, several.  Numbers of events and of ranges are unique in the file: those
-- of process P lie between (P - 1) * 2^40 and P * 2^40, so that (seq >> 40) + 1 is the process of a row that has a seq and no other
-- column for it.  Names (tables phase, op, space, api, string, stack, frame, module, tensor) are shared by all, each once (where a module lay is then said of
-- the first process alone); whatever else has no column
-- `process` has a kind, a seq or a range.
--
-- Columns that mean the same everywhere:
--   process        process.id; 1 in a file of one process
--   device         CUDA ordinal as the process sees it, -1 unknown or none; device.id
--   thread         thread.id        context   context.id       stack   stack.id, 0 none
--   phase          phase.id in tables, its name in views; `none` where nothing says
--   range          rng.id of the innermost range that the event belongs to, 0 none
--   seq            the event's number, ev.seq; alloc_seq that of an allocation, free_seq of what ended it
--   t_ns           nanoseconds since the run's start; t_alloc_ns when it was allocated, t_free_ns when freed
--   address        what the driver gave: a pointer, or a handle of physical memory or of a pool; of arena_reserved the bytes that are away (table away)
--   size_bytes     bytes asked for
--   op             what happened, op.name        api      the driver function that was called, api.name
--   space          which kind of memory, space.name: only `device`, `pool`, `array`, `graph` and `arena` are in a device's totals
--   status         the driver's CUresult, 0 success; an event with another one changed no total
--   stream         the stream's handle (1 legacy, 2 per-thread default), 0 the default one; of a block_alloc and an oom of PyTorch's own allocator its
--                  number: 1 the default stream, others from 2 on as they came, 0 unknown; and the second number of what has no
--                  stream: of a graph_node the graph (or the captured stream), of context_create and context_destroy the kind
--                  (1 primary, 2 created, 3 green), of module_load the bytes of the image, of limit the new value, of overhead
--                  what took it, of bind and unbind where in the object, of block_deferred the CUDA event that the block waits for, of block_shared (record_stream) the number of the stream that uses the block too, of
--                  block_away why (1 parked, 2 suspended, 3 spilled), of
--                  pool_begin 0 where it is of its thread's requests, else twice the number of the stream that is captured, and 1
--   framework_bytes, direct_bytes   the device's totals after the event: what a framework's allocator has given out, and
--                  driver allocations that no such allocator carves up
--   allocated_bytes                 their sum
--   reserved_bytes what the process holds of the driver on the device; less than allocated_bytes only where memory was away (table away)
--   managed        1: a caching allocator carves blocks from it, so that it counts as reserved alone; 2: likewise a library's pool that
--                  does not report what it uses of it
--   owner          the library that asked, NULL unknown
--   role           in views: what the block is for (view block_role), role_rule by which rule; NULL: it was not followed (VRAMSCOPE_ACCESS),
--                  no framework said anything of it, and it is of no imported snapshot that shows roles
--   line           in views: the line of Python that asked, as 'FILE:LINE FUNCTION', and before it the program's own that called it, as 'FILE:LINE > '
--                  (table stack has the rule); in backward, where none ran, 'forward: FILE:LINE FUNCTION', the line that made the autograd node that ran, or the name of that node where
--                  it is not known which did.  NULL: no Python code was running, or its frames were not recorded
--   made_for       in views: what a framework's block was asked for as: 'tensor', 'storage' (one that was resized), or 'raw': bytes that no tensor was
--                  made of, such as the workspaces of libraries; NULL: not known, or no framework's block
--   request_bytes  in views: how many bytes that was, before the framework's allocator rounded it to size_bytes; NULL unknown, and of 'raw'.
--                  element_type: of a tensor, 'bfloat16'; shape: of a tensor, as '[4, 2048, 8192]', '[]' a scalar, NULL unknown
--   layer          in views: the module whose call was open, as its path from the outermost one, with that one's class; else the path of the
--                  marker and NVTX ranges that were open; in backward those of the forward that made the node.  NULL none
--
-- Start here:
--   SELECT t_ns, allocated_bytes, reserved_bytes FROM timeline WHERE device = 0;
--   SELECT phase, allocated_bytes, reserved_bytes FROM phase_peak;
--   SELECT size_bytes, line, phase, category, owner FROM live_at_peak ORDER BY size_bytes DESC LIMIT 20;

-- facts about a process's recording, and (process 0) about the file, a key and its value a row: schema_version (14), version (of the tool), named_frames (how many frames there were when names were looked up, absent before; these three of process 0), start_realtime_ns, start_monotonic_ns (CLOCK_MONOTONIC at t = 0), max_bytes, clean_end (1 = the process ended in good order),
-- journal (path of what has the rest while the process runs, and after a kill), journal_merged (1 = the process was cut off, and its journal has been merged to its end; with
-- neither this nor clean_end the end may be missing), came_to_exit (with journal_merged: 1 = the process had run its exit handlers by then, and not all was written yet, 0 = it was killed
-- or left without them, absent = unknown), thinned_from_seq (absent, or: from where on there was no room for each event's row although everything
-- old had been folded: table stretch), live_incomplete (absent, or 1: no room was left to keep table live).
-- label.NAME, with its value: what the user calls the run by (VRAMSCOPE_LABELS, `vramscope run --label`), absent where nobody gave it a label.
-- limit: the most that the process got of each device, as VRAMSCOPE_LIMIT (`vramscope run --limit`) said it; absent: none.
-- park: what `vramscope run --park` decided, 'idle=N,ns=N,link=N,parked=N', with ',from' where a recording before had said how long: bytes of optimizer states that lay idle for so long of a step, bytes that the link took in a
-- second, and bytes that were to go (absent: nothing was decided).  park_later: that time with the parking.
-- park_first: 'parked=N,waited=N', bytes that were to go before they became fewer, since the optimizer waited so long for them in a step.  park_none: why nothing goes.  park_unforeseen: uses that were not foreseen.  park_ended: why nothing goes any more.
-- contract.NAME: view contract.
-- dry: of a dry run, what it stands for: gpu=KEY,bytes=N (of memory),steps=N|all,values=first|second (which assumptions about what only a GPU computes), skew, keep, overflow as given.
-- Where a program imported PyTorch: torch_version, torch_alloc_conf (PYTORCH_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF, whichever it read), torch_memory_fraction (of that; absent: none),
-- torch_settings_changed (1: after its allocator had memory), and torch_max_split_size and those behind it below, as that says them.
-- Of a recording that was made of a PyTorch snapshot: imported (the snapshot's path; then rows before the one of op record_start set up what the trace found), sizes_of_blocks ('all' or 'some': of an export of vramscope's that had no request for these; absent: sizes are requests), driver_blocks ('some': likewise, and of these blocks some are memory that others asked of the driver), imported_misfits (entries that do not fit to the snapshot's own end: others are missing; absent: none), imported_before (bytes that were reserved when the trace began, 0 also where it has but one entry: any higher peak before is unknown; absent: it began with nothing), imported_phases (recorded: of an export of vramscope's, phases and steps are its recording's), imported_pairs (1: of an export of vramscope's in which pairs of entries that cancel each other stand around mappings), torch_max_split_size,
-- torch_garbage_collection_threshold, torch_roundup_power2_divisions, torch_expandable_segments, torch_alloc_conf (its allocator's settings, absent where it does not say)
CREATE TABLE meta(key TEXT, value, process INT DEFAULT 1, PRIMARY KEY(process, key)) WITHOUT ROWID;

-- the process that was recorded, or the processes.  host, boot_id (the kernel's, it changes with each boot) and pid (NULL: unknown) name it among all; command is
-- its command line; rank, local_rank and world_size are those of a distributed job, NULL where no launcher gave them;
-- start_realtime_ns the wall clock at t = 0, NULL where an imported trace has no times; end_ns NULL while it runs or when it was killed
CREATE TABLE process(
  id INTEGER PRIMARY KEY,      -- 1 in a file of one process
  host TEXT, boot_id TEXT, pid INT,
  rank INT, local_rank INT, world_size INT,
  command TEXT, start_realtime_ns INT, end_ns INT,
  simulated INT                -- 1 = the simulated driver, 2 = a dry run on it (`vramscope fit`; meta: dry): no GPU was involved
);
-- the devices that were used: id is the CUDA ordinal, uuid and name are the driver's, total_bytes the memory it has
CREATE TABLE device(id INT, process INT, uuid TEXT, name TEXT, total_bytes INT, PRIMARY KEY(process, id)) WITHOUT ROWID;
-- the threads that recorded: id counts from 1, tid is the kernel's, name as it was at the thread's first event, autograd 1 for one of
-- PyTorch's backward threads
CREATE TABLE thread(id INT, process INT, tid INT, name TEXT, autograd INT, PRIMARY KEY(process, id)) WITHOUT ROWID;
-- CUDA contexts: id counts from 1, handle is the CUcontext, device the one that it lies on.  Of a process that makes more than 254 the id of
-- one that has ended is used again: handle and device are those of the first, and an event belongs to the context_create before it with its id
CREATE TABLE context(id INT, process INT, handle INT, device INT, PRIMARY KEY(process, id)) WITHOUT ROWID;

-- names behind the numbers of other tables: id the number, name or text what it stands for
CREATE TABLE phase(id INTEGER PRIMARY KEY, name TEXT UNIQUE); -- 0 = none; 1 to 4 the four known ones, used or not; at most 1024: later ones are 'other phases'
CREATE TABLE op(id INTEGER PRIMARY KEY, name TEXT);           -- id: enum vs_op; name
CREATE TABLE space(id INTEGER PRIMARY KEY, name TEXT);        -- id: enum vs_space; name
CREATE TABLE api(id INTEGER PRIMARY KEY, name TEXT);          -- id: driver entry point, enum vs_api; name
CREATE TABLE string(id INTEGER PRIMARY KEY, text TEXT);       -- id, text: names; the same text may stand twice
CREATE TABLE element_type(id INTEGER PRIMARY KEY, name TEXT, bytes INT); -- of tensors, as PyTorch numbers them; bytes of an element, which is one where several share it

-- what a framework's blocks were asked for as, each once.  kind: 1 a tensor, 2 a storage that was resized, 3 bytes without a tensor, 4 of an imported
-- trace: blocks have the requests for sizes.  element_type: element_type.id, NULL none or unknown; request: bytes, NULL unknown (4: the block's
-- size); shape: of a tensor, NULL unknown.  Read view tensor_text
CREATE TABLE tensor(id INTEGER PRIMARY KEY, kind INT, element_type INT, request INT, shape TEXT);
-- made_for, request_bytes (NULL also where it is the block's size: sized = 1), element_type and shape as all views have them
CREATE VIEW tensor_text AS SELECT t.id AS id, CASE t.kind WHEN 1 THEN 'tensor' WHEN 2 THEN 'storage' WHEN 3 THEN 'raw' END AS made_for,
    t.request AS request_bytes, (SELECT name FROM element_type WHERE id = t.element_type) AS element_type, t.shape AS shape, t.kind = 4 AS sized
  FROM tensor t;

-- what many events have in common, once: id is what ev.kind refers to.  managed: 1 = an allocation known from birth to be a caching allocator's
CREATE TABLE kind(id INTEGER PRIMARY KEY, process INT, api INT, space INT, context INT, stream INT, thread INT, status INT, managed INT,
  tensor INT); -- of a framework's block, and of its out-of-memory: tensor.id, NULL unknown

-- one row an event, in ring order (rowid = seq, from 1).  Numbers are missing where a stretch was folded: of its rows those stay that
-- say what lived on after it, and those of contexts, modules, limits and overhead
CREATE TABLE ev(
  seq INTEGER PRIMARY KEY,
  t INT,           -- when
  op INT,          -- op.id
  device INT,      -- CUDA ordinal, -1 unknown
  phase INT,       -- phase.id
  kind INT,        -- kind.id
  address INT,     -- x512; handle of physical memory, of a pool
  size INT,        -- x512; a free has the size of what it freed (0: unknown, or a release that leaves references); of context_create, module_load,
                   -- limit, overhead: by how much the driver's figure of used memory moved, NULL where it is not known (of an overhead: where it
                   -- was not asked, since asking had taken its share of the time)
  range INT,       -- rng.id, 0 none
  stack INT,       -- stack.id, 0 none
  mate INT,        -- free, phys_release, phys_freed, free_missed, context_freed: seq of the allocation (0: not seen); map, bind, unbind, phys_retain: seq of the phys_create
                   -- (phys_retain of an import: of its alloc); context_destroy, module_unload: seq of what made it; limit, overhead: 1 = the figure fell by size;
                   -- free_failed: seq of the free; reclassify, block_away: seq of the allocation
  framework INT,   -- x512: the device's totals after the event
  direct INT,      -- x512
  reserved INT     -- x2m
);
-- rows of ev that were seen differently later.  op 50: the allocation seq is managed after all; 3: the free seq failed
CREATE TABLE amend(seq INTEGER PRIMARY KEY, op INT, by_seq INT); -- by_seq: the row that says so

-- when the device was given a block (VRAMSCOPE_ACCESS), of those that were followed: what is freed has its row with its free, what lives
-- with table live.  Written so that a row is short; read view access_times, which says what the columns mean, or view block_use
CREATE TABLE access(alloc_seq INTEGER PRIMARY KEY,
  kind INT,                    -- access_kind.id
  first INT,                   -- this, uses, born_step, gap and sure as in view access_times
  span INT,                    -- ns from its first use to its last; NULL: there was none
  uses INT, born_step INT,
  steps,                       -- a number: it was used in the iteration of its birth alone, or never, and freed so many later; NULL: likewise, and it
                               -- lives; else, as JSON, first_step, last_step, end_step and steps of view access_times: '[0,7,null,8]'
  gap INT,
  gap_left INT,                -- ns from its end to the last use
  sure INT);
-- table access, as it is meant.  A use is a launch, a copy, a fill or a graph that was given an address inside of the block.  What a kernel is given need not be an
-- address, so a use that did not happen may be here; blocks of which a use may be missing say so (access_kind.kinds).
-- first, last: ns from its allocation to its first and its last use; NULL: there was none.  uses: how many.  born_step: the training iteration
-- under way when it was allocated, from 1.
-- first_step, last_step, end_step: how many training iterations after born_step its first and its last use (NULL: in the same) and its free (NULL: it
-- lives) were; steps: in how many different iterations it was used (NULL: in one, or in none); gap, gap_end: ns, the longest time between two uses that
-- followed each other, and its end after the allocation (NULL: less than a millisecond).  sure: a use is sure if a kernel had the address as a parameter of its
-- own or in a structure whose layout is known, or if a copy or a fill had it; a word in another structure may be one that an earlier call left there.  2048 times how
-- far behind the first use the first sure one lies, and how far before the last use the last sure one, both in 1024ths of the time between first and last use,
-- rounded up (0: both are sure; NULL: none is known to be)
CREATE VIEW access_times AS SELECT alloc_seq, kind, first, first + span AS last, uses, born_step,
    CASE typeof(steps) WHEN 'text' THEN json_extract(steps, '$[0]') END AS first_step,
    CASE typeof(steps) WHEN 'text' THEN json_extract(steps, '$[1]') END AS last_step,
    CASE typeof(steps) WHEN 'text' THEN json_extract(steps, '$[2]') ELSE steps END AS end_step,
    CASE typeof(steps) WHEN 'text' THEN json_extract(steps, '$[3]') END AS steps,
    gap, first + span - gap_left AS gap_end, sure
  FROM access;
-- what many rows of access have in common, once.  first_by, last_by: string.id of the kernel, or of the driver function of a copy or
-- a fill, of its first and its last use, 0 none; first_phase, last_phase: phase.id.  phases: a sum over those of its uses: 1 none, 2 forward,
-- 4 logits, 8 backward, 16 optimizer, 32 evaluation, 64 others.  kinds: a sum over what gave it: 1 a kernel's parameters, 2 a graph, 4 a copy
-- from it, 8 a copy to it, 16 one of these from or to the host, 32 a fill, 64 a tensor map; and over why uses may be missing: 128 its address was
-- copied into device memory, 256 work that finds addresses in memory ran while it lived (or the host uses it, too), 512 it was not followed all its life.
-- sure_phases: as phases, of sure uses (access.sure)
CREATE TABLE access_kind(id INTEGER PRIMARY KEY, process INT, first_by INT, last_by INT, first_phase INT, last_phase INT, phases INT, kinds INT, sure_phases INT);

-- what PyTorch itself says that a block is for, read under `vramscope run` when an optimizer has stepped and after a model's first call (not at each of
-- them: that is to take no more than a thousandth of the time).  role: 1 a parameter of a model or an optimizer, 2 a gradient, 3 an optimizer's state, 4 a
-- model's buffer.  A block that is several of these is the first of them.  From 16 on: no word of PyTorch's, but what an import found by call stacks and
-- lifetimes, by the rule that decided (view life_role)
CREATE TABLE framework_role(alloc_seq INTEGER PRIMARY KEY, role INT);

-- allocations alive at mark.live_seq: the end, or while running a moment ago; t is when each was allocated, size x512
CREATE TABLE live(alloc_seq INTEGER PRIMARY KEY,
  op INT,          -- 20 a framework's block, 1 driver memory, 4 physical memory
  device INT, space INT, address INT, size INT, -- x512
  t INT, phase INT, range INT, stack INT,
  managed INT,     -- 1: a caching allocator carves blocks from it
  tensor INT);     -- tensor.id, NULL unknown
-- one row a process, id: process.id.  Events up to upto_seq are written, from the ring's sequence ring_seq; live_seq: as of which row table live stands
CREATE TABLE mark(id INTEGER PRIMARY KEY, upto_seq INT, ring_seq INT, live_seq INT);
-- what a writer that continues the file (after a kill, or with what threads record after the end) has to know and no other table says,
-- as of mark.upto_seq; of no use to anybody else, and empty once the journal is merged.  Nobody goes on with a file of several
-- processes: there it means nothing.  what: enum vs_resume in shim/trace/ledger/ledger.h, which says what id, a, b, c and d are
CREATE TABLE resume(what INT, id INT, a INT, b INT, c INT, d INT);

-- peaks per ~1000 events of one device and phase: what plots and reports read instead of every event.  From first_seq to last_seq,
-- t_first to t_last: the least and greatest allocated and reserved (min_allocated, max_allocated, first reached at max_allocated_t,
-- min_reserved, max_reserved); the totals after last_seq (last_framework, last_direct, last_reserved).  A stretch that is folded has one
-- for each device and phase of its events: then `stretch` names it, else that is NULL.  min_allocated_t, max_reserved_t, min_reserved_t:
-- when these were first reached; reserved_at_max, reserved_at_min: reserved at the greatest and the least allocated
CREATE TABLE zone(
  first_seq INTEGER PRIMARY KEY, last_seq INT, device INT, phase INT, t_first INT, t_last INT,
  min_allocated INT, max_allocated INT, max_allocated_t INT, min_reserved INT, max_reserved INT, -- bytes
  last_framework INT, last_direct INT, last_reserved INT, -- bytes, after last_seq
  events INT,
  min_allocated_t INT, max_reserved_t INT, min_reserved_t INT,
  reserved_at_max INT, reserved_at_min INT, -- bytes
  held TEXT,                                -- who held max_allocated: JSON, see view zone_held
  stretch INT                               -- stretch.first_seq where it is folded
);
-- the run in stretches, each some training steps, or some thousand events where steps are long or not known.  Where the file would pass
-- VRAMSCOPE_MAX_BYTES old ones are folded, later several into one: 2, 4, 8, ... the older they are.  In full stay, as long as there is
-- room: the first three steps (without steps: stretches), those around an out-of-memory, that of each device's peak, and the latest.
-- What is folded has no row of its own in ev, rng, range_peak, step, moment; of sample the extremes stay; zone and range_fold sum it up.
-- From first_seq to last_seq, t_first to t_last; first_step and last_step: the training iterations under way at its first and its last
-- event, from 1
CREATE TABLE stretch(
  first_seq INTEGER PRIMARY KEY, last_seq INT,
  t_first INT, t_last INT,
  first_step INT, last_step INT,
  steps INT,                     -- iterations that ended in it
  ranges INT,                    -- ranges that were closed in it
  samples INT,                   -- taken in it
  folded INT,                    -- how many stretches were folded into this one; 0: each event has its row; NULL: more events come
  unwritten INT,                 -- events that had no row from the start: there was no room
  bytes INT                      -- what it takes in the file in full, about
);
-- ranges whose rows went with a folded stretch (stretch: its first_seq; of the range's end), summed up by what they are called.
-- device -1: all of them; others: those that were open while the device was in use, with the greatest of their peaks
CREATE TABLE range_fold(
  stretch INT,
  phase INT,       -- phase.id; 0 where the ranges name no phase
  name INT,        -- string.id; -1 the rest: names beyond 64 a stretch
  domain INT,      -- string.id of the NVTX domain, 0 none
  device INT,
  ranges INT,      -- how many
  ns INT,          -- summed over those that were closed; where they name a phase over its outermost (device -1)
  allocated_bytes INT, t_ns INT, reserved_bytes INT, -- as in range_peak (allocated_bytes NULL where it is there for one of them); NULL for device -1
  PRIMARY KEY(stretch, phase, name, domain, device)) WITHOUT ROWID;

-- the instances of phases, and all other ranges, from push to pop.  Those of folded stretches are summed up in range_fold
CREATE TABLE rng(
  id INTEGER PRIMARY KEY, process INT,
  phase INT,       -- phase.id; 0 where the range names no phase
  name INT,        -- string.id
  domain INT,      -- string.id of the NVTX domain, NULL none
  source INT,      -- 1 marker, 2 NVTX, 3 automatic
  flags INT,       -- 1 outermost: no range around it has the same phase; 2 start/end range, crosses threads; 4 closed without its pop, which was lost
  parent INT,      -- rng.id of the range around it on its thread, 0 none
  thread INT,      -- that pushed it
  step INT,        -- the training iteration it began in, from 1
  first_seq INT,   -- seq of its push
  t_push INT,      -- when it was opened
  t_pop INT        -- when it was closed; NULL while open, and where its pop was not seen
);
-- the device's totals while the range was open, the value at push included, whatever thread allocated.  allocated_bytes NULL: unknown,
-- see peak
CREATE TABLE range_peak(range INT, device INT, allocated_bytes INT, reserved_bytes INT, t_ns INT, -- t_ns: of allocated, first reached
                        PRIMARY KEY(range, device)) WITHOUT ROWID;

-- per phase and device, kept by the ledger: exact, also where stretches were folded
CREATE TABLE phase_stat(
  process INT, device INT, phase INT,
  ranges INT,      -- ranges of the phase, on whatever thread
  ns INT,          -- summed over the outermost ranges that were closed.  NULL: unknown (a phase that is known by its thread alone has no beginning and end)
  open_ns INT,     -- what the outermost ranges that are open, or were at the end, have had up to the last event
  events INT, allocated_bytes INT, reserved_bytes INT, -- peaks: the device's total in the phase's ranges and at its events (allocated NULL: unknown, see peak)
  end_allocated_bytes INT, -- allocated at the end of the last range; without ranges, at the last event; NULL likewise
  t_allocated_ns INT,      -- when the peak was first reached
  PRIMARY KEY(process, device, phase)) WITHOUT ROWID;

-- per device, kept by the ledger.  kind: 'allocated' 'reserved' 'framework' 'direct' 'managed_reserved' 'unknown_use' (what libraries' pools
-- hold that do not report what they use of it: XLA's, CuPy's, RMM's, see docs/coverage.md and table pool_use) and, outside the device's totals, 'pinned' 'registered' 'managed' 'host_vmm' 'imported' (device -1: of the whole process).
-- peak_bytes first reached by event seq at t_ns; end_bytes: at the end.  Of 'allocated' both are NULL where the device has had memory of
-- unknown use: it is unknown then, and known_bytes, reached by event seq, is the least that it was
CREATE TABLE peak(process INT, device INT, kind TEXT, peak_bytes INT,
                  seq INT, t_ns INT, -- first reached
                  end_bytes INT, known_bytes INT, PRIMARY KEY(process, device, kind)) WITHOUT ROWID;
-- the allocations alive at the peak of `allocated`, written out: at the end if there is room, and before a stretch after it is folded.
-- Valid for a device where peak_seq = peak.seq.  t_ns: when it was allocated.  op 0: bytes that the framework held before the recording began
CREATE TABLE peak_live(process INT, device INT, alloc_seq INT, peak_seq INT, t_ns INT, op INT, space INT, address INT, size_bytes INT,
                       phase INT, range INT, stack INT, tensor INT, PRIMARY KEY(process, device, alloc_seq)) WITHOUT ROWID; -- tensor: as in live

-- out-of-memory that reached the program (role): of each device the first (1), the last (2), the one with the largest request (4),
-- added up where one is several.  8, 16: a refusal by the driver of which it is not known yet whether the framework goes on.
-- How many there were: counter 'out_of_memory' (a framework gave up), 'driver_out_of_memory' (the driver refused),
-- 'driver_out_of_memory_absorbed' (of these: the framework freed what it cached, asked again, and got it),
-- 'driver_out_of_memory_reported' (it gave up: counted in 'out_of_memory' too).  What lived then: view live_at_oom
CREATE TABLE oom(process INT,
  seq INT,                 -- of the event
  role INT, t_ns INT, device INT,
  op INT,                  -- op.id: 22 a framework gave up, else what the driver refused
  space INT, context INT,
  api INT,                 -- api.id, NULL a framework
  thread INT, phase INT, range INT,
  stack INT,               -- who asked
  step INT,                -- the training iteration under way, from 1
  requested_bytes INT,     -- asked for; of a framework: for the block; 0: the call does not say
  asked_driver_bytes INT,  -- what the driver refused for it; 0: the driver was not asked
  refusals INT,            -- by the driver in a row, this one included
  framework_bytes INT, direct_bytes INT,
  managed_reserved_bytes INT, -- of reserved: what the framework carves its blocks from
  unknown_use_bytes INT,   -- of reserved: what libraries' pools held that do not report what they use
  reserved_bytes INT,
  base_bytes INT,          -- of framework_bytes: held from before the recording
  pinned_bytes INT,        -- page-locked host memory of the whole process, the driver's
  registered_bytes INT,    -- and the host's own pages
  free_bytes INT,          -- what the driver had free, asked by the refused thread at free_t_ns; NULL unknown
  free_t_ns INT,
  free_reserved_bytes INT, -- reserved at free_t_ns: more than reserved_bytes by what a framework had got for this request and gave
                           -- back before it gave up; NULL unknown
  process_used_bytes INT,  -- the driver's last figure for this process; NULL unknown
  process_used_t_ns INT,   -- when that was: not before free_t_ns where it was asked with free_bytes
  device_used_bytes INT,   -- and for the whole device, other processes included; NULL unknown
  device_used_t_ns INT,    -- when that was
  stored INT,              -- 1: what lived stands in oom_live; 0: it follows from the events
  tensor INT,              -- tensor.id of what was refused to a framework, NULL unknown
  PRIMARY KEY(process, seq)) WITHOUT ROWID;
-- what lived at oom_seq, written out: at the end if there is room, and before a stretch after it is folded.  Columns as in peak_live
CREATE TABLE oom_live(process INT, oom_seq INT, alloc_seq INT, t_ns INT, op INT, space INT, address INT, size_bytes INT,
                      phase INT, range INT, stack INT, tensor INT, PRIMARY KEY(process, oom_seq, alloc_seq)) WITHOUT ROWID;

CREATE TABLE step(process INT, step INT, t_ns INT, seq INTEGER PRIMARY KEY); -- the training iteration step, counted from 1, ended; of a folded stretch its last
-- a mark of thread; name: string.id; source as in rng.  'output_layer_not_called N' of source 3, N its classes: backward began, and the layer that
-- makes the logits had run where no hook sees it (torch.compile, F.linear, a fused loss): they lie in other phases.  Told once
CREATE TABLE moment(process INT, seq INTEGER PRIMARY KEY, t_ns INT, name INT, source INT, thread INT);  -- of a folded stretch those of source 3

-- call stacks as a tree: a row is a frame under its parent, the stack that called it.  The stack of an event is the path from its row outward
CREATE TABLE stack(id INTEGER PRIMARY KEY, parent INT, -- the caller's stack.id, 0 = outermost
  frame INT,         -- frame.id
  owner INT,         -- string.id of the library that asked: the first native frame outward that is not CUDA's own; NULL unknown
  line INT,          -- frame.id of the Python frame that it is shown by: the innermost of a package that defines the class of an open module (not
                     -- torch's own; without one the innermost outside of torch's folder), or of a file in no site-packages, dist-packages or Python's
                     -- library, whichever is inner.  Where all are torch's and Python's, the innermost one.  NULL: no Python frame
  forward INT,       -- 1: line did not run then; it is the forward's, and made the autograd node that did
  node INT,          -- frame.id of the autograd node in whose run it was, the innermost; NULL: not in backward
  layer INT,         -- frame.id of the layer; NULL none
  again INT,         -- 1: a layer's call inside of the node's run: the forward is made again (checkpoints)
  caller INT);       -- frame.id of the innermost frame of the program's own (a file in no site-packages, dist-packages or Python's library); NULL: none outward of line
-- a stack's line and layer as text, as all views have them; layer_type: the class of the module, NULL where the layer is made of ranges
CREATE VIEW stack_text AS SELECT s.id AS id,
    CASE WHEN s.line IS NULL THEN n.function ELSE CASE s.forward WHEN 1 THEN 'forward: ' ELSE '' END || CASE WHEN c.id IS NULL THEN '' ELSE c.file || ifnull(':' || c.line, '') || ' > ' END || l.file || ifnull(':' || l.line, '') || ' ' || l.function END AS line,
    y.function AS layer, y.file AS layer_type
  FROM stack s LEFT JOIN frame l ON l.id = s.line LEFT JOIN frame n ON n.id = s.node LEFT JOIN frame y ON y.id = s.layer LEFT JOIN frame c ON c.id = s.caller;
-- places in code.  kind 1: a code address, an offset in a module; function, file and line are NULL until somebody looked them up (of an imported trace they are all that is known: module 0, offset NULL).  kind 2: Python
-- code, function (its qualified name; before Python 3.11 its name), file and line as the interpreter said at once; module and offset are NULL.
-- kind 3: an autograd node that ran, function its name; its callers are the frames of the forward that made it.  kind 4: a layer, function its path, file the
-- class of the module (NULL: it is made of ranges)
CREATE TABLE frame(id INTEGER PRIMARY KEY, kind INT,
  module INT, offset INT, -- within the module (file address); absolute where module is 0
  function TEXT, file TEXT, line INT); -- line NULL: the code has none
-- the files of code in the process: id, path, build_id (hexadecimal), and where it lay: base and size (bytes of its mapping)
CREATE TABLE module(id INTEGER PRIMARY KEY, path TEXT, build_id TEXT, base INT, size INT);

-- what others say, every VRAMSCOPE_SAMPLE_MS: driver_used_bytes of the device, as source has it; host_rss_bytes, the process's resident
-- host memory; pinned_bytes, our figure of pinned host memory; reserved_bytes, ours of the device.  Of a folded stretch, for each
-- device and source: the first and the last, and those with the greatest and least of driver_used_bytes and of what that is beyond
-- reserved_bytes, with the greatest host_rss_bytes and pinned_bytes
CREATE TABLE sample(process INT, t_ns INT, device INT, driver_used_bytes INT,
  source TEXT,     -- 'nvml_process', 'meminfo' (whole device), 'nvml_device' (whole device)
  host_rss_bytes INT, pinned_bytes INT, reserved_bytes INT, -- reserved: our figure at that moment
  seq INTEGER PRIMARY KEY); -- of its event
-- what libraries with pools of unknown use said of them when they were asked, every VRAMSCOPE_SAMPLE_MS and at the end, under `vramscope run`
CREATE TABLE pool_use(process INT, t_ns INT, device INT,
  pool INT,        -- string.id of the library's name
  used_bytes INT,  -- in use then
  peak_bytes INT,  -- the most in use so far, by the library's own counter; NULL: it has none
  held_bytes INT); -- what the pool held of the driver; NULL: it does not say
-- how much of what lives on the device was away, from event seq at t_ns on: an arena's blocks whose memory was on the host (away_bytes).  That is part of
-- allocated and not of reserved.  A row for each change; no row: nothing ever was.  Of a folded stretch those rows stay that held at peaks, at
-- out-of-memory and at the moments of its rows of table zone, with the greatest and the last
CREATE TABLE away(seq INTEGER PRIMARY KEY, t_ns INT, device INT, away_bytes INT);
-- which blocks these were: of allocation alloc_seq (0: of all the arena's blocks together) away_bytes were on the host from event seq on (0: none any more), and why: 'parked',
-- 'suspended' or 'spilled'.  Of the device and for this reason so far: out_bytes that went, back_bytes that came back or were freed there, times that some went while
-- none was there, waited_ns of the program for those that came back, by the device's clock (NULL: unknown).  The rest of the chunks in which blocks lie is counted
-- by away alone.  Of a folded stretch those rows stay that hold of a block at its end, when most was away, at peaks and at out-of-memory
CREATE TABLE away_block(seq INTEGER PRIMARY KEY, t_ns INT, device INT, alloc_seq INT, away_bytes INT, why TEXT, out_bytes INT, back_bytes INT, times INT, waited_ns INT);
-- VRAMSCOPE_ALLOCATOR=arena: what the arena of a device had done since it was made, and what it was like, at moments: each of its threads
-- takes a sample every 1/32 of its requests (4 at least, 4096 at most), and there is one at the exit and at the arena's end.  See view arena
CREATE TABLE arena_sample(process INT, device INT,
  t_ns INT,
  number INT,          -- which arena of the device: counts from 1, another one comes after its primary context was reset
  mallocs INT,         -- requests that it served
  frees INT,
  hits INT,            -- of mallocs: from a hole, no call of the driver
  view_hits INT,       -- of mallocs: from an alias mapping that was there, no call of the driver
  driver_calls INT,    -- of the driver for memory: create, map, set access, unmap, release
  created INT,         -- chunks
  released INT,        -- chunks given back
  aliased INT,         -- chunks mapped once more, in an alias mapping
  unmapped INT,        -- mappings taken away
  order_calls INT,     -- of the driver to know what is done: events recorded, asked, waited for by a stream
  follows INT,         -- a stream was made to wait for another one's frees
  settles INT,         -- the host waited for the device because memory was short
  free_waits INT,      -- the host waited for the device in cuMemFree, as the driver's does
  evicted INT,         -- alias mappings removed to stay below the limit of mappings
  lost INT,            -- chunks that could not be released or unmapped: held to the end, and in no total
  lost_blocks INT,     -- blocks whose free could not be remembered: never used again
  blocks INT,          -- now: alive, or freed and not yet reusable
  lanes INT,           -- streams that have memory of their own, now
  views INT,           -- now
  mappings INT,        -- chunks mapped now, alias mappings included
  peak_mappings INT,   -- so far
  granule_bytes INT,   -- of one chunk
  allocated_bytes INT, -- of the living blocks, in units of 512
  reserved_bytes INT,  -- of the chunks
  idle_bytes INT,      -- of these: no block lies in them
  deferred_bytes INT,  -- freed, and not reusable before work of the device is done
  peak_allocated_bytes INT, -- so far
  peak_reserved_bytes INT,  -- so far
  at_peak_reserved_bytes INT, -- when allocated_bytes first reached its peak
  at_peak_idle_bytes INT,     -- likewise
  at_peak_deferred_bytes INT  -- likewise
);
-- where totals may be too high: the ring was so full that ends (frees, pops) were lost, counted in loss, and what they ended went on
-- counting as alive.  From from_seq at t_from_ns on, until to_seq at t_to_ns showed the total right again: a framework's own figure, or
-- nothing being alive any more; NULL: to the end.  kind 'allocated' or 'reserved'; device -1: memory in no device's totals.  A peak is
-- an upper bound where its seq lies from from_seq on and before to_seq.  No rows: nothing is too high, whatever else was lost
CREATE TABLE upper_bound(process INT, device INT, kind TEXT, from_seq INT, t_from_ns INT, to_seq INT, t_to_ns INT,
                         PRIMARY KEY(process, device, kind, from_seq)) WITHOUT ROWID;
-- what was lost, or went wrong: how many events (0: none, or an unknown number; never of names or stacks).  code says what kind it is,
-- and stays as it is from version to version; why says it to people, and may change:
--   'ring_full'       the ring was full                       'ring_full_ends'  likewise to the last slot, so that ends were lost: upper_bound
--   'dead_slot'       a thread ended while it wrote an event  'late_slot'       an event was written after its slot had been given up
--   'table_full'      a table of the journal was full: names or stacks are missing
--   'tensors_full'    likewise that of tensors: what blocks of later, new ones were made for lacks the shape, or is missing
--   'graphs'          memory of CUDA graphs beyond what is followed     'ranges'  ranges beyond those that are followed
--   'uses'            what the device was given, for which the ring had no room: block_use says 'partial' of the blocks of that time
--   'births'          lines of what was born in backward, of nodes made more than 131072 nodes of their thread before
--   'phase_names'     phases beyond table phase's bound                 'no_memory'  vramscope got no memory
--   'held_log'        a reader kept the log beside the file from being folded in
--   'thinned'         no loss: left out on purpose, VRAMSCOPE_MAX_BYTES; counted in every total and peak
--   'not_covered'     calls may have gone past the recording, why says which
--   'journal_cut'     likewise all from there on: another program truncated the journal
CREATE TABLE loss(process INT, t_ns INT, events INT, code TEXT, why TEXT);
-- what is 'allocated' or 'reserved': where a framework's figures (theirs_bytes) and ours (ours_bytes) differ, once per change of the difference (equal again: ours = theirs).
-- 'late_allocated', 'late_reserved': what it held before the recording; from there on it is in ours.  'free_missed': an address was handed out again while
-- the allocation there, of ours_bytes, had not been seen freed.  The first 1000 of a kind; table counter has the full numbers
CREATE TABLE mismatch(process INT, seq INT, t_ns INT, device INT, what TEXT, ours_bytes INT, theirs_bytes INT);
-- how often, the name's value; device -1: belongs to none.  Names: 'framework_reports', 'framework_reports_in_mismatch', 'framework_allocations',
-- 'framework_frees', 'unknown_frees' (of what was never seen), 'missed_frees' (see mismatch), 'failed_allocations', 'failed_frees', 'out_of_memory'
-- and 'driver_out_of_memory...' (see oom), 'reclassified' (seen to be a caching allocator's later), 'lost_range_pops', 'not_tracked' (vramscope
-- got no memory to follow it)
CREATE TABLE counter(process INT, device INT, name TEXT, value INT, PRIMARY KEY(process, device, name)) WITHOUT ROWID;

-- ---- views ----

-- what vramscope takes for granted of others' code, and whether it is so in this process: name (shim/core/contracts.def), state 'proven' or 'broken', detail says whose
-- code it is, its version where that is known, what was found, and of a broken one what the recording lacks for it.  Without a row nothing relied on it
CREATE VIEW contract AS SELECT process, substr(key, 10) AS name, substr(value, 1, instr(value, ':') - 1) AS state, substr(value, instr(value, ':') + 2) AS detail
  FROM meta WHERE key BETWEEN 'contract.' AND 'contract.~';

-- everything that was recorded, in order; of folded stretches what still matters (table ev).  mate: seq of the event that this one ends, refers to or takes back (see ev.mate)
CREATE VIEW event AS SELECT k.process AS process, e.seq AS seq, e.t AS t_ns,
  (SELECT name FROM op WHERE id = e.op) AS op,
  CASE k.space WHEN 0 THEN 'none' ELSE (SELECT name FROM space WHERE id = k.space) END AS space,
  CASE k.api WHEN 0 THEN NULL ELSE (SELECT name FROM api WHERE id = k.api) END AS api,
  e.device AS device, k.context AS context, k.stream AS stream,
  CASE WHEN e.address < 0 THEN -e.address ELSE e.address * 512 END AS address,
  CASE WHEN e.size < 0 THEN -e.size ELSE e.size * 512 END * CASE WHEN e.op IN (23, 24) AND e.mate = 1 THEN -1 ELSE 1 END AS size_bytes,
  k.thread AS thread, CASE e.phase WHEN 0 THEN 'none' ELSE (SELECT name FROM phase WHERE id = e.phase) END AS phase, e.range AS range, e.stack AS stack, k.status AS status, e.mate AS mate,
  CASE WHEN e.framework < 0 THEN -e.framework ELSE e.framework * 512 END AS framework_bytes,
  CASE WHEN e.direct < 0 THEN -e.direct ELSE e.direct * 512 END AS direct_bytes,
  CASE WHEN (k.process, e.device) IN (SELECT process, device FROM peak WHERE kind = 'unknown_use' AND peak_bytes > 0) THEN NULL ELSE
    CASE WHEN e.framework < 0 THEN -e.framework ELSE e.framework * 512 END + CASE WHEN e.direct < 0 THEN -e.direct ELSE e.direct * 512 END END AS allocated_bytes,
  CASE WHEN e.reserved >= 0 THEN e.reserved * 2097152 WHEN ~e.reserved & 1 THEN ~e.reserved >> 1
    ELSE (~e.reserved >> 1) * 2097152 + CASE WHEN e.direct < 0 THEN -e.direct ELSE e.direct * 512 END END AS reserved_bytes
  FROM ev e JOIN kind k ON k.id = e.kind;

-- the arenas, as of the last sample of each: its columns (t_ns number mallocs frees hits view_hits driver_calls created released aliased
-- unmapped order_calls follows settles free_waits evicted lost lost_blocks blocks lanes views mappings peak_mappings granule_bytes
-- allocated_bytes reserved_bytes idle_bytes deferred_bytes peak_allocated_bytes peak_reserved_bytes at_peak_reserved_bytes
-- at_peak_idle_bytes at_peak_deferred_bytes), and
--   requests                   mallocs and frees together
--   calls_per_thousand             driver_calls per 1000 of these, over the run
--   last_third_calls_per_thousand  the same from the first sample at two thirds of the requests on; NULL where there is none before the last
CREATE VIEW arena AS SELECT z.*, z.mallocs + z.frees AS requests,
  1000.0 * z.driver_calls / (z.mallocs + z.frees) AS calls_per_thousand,
  1000.0 * (z.driver_calls - a.driver_calls) / (z.mallocs + z.frees - a.mallocs - a.frees) AS last_third_calls_per_thousand
  FROM arena_sample z JOIN arena_sample a ON a.rowid = (SELECT min(rowid) FROM arena_sample b
    WHERE b.process = z.process AND b.device = z.device AND b.number = z.number AND 3 * (b.mallocs + b.frees) >= 2 * (z.mallocs + z.frees))
  WHERE z.rowid IN (SELECT max(rowid) FROM arena_sample GROUP BY process, device, number);

-- where memory was away: for each device and each of the kinds 'allocated' and 'reserved' of table peak (with its peak_bytes) how much it was then (away_bytes), and the most at any
-- time (most_away_bytes)
CREATE VIEW away_peak AS SELECT p.process AS process, p.device AS device, p.kind AS kind, ifnull(p.peak_bytes, p.known_bytes) AS peak_bytes, p.t_ns AS t_ns,
  ifnull((SELECT a.away_bytes FROM away a WHERE a.device = p.device AND a.seq > (p.process - 1) << 40 AND a.seq <= p.seq ORDER BY a.seq DESC LIMIT 1), 0) AS away_bytes,
  m.most AS most_away_bytes
  FROM (SELECT (seq >> 40) + 1 AS process, device, max(away_bytes) AS most FROM away GROUP BY (seq >> 40) + 1, device) m
  JOIN peak p ON p.process = m.process AND p.device = m.device AND p.kind IN ('allocated', 'reserved');

-- the curve: the device's totals, and the phase, after each event that could change them.  Of a folded stretch, for each device and
-- phase: the greatest and the least allocated, and what its last event left, each at its moment (so not all are in order).
-- allocated_bytes NULL: unknown, see peak
CREATE VIEW timeline AS SELECT (e.seq >> 40) + 1 AS process, e.t AS t_ns, e.device AS device,
  CASE WHEN ((e.seq >> 40) + 1, e.device) IN (SELECT process, device FROM peak WHERE kind = 'unknown_use' AND peak_bytes > 0) THEN NULL ELSE
    CASE WHEN e.framework < 0 THEN -e.framework ELSE e.framework * 512 END + CASE WHEN e.direct < 0 THEN -e.direct ELSE e.direct * 512 END END AS allocated_bytes,
  CASE WHEN e.reserved >= 0 THEN e.reserved * 2097152 WHEN ~e.reserved & 1 THEN ~e.reserved >> 1
    ELSE (~e.reserved >> 1) * 2097152 + CASE WHEN e.direct < 0 THEN -e.direct ELSE e.direct * 512 END END AS reserved_bytes,
  (SELECT name FROM phase WHERE id = e.phase) AS phase
  FROM ev e WHERE e.device >= 0 AND (e.op < 30 OR e.op >= 50)
  UNION ALL SELECT (first_seq >> 40) + 1, max_allocated_t, device, CASE WHEN ((first_seq >> 40) + 1, device) IN (SELECT process, device FROM peak WHERE kind = 'unknown_use' AND peak_bytes > 0) THEN NULL ELSE max_allocated END, reserved_at_max,
    (SELECT name FROM phase WHERE id = zone.phase) FROM zone WHERE stretch IS NOT NULL AND device >= 0
  UNION ALL SELECT (first_seq >> 40) + 1, min_allocated_t, device, CASE WHEN ((first_seq >> 40) + 1, device) IN (SELECT process, device FROM peak WHERE kind = 'unknown_use' AND peak_bytes > 0) THEN NULL ELSE min_allocated END, reserved_at_min,
    (SELECT name FROM phase WHERE id = zone.phase) FROM zone WHERE stretch IS NOT NULL AND device >= 0
  UNION ALL SELECT (first_seq >> 40) + 1, t_last, device, CASE WHEN ((first_seq >> 40) + 1, device) IN (SELECT process, device FROM peak WHERE kind = 'unknown_use' AND peak_bytes > 0) THEN NULL ELSE last_framework + last_direct END, last_reserved,
    (SELECT name FROM phase WHERE id = zone.phase) FROM zone WHERE stretch IS NOT NULL AND device >= 0;

-- what was folded (table stretch): from from_ns to to_ns, first_step to last_step the training iterations that were under way, how many
-- stretches it was, and how many events, ranges, steps that ended and samples there were.  Empty: everything that was recorded has its row
CREATE VIEW folded AS SELECT (s.first_seq >> 40) + 1 AS process, s.first_seq AS stretch, s.t_first AS from_ns, s.t_last AS to_ns, s.first_step AS first_step, s.last_step AS last_step,
  s.folded AS stretches, s.last_seq - s.first_seq + 1 AS events, s.ranges AS ranges, s.steps AS steps, s.samples AS samples
  FROM stretch s WHERE s.folded > 0;

-- the extremes of a folded stretch (folded.stretch) for each device and phase of its events (allocated NULL: unknown, see peak): max_allocated_bytes, first reached at
-- max_allocated_ns, min_allocated_bytes at min_allocated_ns, max_reserved_bytes at max_reserved_ns, min_reserved_bytes at
-- min_reserved_ns; zone: its row of table zone, for view zone_held
CREATE VIEW folded_phase AS SELECT (z.first_seq >> 40) + 1 AS process, z.stretch AS stretch, z.device AS device, (SELECT name FROM phase WHERE id = z.phase) AS phase, z.events AS events,
  CASE WHEN ((z.first_seq >> 40) + 1, z.device) IN (SELECT process, device FROM peak WHERE kind = 'unknown_use' AND peak_bytes > 0) THEN NULL ELSE z.max_allocated END AS max_allocated_bytes, z.max_allocated_t AS max_allocated_ns,
  CASE WHEN ((z.first_seq >> 40) + 1, z.device) IN (SELECT process, device FROM peak WHERE kind = 'unknown_use' AND peak_bytes > 0) THEN NULL ELSE z.min_allocated END AS min_allocated_bytes, z.min_allocated_t AS min_allocated_ns,
  z.max_reserved AS max_reserved_bytes, z.max_reserved_t AS max_reserved_ns, z.min_reserved AS min_reserved_bytes, z.min_reserved_t AS min_reserved_ns,
  z.first_seq AS zone FROM zone z WHERE z.stretch IS NOT NULL;

-- who held the greatest allocated of a zone (zone.first_seq; stretch: folded.stretch, NULL in full): by the phase of birth ('other phases': the rest), a framework's blocks and
-- direct allocations.  What is missing to the sum was held before the recording
CREATE VIEW zone_held AS SELECT (z.first_seq >> 40) + 1 AS process, z.first_seq AS zone, z.stretch AS stretch, z.device AS device,
  CASE WHEN json_extract(h.value, '$[0]') < 0 THEN 'other phases' ELSE (SELECT name FROM phase WHERE id = json_extract(h.value, '$[0]')) END AS phase,
  json_extract(h.value, '$[1]') AS framework_bytes, json_extract(h.value, '$[2]') AS direct_bytes
  FROM zone z CROSS JOIN json_each(z.held) h;

-- the greatest allocated and reserved of each training iteration: from the ranges that began in it.  Of a folded
-- stretch one row for all of its iterations, first_step to last_step, with the greatest among them
CREATE VIEW step_peak AS
  SELECT r.process AS process, r.step AS first_step, r.step AS last_step, p.device AS device, max(p.allocated_bytes) AS allocated_bytes,
    max(p.reserved_bytes) AS reserved_bytes FROM rng r JOIN range_peak p ON p.range = r.id
    WHERE NOT EXISTS (SELECT 1 FROM stretch s WHERE s.folded > 0 AND (s.first_seq >> 40) + 1 = r.process AND r.step BETWEEN s.first_step AND s.last_step) GROUP BY r.process, r.step, p.device
  UNION ALL
  SELECT (s.first_seq >> 40) + 1, s.first_step, s.last_step, f.device, max(f.allocated_bytes), max(f.reserved_bytes)
    FROM stretch s JOIN range_fold f ON f.stretch = s.first_seq WHERE s.folded > 0 AND f.device >= 0 GROUP BY s.first_seq, f.device;

-- rng with names, of what is not folded: id is rng.id; phase 'none' where the range names no phase; name and NVTX domain as the program gave them; source
-- 'marker', 'nvtx' or 'automatic'; parent, step as in rng; t_push_ns, t_pop_ns (NULL: open, or not seen)
CREATE VIEW range AS SELECT r.id AS id, r.process AS process, (SELECT name FROM phase WHERE id = r.phase) AS phase,
  (SELECT text FROM string WHERE id = r.name) AS name, (SELECT text FROM string WHERE id = r.domain) AS domain,
  CASE r.source WHEN 1 THEN 'marker' WHEN 2 THEN 'nvtx' WHEN 3 THEN 'automatic' END AS source,
  r.parent AS parent, r.thread AS thread, r.step AS step, r.t_push AS t_push_ns, r.t_pop AS t_pop_ns FROM rng r;

-- per phase: how many ranges it had, the seconds they took, open ones up to the last event (NULL unknown), the greatest allocated and reserved while one was open,
-- allocated at the end of the last (end_allocated_bytes), and the number of events.  Read it first
CREATE VIEW phase_peak AS SELECT s.process AS process, s.device AS device,
  (SELECT name FROM phase WHERE id = s.phase) AS phase, s.ranges AS ranges, (s.ns + s.open_ns) / 1e9 AS seconds,
  s.allocated_bytes AS allocated_bytes, s.reserved_bytes AS reserved_bytes, s.end_allocated_bytes AS end_allocated_bytes, s.events AS events FROM phase_stat s;

-- what has not ended: table live (with its units) brought up to the last written row.  t: when it was allocated; size x512
CREATE VIEW open_allocation AS
  SELECT (alloc_seq >> 40) + 1 AS process, alloc_seq, op, device, space, address, size, t, phase, range, stack, managed, tensor FROM live
   WHERE alloc_seq NOT IN (SELECT f.mate FROM mark m CROSS JOIN ev f ON f.seq > m.live_seq AND f.seq < m.id << 40
                           WHERE f.op IN (2, 6, 21, 51, 52, 53) AND f.mate > 0 AND (f.op <> 6 OR f.size <> 0) AND f.seq NOT IN (SELECT seq FROM amend WHERE op = 3))
  UNION ALL
  SELECT m.id, e.seq, e.op, e.device, k.space, e.address, e.size, e.t, e.phase, e.range, e.stack,
         k.managed OR e.seq IN (SELECT seq FROM amend WHERE op = 50), k.tensor
    FROM mark m CROSS JOIN ev e ON e.seq > m.live_seq AND e.seq < m.id << 40 CROSS JOIN kind k ON k.id = e.kind
   WHERE e.op IN (1, 4, 20) AND k.status = 0
     AND e.seq NOT IN (SELECT f.mate FROM mark n CROSS JOIN ev f ON f.seq > n.live_seq AND f.seq < n.id << 40
                       WHERE f.op IN (2, 6, 21, 51, 52, 53) AND f.mate > 0 AND (f.op <> 6 OR f.size <> 0) AND f.seq NOT IN (SELECT seq FROM amend WHERE op = 3));

-- every allocation with its end (free_seq NULL: alive).  op: 'block_alloc' a framework's block, 'alloc' driver memory, 'phys_create' physical
-- memory.  Of what was folded those have a row that live at the end, or whose end was not folded
--
-- (Names that most rows do not have, such as a space of a framework's block, are asked for only where there is one: a full
-- scan of ten million events is mostly these look-ups.)
CREATE VIEW allocation AS
  SELECT (a.seq >> 40) + 1 AS process, CASE a.op WHEN 20 THEN 'block_alloc' WHEN 1 THEN 'alloc' ELSE 'phys_create' END AS op,
    a.seq AS alloc_seq, f.seq AS free_seq, a.device AS device,
    CASE k.space WHEN 0 THEN 'none' WHEN 1 THEN 'device' ELSE (SELECT name FROM space WHERE id = k.space) END AS space,
    CASE WHEN a.address < 0 THEN -a.address ELSE a.address * 512 END AS address,
    CASE WHEN a.size < 0 THEN -a.size ELSE a.size * 512 END AS size_bytes,
    a.t AS t_alloc_ns, f.t AS t_free_ns,
    CASE a.phase WHEN 0 THEN 'none' ELSE (SELECT name FROM phase WHERE id = a.phase) END AS phase, a.range AS range, a.stack AS stack,
    CASE a.stack WHEN 0 THEN NULL ELSE (SELECT layer FROM stack_text WHERE id = a.stack) END AS layer,
    CASE a.stack WHEN 0 THEN NULL ELSE (SELECT text FROM string WHERE id = (SELECT owner FROM stack WHERE id = a.stack)) END AS owner,
    CASE a.stack WHEN 0 THEN NULL ELSE (SELECT line FROM stack_text WHERE id = a.stack) END AS line,
    CASE a.op WHEN 20 THEN 0 ELSE k.managed OR a.seq IN (SELECT seq FROM amend WHERE op = 50) END AS managed,
    coalesce((SELECT f.role FROM framework_says f WHERE f.alloc_seq = a.seq), (SELECT b.role FROM access_role b WHERE b.alloc_seq = a.seq), (SELECT i.role FROM life_role i WHERE i.alloc_seq = a.seq)) AS role,
    t.made_for AS made_for, CASE WHEN t.sized THEN CASE WHEN a.size < 0 THEN -a.size ELSE a.size * 512 END ELSE t.request_bytes END AS request_bytes, t.element_type AS element_type, t.shape AS shape
  FROM ev f CROSS JOIN ev a ON a.seq = f.mate CROSS JOIN kind k ON k.id = a.kind LEFT JOIN tensor_text t ON t.id = k.tensor
  WHERE f.op IN (2, 6, 21, 51, 52, 53) AND f.mate > 0 AND (f.op <> 6 OR f.size <> 0) AND f.seq NOT IN (SELECT seq FROM amend WHERE op = 3)
  UNION ALL
  SELECT o.process, CASE o.op WHEN 20 THEN 'block_alloc' WHEN 1 THEN 'alloc' ELSE 'phys_create' END, o.alloc_seq, CAST(NULL AS INT), o.device,
    CASE o.space WHEN 0 THEN 'none' WHEN 1 THEN 'device' ELSE (SELECT name FROM space WHERE id = o.space) END,
    CASE WHEN o.address < 0 THEN -o.address ELSE o.address * 512 END,
    CASE WHEN o.size < 0 THEN -o.size ELSE o.size * 512 END,
    o.t, CAST(NULL AS INT), CASE o.phase WHEN 0 THEN 'none' ELSE (SELECT name FROM phase WHERE id = o.phase) END, o.range, o.stack,
    CASE o.stack WHEN 0 THEN NULL ELSE (SELECT layer FROM stack_text WHERE id = o.stack) END,
    CASE o.stack WHEN 0 THEN NULL ELSE (SELECT text FROM string WHERE id = (SELECT owner FROM stack WHERE id = o.stack)) END,
    CASE o.stack WHEN 0 THEN NULL ELSE (SELECT line FROM stack_text WHERE id = o.stack) END,
    CASE o.op WHEN 20 THEN 0 ELSE o.managed END,
    coalesce((SELECT f.role FROM framework_says f WHERE f.alloc_seq = o.alloc_seq), (SELECT b.role FROM access_role b WHERE b.alloc_seq = o.alloc_seq), (SELECT i.role FROM life_role i WHERE i.alloc_seq = o.alloc_seq)),
    t.made_for, CASE WHEN t.sized THEN CASE WHEN o.size < 0 THEN -o.size ELSE o.size * 512 END ELSE t.request_bytes END, t.element_type, t.shape
  FROM open_allocation o LEFT JOIN tensor_text t ON t.id = o.tensor;

-- when the device was given each block that was followed (VRAMSCOPE_ACCESS; view access_times): the allocation, and of its uses by kernels, copies, fills
-- and graphs the first and the last: when (first_use_ns, last_use_ns; NULL: none), in which phase (first_phase, last_phase) and training iteration
-- (first_step, last_step), and by which kernel or driver function (first_by, last_by; NULL where it has no name).  phase and step are those of the
-- allocation, end_step that of its free; uses, steps: how many uses, in how many iterations; used_in: the phases of all uses; kinds as in access_kind;
-- idle_ns: the longest time between two uses that followed each other (NULL: below a millisecond), up to idle_end_ns.  unseen: NULL, or
-- why the device may have used it without a use here, so that it is not known to have been idle: 'stored' its address was copied into device
-- memory, 'reachable' work that finds addresses in memory (communication, batched and grouped products, what nobody can look into) ran while it lived,
-- or the processor uses it too, 'partial' it was not followed all its life.  Where it is NULL, there was no use before first_use_ns, none after last_use_ns,
-- and none in between for idle_ns, but for words that a stream writes or waits for (cuStreamWriteValue) and textures, which are not followed; what a kernel is given need not be an address, so there may have been less use than this
CREATE VIEW block_use AS
  SELECT (a.alloc_seq >> 40) + 1 AS process, a.alloc_seq AS alloc_seq, e.device AS device,
    CASE WHEN e.size < 0 THEN -e.size ELSE e.size * 512 END AS size_bytes, (SELECT name FROM phase WHERE id = e.phase) AS phase, e.stack AS stack,
    e.t AS t_alloc_ns, e.t + a.first AS first_use_ns, e.t + a.last AS last_use_ns,
    a.born_step AS step, CASE WHEN a.uses > 0 THEN a.born_step + ifnull(a.first_step, 0) END AS first_step,
    CASE WHEN a.uses > 0 THEN a.born_step + ifnull(a.last_step, 0) END AS last_step, a.born_step + a.end_step AS end_step,
    CASE WHEN a.uses = 0 THEN 0 ELSE ifnull(a.steps, 1) END AS steps, a.uses AS uses,
    (SELECT text FROM string WHERE id = k.first_by) AS first_by, (SELECT text FROM string WHERE id = k.last_by) AS last_by,
    CASE WHEN a.uses > 0 THEN (SELECT name FROM phase WHERE id = k.first_phase) END AS first_phase,
    CASE WHEN a.uses > 0 THEN (SELECT name FROM phase WHERE id = k.last_phase) END AS last_phase,
    ltrim(CASE WHEN k.phases & 1 THEN ',none' ELSE '' END || CASE WHEN k.phases & 2 THEN ',forward' ELSE '' END || CASE WHEN k.phases & 4 THEN ',logits' ELSE '' END ||
      CASE WHEN k.phases & 8 THEN ',backward' ELSE '' END || CASE WHEN k.phases & 16 THEN ',optimizer' ELSE '' END || CASE WHEN k.phases & 32 THEN ',evaluation' ELSE '' END ||
      CASE WHEN k.phases & 64 THEN ',other' ELSE '' END, ',') AS used_in,
    a.gap AS idle_ns, e.t + a.gap_end AS idle_end_ns,
    CASE WHEN k.kinds & 512 THEN 'partial' WHEN k.kinds & 128 THEN 'stored' WHEN k.kinds & 256 THEN 'reachable' END AS unseen,
    k.kinds AS kinds, e.op <> 20 AND ((SELECT managed FROM kind WHERE id = e.kind) OR a.alloc_seq IN (SELECT seq FROM amend WHERE op = 50)) AS managed
  FROM access_times a CROSS JOIN access_kind k ON k.id = a.kind LEFT JOIN ev e ON e.seq = a.alloc_seq;

-- what each block that was followed is for, as its accesses say alone: by its life over the training iterations and by the phases in which the device was given
-- it (view block_use), or by the library that asked the driver for it.  role is a word of view role_word,
-- 'not told' where no rule fits; rule is the one that decided, in words.  The first rule that fits decides, in the order that they stand in here.  What was asked for without a tensor is no parameter, gradient or state: a library's workspace is used
-- in all phases.  Phases are those of the recording
CREATE VIEW access_role AS
  SELECT d.process AS process, d.alloc_seq AS alloc_seq,
    CASE d.rule WHEN 4 THEN 'communication' WHEN 15 THEN 'workspace' WHEN 16 THEN 'communication' WHEN 5 THEN 'gradient' WHEN 6 THEN 'optimizer state' WHEN 7 THEN 'parameter' WHEN 17 THEN 'optimizer state' WHEN 18 THEN 'optimizer state' WHEN 8 THEN 'input' WHEN 9 THEN 'output' WHEN 10 THEN 'activation' WHEN 20 THEN 'recomputed activation' WHEN 11 THEN 'temporary' WHEN 19 THEN 'temporary' ELSE 'not told' END AS role,
    CASE d.rule WHEN 0 THEN 'a caching allocator carves blocks from it'
      WHEN 1 THEN 'it was not followed all its life'
      WHEN 2 THEN 'no use of it was seen, and the device may have reached it all the same'
      WHEN 3 THEN 'the device was never given it'
      WHEN 4 THEN 'a kernel of a communication library was given it'
      WHEN 5 THEN 'made in backward, used in backward and by the optimizer'
      WHEN 6 THEN 'used by the optimizer alone, made in none of the phases before it, and kept beyond the iteration'
      WHEN 17 THEN 'made in the optimizer, kept over iterations, used by it, and neither in backward nor in evaluation'
      WHEN 18 THEN 'made in the optimizer, kept over iterations, used by it, not in forward, and in backward by addresses alone that may have been left in a structure'
      WHEN 7 THEN 'kept over iterations, used in forward and by the optimizer, and made in neither of them nor in backward'
      WHEN 8 THEN 'first a copy from the host wrote it, forward used it, and it was not kept over iterations'
      WHEN 9 THEN 'made in logits, used there and in backward'
      WHEN 10 THEN 'made in forward or logits, used in backward, and not kept over iterations'
      WHEN 20 THEN 'made again in backward, by a layer''s call inside of an autograd node, and used after the next block of another node'
      WHEN 11 THEN 'used in one phase alone, and gone within the iteration'
      WHEN 19 THEN 'used in one phase alone, and not after the range that it was made in; no training iteration is known'
      WHEN 12 THEN 'kept over iterations, used in forward, and never by an optimizer: a buffer, a frozen parameter, an input that stays, a workspace or a cache'
      WHEN 13 THEN 'its uses were in no phase'
      WHEN 15 THEN 'a library of mathematics (cuBLAS, cuDNN, cuFFT, cuSOLVER, cuSPARSE, cuTENSOR) asked the driver for it'
      WHEN 16 THEN 'a communication library (NCCL, NVSHMEM) asked the driver for it' ELSE 'no rule fits' END AS rule
  FROM (SELECT f.process AS process, f.alloc_seq AS alloc_seq, CASE WHEN f.managed THEN 0
    WHEN f.asked LIKE 'libcublas%' OR f.asked LIKE 'libcudnn%' OR f.asked LIKE 'libcufft%' OR f.asked LIKE 'libcusolver%' OR f.asked LIKE 'libcusparse%'
      OR f.asked LIKE 'libcutensor%' THEN 15
    WHEN f.asked LIKE 'libnccl%' OR f.asked LIKE 'libnvshmem%' THEN 16
    WHEN f.kinds & 512 THEN 1
    WHEN f.uses = 0 AND f.kinds & 384 THEN 2
    WHEN f.uses = 0 THEN 3
    WHEN f.communicates THEN 4
    WHEN NOT f.raw AND f.born = 3 AND f.phases & 8 AND f.phases & 16 THEN 5
    WHEN NOT f.raw AND f.phases = 16 AND f.kept AND f.born NOT IN (1, 2, 3, 5) THEN 6
    WHEN NOT f.raw AND f.born = 4 AND f.long AND f.phases & 16 AND NOT f.phases & 40 THEN 17
    WHEN NOT f.raw AND f.born = 4 AND f.long AND f.sure & 16 AND NOT f.sure & 8 AND NOT f.phases & 38 THEN 18
    WHEN NOT f.raw AND f.born NOT IN (1, 2, 3, 4) AND f.long AND f.phases & 38 AND f.phases & 16 THEN 7
    WHEN f.copied AND f.phases & 38 AND NOT f.phases & 16 AND NOT f.long THEN 8
    WHEN f.born = 2 AND f.phases & 4 AND f.phases & 8 AND NOT f.long THEN 9
    WHEN f.born IN (1, 2) AND f.phases & 8 AND NOT f.phases & 16 AND NOT f.long THEN 10
    WHEN f.again AND NOT f.long AND f.phases = 8 AND f.t + f.last > (SELECT n.t FROM ev n CROSS JOIN stack s ON s.id = n.stack WHERE n.seq > f.alloc_seq AND n.op = 20 AND s.node IS NOT NULL AND NOT s.again
      ORDER BY n.seq LIMIT 1) THEN 20
    WHEN NOT f.kept AND f.phases IN (2, 4, 8, 16, 32) AND f.stepped THEN 11
    WHEN NOT f.kept AND f.phases IN (2, 4, 8, 16, 32) AND f.within THEN 19
    WHEN f.long AND f.phases & 38 AND NOT f.phases & 16 THEN 12
    WHEN f.phases & 1 AND NOT f.phases & 126 THEN 13 ELSE 14 END AS rule
    FROM (SELECT (a.alloc_seq >> 40) + 1 AS process, a.alloc_seq AS alloc_seq, e.phase AS born, a.uses AS uses, k.phases AS phases, k.sure_phases AS sure, k.kinds AS kinds, e.t AS t, a.last AS last,
        CASE WHEN e.phase = 3 AND e.op = 20 THEN ifnull((SELECT again FROM stack WHERE id = e.stack), 0) ELSE 0 END AS again,
        e.op <> 20 AND ((SELECT managed FROM kind WHERE id = e.kind) OR a.alloc_seq IN (SELECT seq FROM amend WHERE op = 50)) AS managed,
        CASE e.op WHEN 1 THEN (SELECT text FROM string WHERE id = (SELECT owner FROM stack WHERE id = e.stack)) END AS asked,
        a.end_step IS NULL OR a.end_step > 0 AS kept, a.end_step IS NULL OR a.end_step > 1 AS long,
        k.kinds & 24 = 24 AND (SELECT text FROM string WHERE id = k.first_by) LIKE 'cuMemcpy%' AS copied,
        ifnull((SELECT text FROM string WHERE id = k.first_by) LIKE '%nccl%' OR (SELECT text FROM string WHERE id = k.last_by) LIKE '%nccl%', 0) AS communicates,
        EXISTS (SELECT 1 FROM step WHERE seq > (a.alloc_seq >> 40) << 40 AND seq < ((a.alloc_seq >> 40) + 1) << 40) AS stepped,
        EXISTS (SELECT 1 FROM tensor WHERE id = (SELECT tensor FROM kind WHERE id = e.kind) AND tensor.kind = 3) AS raw, e.t + a.last <= (SELECT t_pop FROM rng WHERE id = e.range) AS within
      FROM access_times a CROSS JOIN access_kind k ON k.id = a.kind LEFT JOIN ev e ON e.seq = a.alloc_seq) f) d;

-- the words that a block's role can be (`vramscope explain WORD` says what each means); before: the word in its place in files of 0.2.0's development.
-- before goes with the next version
CREATE VIEW role_word AS
  SELECT column1 AS role, column2 AS before FROM (VALUES ('not told', 'unknown'), ('parameter', 'parameter'), ('gradient', 'gradient'),
    ('optimizer state', 'optimizer state'), ('buffer', 'buffer'), ('activation', 'activation'), ('recomputed activation', 'activation'), ('output', 'logits'),
    ('input', 'input'), ('temporary', 'temporary'), ('workspace', 'workspace'), ('communication', 'communication buffer'), ('cache', 'unknown'));

-- what PyTorch says that a block is for (table framework_role), in words: role, and rule, which says that PyTorch said it
CREATE VIEW framework_says AS
  SELECT (f.alloc_seq >> 40) + 1 AS process, f.alloc_seq AS alloc_seq,
    CASE f.role WHEN 1 THEN 'parameter' WHEN 2 THEN 'gradient' WHEN 3 THEN 'optimizer state' ELSE 'buffer' END AS role,
    CASE f.role WHEN 1 THEN 'PyTorch says so: a parameter of a model or of an optimizer' WHEN 2 THEN 'PyTorch says so: the gradient of a parameter'
      WHEN 3 THEN 'PyTorch says so: in the state of an optimizer' ELSE 'PyTorch says so: a buffer of a model' END AS rule
  FROM framework_role f WHERE f.role < 16;

-- (Of a recording the commands find such roles by the lives of its blocks, where their uses were not followed; they are in no file.)
-- what a block of an imported snapshot is for, as its call stacks (of its allocation and of its free) and its life show, which is no word of PyTorch's (table framework_role):
-- role and rule as in access_role.  Nothing where no block of the snapshot has a role
CREATE VIEW life_role AS
  SELECT (f.alloc_seq >> 40) + 1 AS process, f.alloc_seq AS alloc_seq,
    CASE WHEN f.role IN (18, 19, 32, 36) THEN 'optimizer state' WHEN f.role IN (20, 21, 22, 29, 35, 47, 49) THEN 'gradient' WHEN f.role IN (23, 24, 34) THEN 'parameter'
      WHEN f.role = 25 THEN 'buffer' WHEN f.role IN (26, 30, 37) THEN 'activation' WHEN f.role IN (48, 53, 54) THEN 'recomputed activation' WHEN f.role IN (27, 31, 38) THEN 'temporary' WHEN f.role IN (28, 41, 45, 51) THEN 'workspace'
      WHEN f.role IN (39, 46, 50) THEN 'output' WHEN f.role = 40 THEN 'input' WHEN f.role = 55 THEN 'cache' WHEN f.role IN (42, 52) THEN 'communication' ELSE 'not told' END AS role,
    CASE WHEN f.role BETWEEN 34 AND 44 OR f.role = 53 THEN 'as the recording that was exported had it, by the uses of its blocks' ELSE CASE f.role WHEN 17 THEN 'by stack and life: it was there before the trace began, and nothing shows for what'
      WHEN 18 THEN 'by stack and life: made where PyTorch''s optimizers make their state (_init_group), and kept'
      WHEN 19 THEN 'by stack and life: made in an optimizer''s step, and kept beyond it'
      WHEN 20 THEN 'by stack and life: made in backward (or before the trace), and freed by zero_grad'
      WHEN 21 THEN 'by stack and life: made in backward, alive all through the optimizer''s step, and gone before backward came again'
      WHEN 22 THEN 'by stack and life: made in backward and kept, as many of its size as optimizer states or parameters allow'
      WHEN 23 THEN 'by stack and life: there before the first step, and kept: as many of its size as there are gradients'
      WHEN 24 THEN 'by stack and life: a line of torch.nn that handles parameters asked for it, and it was kept'
      WHEN 25 THEN 'by stack and life: the line of Module._apply that moves buffers asked for it, and it was kept'
      WHEN 26 THEN 'by stack and life: made in forward, and freed while backward ran'
      WHEN 27 THEN 'by stack and life: made and freed in one stretch of a phase'
      WHEN 28 THEN 'by stack and life: a library''s handle got it for its workspace'
      WHEN 29 THEN 'by stack and life: cut off by the end of the trace, and a gradient whenever it came before'
      WHEN 30 THEN 'by stack and life: cut off by the end of the trace, and an activation whenever it came before'
      WHEN 31 THEN 'by stack and life: cut off by the end of the trace, and a temporary whenever it came before'
      WHEN 32 THEN 'by stack and life: there before the trace, and freed in an optimizer''s step, which made others of its size and kept them'
      WHEN 33 THEN 'by stack and life: there before the trace and kept, more of its size than gradients: parameters, optimizer states and others are not told apart'
      WHEN 45 THEN 'by life: asked for without a tensor, and kept: a library''s workspace'
      WHEN 46 THEN 'by life: made in logits, and freed while backward ran'
      WHEN 47 THEN 'by life: made in backward, alive in the optimizer''s step, and gone before backward came again'
      WHEN 48 THEN 'by life: made again in backward, by a module''s call inside of it, and freed later in it'
      WHEN 49 THEN 'by life: cut off by the end or by a refused request, and a gradient whenever the same call stack made one before'
      WHEN 50 THEN 'by life: cut off by the end or by a refused request, and made in logits and freed in backward whenever the same call stack made one before'
      WHEN 51 THEN 'a library of mathematics (cuBLAS, cuDNN, cuFFT, cuSOLVER, cuSPARSE, cuTENSOR) asked the driver for it'
      WHEN 52 THEN 'a communication library (NCCL, NVSHMEM) asked the driver for it'
      WHEN 54 THEN 'by life: cut off by the end or by a refused request, and made again in backward whenever the same call stack made one before'
      WHEN 55 THEN 'by its line: the code that keeps keys and values from token to token made it (transformers/cache_utils.py), and not in training'
      ELSE 'by stack and life: no rule fits' END END AS rule
  FROM framework_role f WHERE f.role >= 16;

-- what each block is for (role): by_framework, what PyTorch says (view framework_says), where that is NULL by_access, what its accesses say (view
-- access_role; NULL: it was not followed), and of an imported snapshot's blocks what their stacks and lives show (view life_role).  rule: the one that decided, in words
CREATE VIEW block_role AS
  SELECT a.process AS process, a.alloc_seq AS alloc_seq, coalesce(f.role, a.role) AS role, coalesce(f.rule, a.rule) AS rule, f.role AS by_framework, a.role AS by_access
  FROM access_role a LEFT JOIN framework_says f ON f.alloc_seq = a.alloc_seq
  UNION ALL
  SELECT f.process, f.alloc_seq, f.role, f.rule, f.role, NULL FROM framework_says f WHERE NOT EXISTS (SELECT 1 FROM access a WHERE a.alloc_seq = f.alloc_seq)
  UNION ALL
  SELECT l.process, l.alloc_seq, l.role, l.rule, NULL, NULL FROM life_role l;

-- where a block that was followed lay unused, and is known to have (block_use.unseen is NULL), for a millisecond or more: kind 'never used' from its allocation
-- to its free (free_seq; NULL: it lives), 'early' from its allocation to its first use, 'late free' from its last use to its free (or the last event), 'idle' the longest time
-- between two uses; from from_ns to to_ns.  line, layer, role as in live_at_peak.  Uses are seen when they are enqueued
CREATE VIEW waste AS
  WITH ended(alloc_seq, seq, t) AS MATERIALIZED (SELECT mate, seq, t FROM ev
    WHERE op IN (2, 6, 21, 51, 52, 53) AND mate > 0 AND (op <> 6 OR size <> 0) AND seq NOT IN (SELECT seq FROM amend WHERE op = 3))
  SELECT w.process AS process, w.alloc_seq AS alloc_seq, w.device AS device, w.kind AS kind, w.size_bytes AS size_bytes, w.from_ns AS from_ns, w.to_ns AS to_ns,
    w.free_seq AS free_seq, w.stack AS stack,
    (SELECT line FROM stack_text WHERE id = w.stack) AS line, (SELECT layer FROM stack_text WHERE id = w.stack) AS layer,
    coalesce((SELECT f.role FROM framework_says f WHERE f.alloc_seq = w.alloc_seq), (SELECT b.role FROM access_role b WHERE b.alloc_seq = w.alloc_seq), (SELECT i.role FROM life_role i WHERE i.alloc_seq = w.alloc_seq)) AS role
  FROM (SELECT u.*, k.kind AS kind,
      CASE k.kind WHEN 'late free' THEN u.t + u.last WHEN 'idle' THEN u.t + u.gap_end - u.gap ELSE u.t END AS from_ns,
      CASE k.kind WHEN 'early' THEN u.t + u.first WHEN 'idle' THEN u.t + u.gap_end ELSE u.ends END AS to_ns
    FROM (SELECT (x.alloc_seq >> 40) + 1 AS process, x.alloc_seq AS alloc_seq, f.seq AS free_seq, e.device AS device,
        CASE WHEN e.size < 0 THEN -e.size ELSE e.size * 512 END AS size_bytes, e.stack AS stack, e.t AS t,
        ifnull(f.t, (SELECT max(last.t) FROM mark m CROSS JOIN ev last ON last.seq = m.upto_seq WHERE m.id = (x.alloc_seq >> 40) + 1)) AS ends,
        x.first AS first, x.last AS last, x.gap AS gap, x.gap_end AS gap_end
      FROM access_times x CROSS JOIN access_kind c ON c.id = x.kind CROSS JOIN ev e ON e.seq = x.alloc_seq LEFT JOIN ended f ON f.alloc_seq = x.alloc_seq
      WHERE c.kinds & 896 = 0 AND (e.op = 20 OR NOT ((SELECT managed FROM kind WHERE id = e.kind) OR e.seq IN (SELECT seq FROM amend WHERE op = 50)))) u
    CROSS JOIN (SELECT 'never used' AS kind UNION ALL SELECT 'early' UNION ALL SELECT 'late free' UNION ALL SELECT 'idle') k
    WHERE CASE k.kind WHEN 'never used' THEN u.first IS NULL WHEN 'idle' THEN u.gap IS NOT NULL ELSE u.first IS NOT NULL END) w
  WHERE w.to_ns - w.from_ns >= 1000000;

-- where at most a block lay unused: as in waste, but that a use counts only if it is sure (view access_times), and that 'late free' and 'never used' may be of any
-- length (from_ns to to_ns); a block whose uses are none of them sure counts in each of the three kinds, from its allocation to its free.  What a sum over all kinds may have of a row is
-- from all_from_ns to all_to_ns, so that no time of a block counts twice
CREATE VIEW waste_at_most AS
  WITH ended(alloc_seq, seq, t) AS MATERIALIZED (SELECT mate, seq, t FROM ev
    WHERE op IN (2, 6, 21, 51, 52, 53) AND mate > 0 AND (op <> 6 OR size <> 0) AND seq NOT IN (SELECT seq FROM amend WHERE op = 3))
  SELECT w.process AS process, w.alloc_seq AS alloc_seq, w.device AS device, w.kind AS kind, w.size_bytes AS size_bytes, w.from_ns AS from_ns, w.to_ns AS to_ns,
    CASE w.kind WHEN 'idle' THEN max(w.from_ns, w.t + w.sure_first) WHEN 'never used' THEN w.from_ns ELSE CASE WHEN w.sure_first IS NOT NULL THEN w.from_ns END END AS all_from_ns,
    CASE w.kind WHEN 'idle' THEN min(w.to_ns, w.t + w.sure_last) WHEN 'never used' THEN w.to_ns ELSE CASE WHEN w.sure_first IS NOT NULL THEN w.to_ns END END AS all_to_ns,
    w.free_seq AS free_seq, w.stack AS stack
  FROM (SELECT u.*, k.kind AS kind,
      CASE k.kind WHEN 'late free' THEN u.t + ifnull(u.sure_last, 0) WHEN 'idle' THEN u.t + u.gap_end - u.gap ELSE u.t END AS from_ns,
      CASE k.kind WHEN 'early' THEN ifnull(u.t + u.sure_first, u.ends) WHEN 'idle' THEN u.t + u.gap_end ELSE u.ends END AS to_ns
    FROM (SELECT (x.alloc_seq >> 40) + 1 AS process, x.alloc_seq AS alloc_seq, f.seq AS free_seq, e.device AS device,
        CASE WHEN e.size < 0 THEN -e.size ELSE e.size * 512 END AS size_bytes, e.stack AS stack, e.t AS t,
        ifnull(f.t, (SELECT max(last.t) FROM mark m CROSS JOIN ev last ON last.seq = m.upto_seq WHERE m.id = (x.alloc_seq >> 40) + 1)) AS ends,
        x.first + ((x.last - x.first) * (x.sure >> 11) + 1023) / 1024 AS sure_first, x.last - ((x.last - x.first) * (x.sure & 2047) + 1023) / 1024 AS sure_last,
        x.first AS first, x.gap AS gap, x.gap_end AS gap_end
      FROM access_times x CROSS JOIN access_kind c ON c.id = x.kind CROSS JOIN ev e ON e.seq = x.alloc_seq LEFT JOIN ended f ON f.alloc_seq = x.alloc_seq
      WHERE c.kinds & 896 = 0 AND (e.op = 20 OR NOT ((SELECT managed FROM kind WHERE id = e.kind) OR e.seq IN (SELECT seq FROM amend WHERE op = 50)))) u
    CROSS JOIN (SELECT 'never used' AS kind UNION ALL SELECT 'early' UNION ALL SELECT 'late free' UNION ALL SELECT 'idle') k
    WHERE CASE k.kind WHEN 'never used' THEN u.sure_first IS NULL WHEN 'idle' THEN u.gap IS NOT NULL ELSE u.first IS NOT NULL END) w
  WHERE w.to_ns - w.from_ns >= CASE w.kind WHEN 'early' THEN 1000000 ELSE 1 END;

-- how low the peak of allocated (peak_bytes) could have been at the least (mended_bytes), had no block of device held its bytes while it lay unused as in waste: of each
-- kind of waste alone, and of 'all' together.  From the events themselves, so there is no row where some are folded.  A bound on that as far as
-- every use that was seen is one: see waste_at_most.  It says nothing of what mending takes
CREATE VIEW waste_bound AS
  SELECT s.process AS process, s.device AS device, s.kind AS kind, max(s.allocated) AS peak_bytes, max(s.allocated - s.wasted) AS mended_bytes
  FROM (SELECT c.process AS process, c.device AS device, c.kind AS kind,
      sum(c.allocated) OVER (PARTITION BY c.process, c.device, c.kind ORDER BY c.t, c.place, c.seq ROWS UNBOUNDED PRECEDING) AS allocated,
      sum(c.wasted) OVER (PARTITION BY c.process, c.device, c.kind ORDER BY c.t, c.place, c.seq ROWS UNBOUNDED PRECEDING) AS wasted
    FROM (SELECT e.process AS process, e.device AS device, k.kind AS kind, e.t AS t, 1 AS place, e.seq AS seq, 0 AS wasted,
          e.allocated - lag(e.allocated, 1, 0) OVER (PARTITION BY e.process, e.device, k.kind ORDER BY e.seq) AS allocated
        FROM (SELECT (seq >> 40) + 1 AS process, device, t, seq, CASE WHEN framework < 0 THEN -framework ELSE framework * 512 END +
              CASE WHEN direct < 0 THEN -direct ELSE direct * 512 END AS allocated FROM ev WHERE device >= 0) e
        CROSS JOIN (SELECT 'all' AS kind UNION ALL SELECT 'never used' UNION ALL SELECT 'early' UNION ALL SELECT 'late free' UNION ALL SELECT 'idle') k
      UNION ALL
      SELECT w.process, w.device, k.kind, w.from_ns, 0, w.alloc_seq, w.size_bytes, 0 FROM waste w CROSS JOIN (SELECT 0 AS own UNION ALL SELECT 1) o
        CROSS JOIN (SELECT 'all' AS kind UNION ALL SELECT 'never used' UNION ALL SELECT 'early' UNION ALL SELECT 'late free' UNION ALL SELECT 'idle') k
        WHERE o.own = (k.kind <> 'all') AND k.kind IN ('all', w.kind)
      UNION ALL
      SELECT w.process, w.device, k.kind, w.to_ns, 2, w.alloc_seq, -w.size_bytes, 0 FROM waste w CROSS JOIN (SELECT 0 AS own UNION ALL SELECT 1) o
        CROSS JOIN (SELECT 'all' AS kind UNION ALL SELECT 'never used' UNION ALL SELECT 'early' UNION ALL SELECT 'late free' UNION ALL SELECT 'idle') k
        WHERE o.own = (k.kind <> 'all') AND k.kind IN ('all', w.kind)) c) s
  WHERE NOT EXISTS (SELECT 1 FROM stretch f WHERE f.folded > 0 AND (f.first_seq >> 40) + 1 = s.process) AND EXISTS (SELECT 1 FROM access)
  GROUP BY s.process, s.device, s.kind;

-- when requests of PyTorch's allocator went to a private pool: from event seq, at t_ns, up to end_seq (NULL: to the end), the next end of that pool.  pool: its
-- number, 2^32 times the first and the second of the two by which PyTorch names it, or from 2^56 on one that is made up; captured: 1 a CUDA graph was captured into it, 0
-- it was for a thread's requests (torch.cuda.use_mem_pool); stream: the number of the stream that was captured, NULL none; stack, line: of what captured, or made the pool
CREATE VIEW private_pool AS
  SELECT (b.seq >> 40) + 1 AS process, b.device AS device, CASE WHEN b.address < 0 THEN -b.address ELSE b.address * 512 END AS pool, b.seq AS seq,
    (SELECT e.seq FROM ev e WHERE e.seq > b.seq AND e.seq < ((b.seq >> 40) + 1) << 40 AND e.op = 39 AND e.device = b.device AND e.address = b.address ORDER BY e.seq LIMIT 1) AS end_seq,
    b.t AS t_ns, k.stream & 1 AS captured, CASE WHEN k.stream & 1 THEN k.stream >> 1 END AS stream, b.stack AS stack,
    (SELECT line FROM stack_text WHERE id = b.stack) AS line
  FROM ev b CROSS JOIN kind k ON k.id = b.kind WHERE b.op = 38;

-- blocks of PyTorch's allocator that were freed (free_seq, at t_free_ns) while another stream used them: until that stream had done its work, which the allocator saw with event
-- done_seq (NULL: not up to the end), nobody could have their size_bytes.  One row a stream that was waited for.  stream: the number of the one that record_stream named last, stack and
-- line those of that call (NULL: not known, as of imports).  A block whose memory was handed out again before it was done waited for nothing: the event that was seen was somebody else's
CREATE VIEW waiting_block AS
  SELECT (d.seq >> 40) + 1 AS process, d.device AS device, f.mate AS alloc_seq, f.seq AS free_seq, f.t AS t_free_ns,
    CASE WHEN f.size < 0 THEN -f.size ELSE f.size * 512 END AS size_bytes,
    (SELECT e.seq FROM ev e CROSS JOIN kind n ON n.id = e.kind WHERE e.seq > d.seq AND e.seq < ((d.seq >> 40) + 1) << 40 AND CASE k.stream WHEN 0 THEN e.op = 28 AND e.address = d.address AND e.device = d.device
      ELSE e.op = 29 AND CASE WHEN e.address < 0 THEN -e.address ELSE e.address * 512 END = k.stream END ORDER BY e.seq LIMIT 1) AS done_seq,
    (SELECT n.stream FROM ev s CROSS JOIN kind n ON n.id = s.kind WHERE s.seq < f.seq AND s.seq > f.mate AND s.op = 44 AND s.address = d.address AND s.device = d.device ORDER BY s.seq DESC LIMIT 1) AS stream,
    (SELECT s.stack FROM ev s WHERE s.seq < f.seq AND s.seq > f.mate AND s.op = 44 AND s.address = d.address AND s.device = d.device ORDER BY s.seq DESC LIMIT 1) AS stack,
    (SELECT (SELECT line FROM stack_text WHERE id = s.stack) FROM ev s WHERE s.seq < f.seq AND s.seq > f.mate AND s.op = 44 AND s.address = d.address AND s.device = d.device ORDER BY s.seq DESC LIMIT 1) AS line
  FROM ev d CROSS JOIN kind k ON k.id = d.kind
  CROSS JOIN ev f ON f.seq = (SELECT x.seq FROM ev x WHERE x.seq < d.seq AND x.op = 21 AND x.address = d.address AND x.device = d.device ORDER BY x.seq DESC LIMIT 1)
  WHERE d.op = 27;

-- what lived at the end, its category as in live_at_peak, or its space where that is not in the device's totals; without the managed
-- driver allocations, from which blocks are carved
CREATE VIEW leak AS
  SELECT o.process AS process, o.device AS device, o.alloc_seq AS alloc_seq, (SELECT name FROM op WHERE id = o.op) AS op,
    CASE WHEN o.op = 20 THEN 'framework block' WHEN o.space = 2 THEN 'direct pool' WHEN o.space = 9 THEN 'direct array' WHEN o.space = 10 THEN 'direct graph'
         WHEN o.space NOT IN (1, 12) THEN (SELECT name FROM space WHERE id = o.space) WHEN o.op = 4 THEN 'direct physical' ELSE 'direct' END AS category,
    CASE WHEN o.address < 0 THEN -o.address ELSE o.address * 512 END AS address,
    CASE WHEN o.size < 0 THEN -o.size ELSE o.size * 512 END AS size_bytes,
    o.t AS t_alloc_ns, (SELECT name FROM phase WHERE id = o.phase) AS phase, o.range AS range, o.stack AS stack,
    (SELECT text FROM string WHERE id = (SELECT owner FROM stack WHERE id = o.stack)) AS owner,
    (SELECT line FROM stack_text WHERE id = o.stack) AS line, (SELECT layer FROM stack_text WHERE id = o.stack) AS layer,
    coalesce((SELECT f.role FROM framework_says f WHERE f.alloc_seq = o.alloc_seq), (SELECT b.role FROM access_role b WHERE b.alloc_seq = o.alloc_seq), (SELECT i.role FROM life_role i WHERE i.alloc_seq = o.alloc_seq)) AS role,
    t.made_for AS made_for, CASE WHEN t.sized THEN CASE WHEN o.size < 0 THEN -o.size ELSE o.size * 512 END ELSE t.request_bytes END AS request_bytes, t.element_type AS element_type, t.shape AS shape
  FROM open_allocation o LEFT JOIN tensor_text t ON t.id = o.tensor WHERE NOT o.managed;

-- what was alive at each device's peak of `allocated`; the sizes add up to the peak (to known_bytes where that is unknown).  category: 'framework block', 'direct',
-- 'direct pool', 'direct physical', 'direct array', 'direct graph', 'before recording'.  From peak_live, or while that is not there from
-- the events, of which none after the peak is folded then
CREATE VIEW live_at_peak AS
  WITH top AS (SELECT p.process AS process, p.device AS device, p.seq AS seq,
                 EXISTS (SELECT 1 FROM peak_live l WHERE l.process = p.process AND l.device = p.device AND l.peak_seq = p.seq) AS stored
               FROM peak p WHERE p.kind = 'allocated' AND p.seq > 0 AND ifnull(p.peak_bytes, p.known_bytes) > 0),
  missing(moment, alloc_seq) AS ( -- freed before that moment, and after it the free turned out to have failed: in no total meanwhile
    SELECT top.seq, g.mate FROM top CROSS JOIN amend n ON n.op = 3 AND n.seq <= top.seq AND n.by_seq > top.seq CROSS JOIN ev g ON g.seq = n.seq
      WHERE g.mate > 0 AND g.op IN (2, 6, 51, 53) AND (g.op <> 6 OR g.size <> 0)),
  row(process, device, alloc_seq, op, space, address, size_bytes, t, phase, range, stack, tensor) AS (
    SELECT l.process, l.device, l.alloc_seq, l.op, l.space, l.address, l.size_bytes, l.t_ns, l.phase, l.range, l.stack, l.tensor
      FROM top CROSS JOIN peak_live l ON l.process = top.process AND l.device = top.device AND l.peak_seq = top.seq
    UNION ALL
    SELECT top.process, o.device, o.alloc_seq, o.op, o.space, CASE WHEN o.address < 0 THEN -o.address ELSE o.address * 512 END,
        CASE WHEN o.size < 0 THEN -o.size ELSE o.size * 512 END, o.t, o.phase, o.range, o.stack, o.tensor
      FROM top CROSS JOIN open_allocation o ON o.process = top.process AND o.device = top.device AND o.alloc_seq <= top.seq
      WHERE NOT top.stored AND (top.seq, o.alloc_seq) NOT IN (SELECT moment, alloc_seq FROM missing)
        AND (o.op = 20 OR o.space IN (1, 2, 9, 10, 12)) AND (NOT o.managed OR EXISTS (SELECT 1 FROM amend r WHERE r.seq = o.alloc_seq AND r.op = 50 AND r.by_seq > top.seq))
    UNION ALL
    SELECT top.process, a.device, a.seq, a.op, k.space, CASE WHEN a.address < 0 THEN -a.address ELSE a.address * 512 END,
        CASE WHEN a.size < 0 THEN -a.size ELSE a.size * 512 END, a.t, a.phase, a.range, a.stack, k.tensor
      FROM top CROSS JOIN ev f ON f.seq > top.seq AND f.seq < top.process << 40 AND f.mate > 0 AND f.mate <= top.seq AND f.op IN (2, 6, 21, 51, 52, 53) AND (f.op <> 6 OR f.size <> 0)
      CROSS JOIN ev a ON a.seq = f.mate AND a.device = top.device CROSS JOIN kind k ON k.id = a.kind
      WHERE NOT top.stored AND (top.seq, a.seq) NOT IN (SELECT moment, alloc_seq FROM missing)
        AND (a.op = 20 OR (k.space IN (1, 2, 9, 10, 12) AND NOT k.managed AND NOT EXISTS (SELECT 1 FROM amend r WHERE r.seq = a.seq AND r.op = 50 AND r.by_seq <= top.seq)))
        AND f.seq NOT IN (SELECT seq FROM amend WHERE op = 3))
  SELECT w.process AS process, w.device AS device, (SELECT name FROM phase WHERE id = w.phase) AS phase,
    CASE WHEN w.op = 20 THEN 'framework block' WHEN w.op = 0 THEN 'before recording' WHEN w.space = 2 THEN 'direct pool' WHEN w.space = 9 THEN 'direct array' WHEN w.space = 10 THEN 'direct graph'
         WHEN w.op = 4 THEN 'direct physical' ELSE 'direct' END AS category,
    w.size_bytes AS size_bytes, w.alloc_seq AS alloc_seq, w.stack AS stack,
    (SELECT text FROM string WHERE id = (SELECT owner FROM stack WHERE id = w.stack)) AS owner,
    (SELECT line FROM stack_text WHERE id = w.stack) AS line, (SELECT layer FROM stack_text WHERE id = w.stack) AS layer,
    w.address AS address, w.t AS t_alloc_ns, w.range AS range,
    coalesce((SELECT f.role FROM framework_says f WHERE f.alloc_seq = w.alloc_seq), (SELECT b.role FROM access_role b WHERE b.alloc_seq = w.alloc_seq), (SELECT i.role FROM life_role i WHERE i.alloc_seq = w.alloc_seq)) AS role,
    coalesce((SELECT f.rule FROM framework_says f WHERE f.alloc_seq = w.alloc_seq), (SELECT b.rule FROM access_role b WHERE b.alloc_seq = w.alloc_seq), (SELECT i.rule FROM life_role i WHERE i.alloc_seq = w.alloc_seq)) AS role_rule,
    t.made_for AS made_for, CASE WHEN t.sized THEN w.size_bytes ELSE t.request_bytes END AS request_bytes, t.element_type AS element_type, t.shape AS shape
  FROM row w LEFT JOIN tensor_text t ON t.id = w.tensor;

-- the two witnesses beside each other: the bytes at each device's peak by what PyTorch says (by_framework) and by what the accesses say (by_access), as in
-- view block_role; both NULL: bytes without a witness.  size_bytes adds up to the peak, allocations counts the blocks
CREATE VIEW role_agreement AS
  SELECT process, device, by_framework, by_access, sum(size_bytes) AS size_bytes, count(*) AS allocations
  FROM (SELECT l.process AS process, l.device AS device, l.size_bytes AS size_bytes,
      (SELECT f.role FROM framework_says f WHERE f.alloc_seq = l.alloc_seq) AS by_framework,
      (SELECT a.role FROM access_role a WHERE a.alloc_seq = l.alloc_seq) AS by_access
    FROM live_at_peak l)
  GROUP BY process, device, by_framework, by_access;

-- what was alive on its device at each row of oom (oom_seq); the sizes add up to framework_bytes + direct_bytes there.  Of device -1
-- (host memory ran out): what belongs to no device.  Columns as in live_at_peak
CREATE VIEW live_at_oom AS
  WITH
  missing(moment, alloc_seq) AS ( -- freed before that moment, and after it the free turned out to have failed: in no total meanwhile
    SELECT m.seq, g.mate FROM oom m CROSS JOIN amend n ON n.op = 3 AND n.seq <= m.seq AND n.by_seq > m.seq CROSS JOIN ev g ON g.seq = n.seq
      WHERE g.mate > 0 AND g.op IN (2, 6, 51, 53) AND (g.op <> 6 OR g.size <> 0)),
  row(process, oom_seq, device, alloc_seq, op, space, address, size_bytes, t, phase, range, stack, tensor) AS (
    SELECT l.process, l.oom_seq, m.device, l.alloc_seq, l.op, l.space, l.address, l.size_bytes, l.t_ns, l.phase, l.range, l.stack, l.tensor
      FROM oom m CROSS JOIN oom_live l ON l.process = m.process AND l.oom_seq = m.seq WHERE m.stored
    UNION ALL
    SELECT m.process, m.seq, m.device, 0, 0, 0, 0, m.base_bytes, 0, 0, 0, 0, NULL FROM oom m WHERE NOT m.stored AND m.base_bytes > 0
    UNION ALL
    SELECT m.process, m.seq, o.device, o.alloc_seq, o.op, o.space, CASE WHEN o.address < 0 THEN -o.address ELSE o.address * 512 END,
        CASE WHEN o.size < 0 THEN -o.size ELSE o.size * 512 END, o.t, o.phase, o.range, o.stack, o.tensor
      FROM oom m CROSS JOIN open_allocation o ON o.process = m.process AND o.device = m.device AND o.alloc_seq <= m.seq
      WHERE NOT m.stored AND (m.seq, o.alloc_seq) NOT IN (SELECT moment, alloc_seq FROM missing)
        AND (m.device < 0 OR ((o.op = 20 OR o.space IN (1, 2, 9, 10, 12))
        AND (NOT o.managed OR EXISTS (SELECT 1 FROM amend r WHERE r.seq = o.alloc_seq AND r.op = 50 AND r.by_seq > m.seq))))
    UNION ALL
    SELECT m.process, m.seq, a.device, a.seq, a.op, k.space, CASE WHEN a.address < 0 THEN -a.address ELSE a.address * 512 END,
        CASE WHEN a.size < 0 THEN -a.size ELSE a.size * 512 END, a.t, a.phase, a.range, a.stack, k.tensor
      FROM oom m CROSS JOIN ev f ON f.seq > m.seq AND f.seq < m.process << 40 AND f.mate > 0 AND f.mate <= m.seq AND f.op IN (2, 6, 21, 51, 52, 53) AND (f.op <> 6 OR f.size <> 0)
      CROSS JOIN ev a ON a.seq = f.mate AND a.device = m.device CROSS JOIN kind k ON k.id = a.kind
      WHERE NOT m.stored AND (m.seq, a.seq) NOT IN (SELECT moment, alloc_seq FROM missing)
        AND (m.device < 0 OR a.op = 20 OR (k.space IN (1, 2, 9, 10, 12) AND NOT k.managed
          AND NOT EXISTS (SELECT 1 FROM amend r WHERE r.seq = a.seq AND r.op = 50 AND r.by_seq <= m.seq)))
        AND f.seq NOT IN (SELECT seq FROM amend WHERE op = 3))
  SELECT w.process AS process, w.oom_seq AS oom_seq, w.device AS device, (SELECT name FROM phase WHERE id = w.phase) AS phase,
    CASE WHEN w.op = 20 THEN 'framework block' WHEN w.op = 0 THEN 'before recording' WHEN w.device < 0 THEN (SELECT name FROM space WHERE id = w.space)
         WHEN w.space = 2 THEN 'direct pool' WHEN w.space = 9 THEN 'direct array' WHEN w.space = 10 THEN 'direct graph' WHEN w.op = 4 THEN 'direct physical' ELSE 'direct' END AS category,
    w.size_bytes AS size_bytes, w.alloc_seq AS alloc_seq, w.stack AS stack,
    (SELECT text FROM string WHERE id = (SELECT owner FROM stack WHERE id = w.stack)) AS owner,
    (SELECT line FROM stack_text WHERE id = w.stack) AS line, (SELECT layer FROM stack_text WHERE id = w.stack) AS layer,
    w.address AS address, w.t AS t_alloc_ns, w.range AS range,
    coalesce((SELECT f.role FROM framework_says f WHERE f.alloc_seq = w.alloc_seq), (SELECT b.role FROM access_role b WHERE b.alloc_seq = w.alloc_seq), (SELECT i.role FROM life_role i WHERE i.alloc_seq = w.alloc_seq)) AS role,
    coalesce((SELECT f.rule FROM framework_says f WHERE f.alloc_seq = w.alloc_seq), (SELECT b.rule FROM access_role b WHERE b.alloc_seq = w.alloc_seq), (SELECT i.rule FROM life_role i WHERE i.alloc_seq = w.alloc_seq)) AS role_rule,
    t.made_for AS made_for, CASE WHEN t.sized THEN w.size_bytes ELSE t.request_bytes END AS request_bytes, t.element_type AS element_type, t.shape AS shape
  FROM row w LEFT JOIN tensor_text t ON t.id = w.tensor;
