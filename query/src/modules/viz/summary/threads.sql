INCLUDE PERFETTO MODULE viz.summary.slices;

CREATE PERFETTO TABLE _sched_summary AS
SELECT utid, max(dur) AS max_running_dur, sum(dur) AS sum_running_dur, count(*) AS running_count
FROM sched
WHERE dur <> -1 AND utid NOT IN (SELECT utid FROM thread WHERE is_idle)
GROUP BY utid;

CREATE PERFETTO TABLE _thread_track_summary AS
SELECT t.utid, sum(s.cnt) AS slice_count
FROM _slice_track_summary s JOIN thread_track t ON t.id = s.id
GROUP BY t.utid;

CREATE PERFETTO TABLE _stack_sample_summary AS
SELECT c.utid, count(*) AS sample_count
FROM stack_sample s JOIN stack_sample_task_context c ON c.id = s.task_context_id
WHERE c.utid IS NOT NULL
GROUP BY c.utid;

-- Threads of which the trace has anything to show.
CREATE PERFETTO TABLE _thread_available_info_summary AS
SELECT t.utid, coalesce(r.max_running_dur, 0) AS max_running_dur,
  coalesce(r.sum_running_dur, 0) AS sum_running_dur, coalesce(r.running_count, 0) AS running_count,
  coalesce(s.slice_count, 0) AS slice_count, coalesce(c.sample_count, 0) AS stack_sample_count
FROM thread t
LEFT JOIN _sched_summary r ON r.utid = t.utid
LEFT JOIN _thread_track_summary s ON s.utid = t.utid
LEFT JOIN _stack_sample_summary c ON c.utid = t.utid
WHERE coalesce(r.utid, s.utid, c.utid) IS NOT NULL
  OR t.utid IN (SELECT utid FROM thread_counter_track);
