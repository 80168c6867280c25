INCLUDE PERFETTO MODULE linux.cpu.utilization.periods;
INCLUDE PERFETTO MODULE linux.cpu.frequency;

-- The times at which threads ran on CPUs, without idle threads.
CREATE PERFETTO VIEW _sched_busy AS
SELECT s.id, s.ts, s.dur, s.ucpu, s.cpu, s.utid, t.upid
FROM sched s JOIN thread t ON s.utid = t.utid
WHERE s.dur > 0 AND t.is_idle = 0;

CREATE PERFETTO VIEW _cpu_freq_spans AS
SELECT ts, dur, ucpu, freq FROM cpu_frequency_counters WHERE dur > 0;

CREATE PERFETTO VIEW _sched_busy_spans AS
SELECT ts, dur, ucpu, cpu, utid, upid FROM _sched_busy;

CREATE VIRTUAL TABLE _cpu_freq_joined
USING SPAN_LEFT_JOIN(_sched_busy_spans PARTITIONED ucpu, _cpu_freq_spans PARTITIONED ucpu);

-- The times at which threads ran, split at changes of the CPU's frequency.
CREATE PERFETTO TABLE _cpu_freq_per_thread AS
SELECT row_number() OVER (ORDER BY ts, ucpu) - 1 AS id, ts, dur, ucpu, cpu, utid, upid, freq
FROM _cpu_freq_joined;

-- The parts of spans within an interval.
CREATE PERFETTO FUNCTION _cpu_freq_in_interval(ts LONG, dur LONG)
RETURNS TABLE(ts LONG, dur LONG, ucpu LONG, cpu LONG, utid LONG, upid LONG, freq LONG) AS
SELECT max(ts, $ts) AS ts, min(ts + dur, $ts + $dur) - max(ts, $ts) AS dur, ucpu, cpu, utid, upid,
  freq
FROM _cpu_freq_per_thread
WHERE ts < $ts + $dur AND ts + dur > $ts;
