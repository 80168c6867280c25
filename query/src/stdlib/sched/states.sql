-- The meaning of a thread's state.
CREATE PERFETTO FUNCTION sched_state_to_human_readable_string(short_name STRING)
RETURNS STRING AS
SELECT CASE $short_name
  WHEN 'Running' THEN 'Running'
  WHEN 'R' THEN 'Runnable'
  WHEN 'R+' THEN 'Runnable (Preempted)'
  WHEN 'S' THEN 'Sleeping'
  WHEN 'D' THEN 'Uninterruptible Sleep'
  WHEN 'T' THEN 'Stopped'
  WHEN 't' THEN 'Traced'
  WHEN 'X' THEN 'Exit (Dead)'
  WHEN 'Z' THEN 'Exit (Zombie)'
  WHEN 'x' THEN 'Task Dead'
  WHEN 'I' THEN 'Idle'
  WHEN 'K' THEN 'Wakekill'
  WHEN 'W' THEN 'Waking'
  WHEN 'P' THEN 'Parked'
  WHEN 'N' THEN 'No Load'
  ELSE $short_name
END;

CREATE PERFETTO FUNCTION sched_state_io_to_human_readable_string(sched_state STRING, io_wait BOOL)
RETURNS STRING AS
SELECT CASE
  WHEN $sched_state = 'D' AND $io_wait = 1 THEN 'Uninterruptible Sleep (IO)'
  WHEN $sched_state = 'D' AND $io_wait = 0 THEN 'Uninterruptible Sleep (non-IO)'
  ELSE sched_state_to_human_readable_string($sched_state)
END;
