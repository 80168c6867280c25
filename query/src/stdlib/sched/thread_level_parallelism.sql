INCLUDE PERFETTO MODULE intervals.overlap;

-- The number of runnable threads that do not run.
CREATE PERFETTO VIEW sched_runnable_thread_count AS
SELECT ts, value AS runnable_thread_count
FROM intervals_overlap_count!(
  (SELECT ts, dur FROM thread_state WHERE state IN ('R', 'R+')), ts, dur
);

-- The number of threads in uninterruptible sleep.
CREATE PERFETTO VIEW sched_uninterruptible_sleep_thread_count AS
SELECT ts, value AS uninterruptible_sleep_thread_count
FROM intervals_overlap_count!((SELECT ts, dur FROM thread_state WHERE state = 'D'), ts, dur);

-- The number of CPUs that run a thread.
CREATE PERFETTO VIEW sched_active_cpu_count AS
SELECT ts, value AS active_cpu_count
FROM intervals_overlap_count!(
  (SELECT s.ts, s.dur FROM sched s JOIN thread t ON s.utid = t.utid WHERE t.is_idle = 0), ts, dur
);
