INCLUDE PERFETTO MODULE linux.memory.general;

CREATE PERFETTO VIEW _anon_rss AS
SELECT ts, dur, upid, value AS anon_rss_val FROM _all_counters_per_process
WHERE name = 'mem.rss.anon';
CREATE PERFETTO VIEW _file_rss AS
SELECT ts, dur, upid, value AS file_rss_val FROM _all_counters_per_process
WHERE name = 'mem.rss.file';
CREATE PERFETTO VIEW _shmem_rss AS
SELECT ts, dur, upid, value AS shmem_rss_val FROM _all_counters_per_process
WHERE name = 'mem.rss.shmem';
CREATE PERFETTO VIEW _swap AS
SELECT ts, dur, upid, value AS swap_val FROM _all_counters_per_process WHERE name = 'mem.swap';

CREATE VIRTUAL TABLE _anon_file_sj
USING SPAN_OUTER_JOIN(_anon_rss PARTITIONED upid, _file_rss PARTITIONED upid);
CREATE VIRTUAL TABLE _rss_sj
USING SPAN_OUTER_JOIN(_anon_file_sj PARTITIONED upid, _shmem_rss PARTITIONED upid);
CREATE VIRTUAL TABLE _rss_swap_sj
USING SPAN_OUTER_JOIN(_rss_sj PARTITIONED upid, _swap PARTITIONED upid);

CREATE PERFETTO TABLE _memory_rss_and_swap_per_process_table AS
SELECT ts, dur, upid, CAST(anon_rss_val AS INT) AS anon_rss, CAST(file_rss_val AS INT) AS file_rss,
  CAST(shmem_rss_val AS INT) AS shmem_rss, CAST(swap_val AS INT) AS swap
FROM _rss_swap_sj;

CREATE PERFETTO VIEW memory_rss_and_swap_per_process(
  ts TIMESTAMP, dur DURATION, upid JOINID(process.id), pid LONG, process_name STRING, anon_rss LONG,
  file_rss LONG, shmem_rss LONG, rss LONG, swap LONG, anon_rss_and_swap LONG, rss_and_swap LONG
) AS
SELECT m.ts, m.dur, m.upid, p.pid, p.name AS process_name, m.anon_rss, m.file_rss, m.shmem_rss,
  m.anon_rss + m.file_rss + ifnull(m.shmem_rss, 0) AS rss, m.swap,
  m.anon_rss + ifnull(m.swap, 0) AS anon_rss_and_swap,
  m.anon_rss + m.file_rss + ifnull(m.shmem_rss, 0) + ifnull(m.swap, 0) AS rss_and_swap
FROM _memory_rss_and_swap_per_process_table m JOIN process p ON p.upid = m.upid;
