-- queries.sql - questions to a recording, each with the query that answers it.
--
--      sqlite3 -box run.db < examples/queries.sql
--
-- Every column that ends in _bytes is in bytes, every _ns in nanoseconds since the run's start; `>> 20` makes MiB.
-- Device 0 is meant where none is named.  The schema, each column explained: shim/trace/schema.sql.

-- Which process is this, on what?  simulated = 1: no GPU was involved.
SELECT p.host, p.pid, p.rank, p.command, p.simulated, d.id AS device, d.name, d.total_bytes >> 20 AS total_mib
FROM process p LEFT JOIN device d ON d.process = p.id;

-- Which phase peaked, and how high?  The peak is the device's total while the phase's ranges were open.
SELECT device, phase, ranges, seconds, allocated_bytes >> 20 AS allocated_mib, reserved_bytes >> 20 AS reserved_mib,
  end_allocated_bytes >> 20 AS end_mib
FROM phase_peak ORDER BY device, allocated_bytes DESC;

-- The peaks of the whole run: allocated, its two parts, reserved, and the spaces that are not on the device.
SELECT device, kind, peak_bytes >> 20 AS peak_mib, end_bytes >> 20 AS end_mib, t_ns / 1e9 AS seconds
FROM peak ORDER BY device, peak_bytes DESC;

-- The curve around the peak: a hundredth of a second before and after it.
SELECT t_ns, allocated_bytes, reserved_bytes, phase FROM timeline
WHERE device = 0
  AND abs(t_ns - (SELECT t_ns FROM peak WHERE device = 0 AND kind = 'allocated')) < 1e7
LIMIT 50;

-- Who held the bytes at the peak?  By phase, by what kind of allocation, by the library that asked.
SELECT device, phase, category, owner, count(*) AS allocations, sum(size_bytes) >> 20 AS mib
FROM live_at_peak GROUP BY device, phase, category, owner ORDER BY device, sum(size_bytes) DESC LIMIT 20;

-- Which lines of the program held them, in which layers?
SELECT line, layer, count(*) AS allocations, sum(size_bytes) >> 20 AS mib
FROM live_at_peak WHERE device = 0 GROUP BY line, layer ORDER BY sum(size_bytes) DESC LIMIT 20;

-- What are they for?  NULL: nobody said; `vramscope run --access` follows each use of memory, and then knows.
SELECT role, count(*) AS allocations, sum(size_bytes) >> 20 AS mib
FROM live_at_peak WHERE device = 0 GROUP BY role ORDER BY sum(size_bytes) DESC;

-- Who held the device when it ran out of memory?  (No answer: it never did.)
SELECT phase, line, layer, count(*) AS allocations, sum(size_bytes) >> 20 AS mib
FROM live_at_oom GROUP BY phase, line, layer ORDER BY sum(size_bytes) DESC LIMIT 20;

-- The largest single allocations, and through which entry point of the driver they came.
SELECT seq, size_bytes >> 20 AS mib, phase, op, api, t_ns / 1e9 AS seconds FROM event
WHERE op IN ('alloc', 'block_alloc', 'phys_create') AND status = 0
ORDER BY size_bytes DESC LIMIT 10;

-- How many allocations of which size, and how many bytes they moved: what a caching allocator has to cope with.
SELECT CASE WHEN size_bytes < 1 << 20 THEN 'below 1 MiB' WHEN size_bytes < 16 << 20 THEN '1 to 16 MiB'
  WHEN size_bytes < 256 << 20 THEN '16 to 256 MiB' ELSE 'above' END AS size,
  op, count(*) AS allocations, sum(size_bytes) >> 20 AS mib
FROM event WHERE op IN ('alloc', 'block_alloc') AND status = 0 GROUP BY 1, 2 ORDER BY min(size_bytes), 2;

-- How long allocations live, by the phase that made them.
SELECT phase, count(*) AS allocations, avg(t_free_ns - t_alloc_ns) / 1e6 AS mean_ms,
  max(t_free_ns - t_alloc_ns) / 1e6 AS longest_ms
FROM allocation WHERE t_free_ns IS NOT NULL AND NOT managed GROUP BY phase ORDER BY mean_ms DESC;

-- What is still alive at the end (or now, while the process runs)?
SELECT phase, category, owner, count(*) AS allocations, sum(size_bytes) >> 20 AS mib
FROM leak GROUP BY phase, category, owner ORDER BY sum(size_bytes) DESC LIMIT 20;

-- Does the peak grow from step to step?  (A leak, or a longer batch.)
SELECT first_step, last_step, allocated_bytes >> 20 AS allocated_mib, reserved_bytes >> 20 AS reserved_mib
FROM step_peak WHERE device = 0 ORDER BY first_step LIMIT 20;

-- What was folded to stay below VRAMSCOPE_MAX_BYTES, and what each phase held at most meanwhile?  (No answer: nothing was.)
SELECT f.first_step, f.last_step, f.from_ns / 1e9 AS from_s, f.to_ns / 1e9 AS to_s, p.phase,
  p.min_allocated_bytes >> 20 AS least_mib, p.max_allocated_bytes >> 20 AS greatest_mib
FROM folded f JOIN folded_phase p ON p.stretch = f.stretch WHERE p.device = 0 ORDER BY f.stretch, p.phase LIMIT 20;

-- The range with the highest peak of each phase: which step was it?  (Of ranges that are not folded.)
SELECT phase, step, max(allocated) >> 20 AS mib FROM
  (SELECT r.phase AS phase, r.step AS step, p.allocated_bytes AS allocated
   FROM range_peak p JOIN range r ON r.id = p.range WHERE p.device = 0 AND r.phase <> 'none')
GROUP BY phase ORDER BY 3 DESC;

-- How far apart are allocated and reserved when reserved is highest?  (What caching and fragmentation hold.)
SELECT t_ns / 1e9 AS seconds, phase, allocated_bytes >> 20 AS allocated_mib, reserved_bytes >> 20 AS reserved_mib,
  (reserved_bytes - allocated_bytes) >> 20 AS unused_mib
FROM timeline WHERE device = 0 ORDER BY reserved_bytes DESC, t_ns LIMIT 1;

-- The residual over time: what the driver says is used, minus reserved.  'meminfo' and 'nvml_device' are figures of
-- the whole device, other processes included: not to be compared with those of this process.  0 once the context is gone.
SELECT t_ns / 1e9 AS seconds, device, source, driver_used_bytes >> 20 AS driver_mib,
  (driver_used_bytes - reserved_bytes) >> 20 AS residual_mib
FROM sample ORDER BY device, source = 'nvml_process' DESC, source, t_ns LIMIT 10;

-- Calls that failed, out of memory among them.
SELECT t_ns / 1e9 AS seconds, op, api, size_bytes >> 20 AS mib, status, phase FROM event
WHERE status <> 0 OR op = 'oom' ORDER BY seq LIMIT 20;

-- Was anything lost, and do our totals agree with the framework's?  No rows: nothing, and yes.
SELECT why, sum(events) AS events FROM loss GROUP BY why;
SELECT what, count(*) AS times, max(abs(ours_bytes - theirs_bytes)) AS worst_bytes FROM mismatch GROUP BY what;
