-- The names of states; those of Windows are names already.
CREATE PERFETTO FUNCTION sched_state_to_human_readable_string(short_name STRING)
RETURNS STRING AS
SELECT coalesce(
  (
    SELECT column2
    FROM (
      VALUES ('R', 'Runnable'), ('R+', 'Runnable (Preempted)'), ('S', 'Sleeping'),
        ('D', 'Uninterruptible Sleep'), ('T', 'Stopped'), ('t', 'Traced'), ('X', 'Exit (Dead)'),
        ('Z', 'Exit (Zombie)'), ('x', 'Task Dead'), ('I', 'Idle'), ('K', 'Wakekill'),
        ('W', 'Waking'), ('P', 'Parked'), ('N', 'No Load')
    )
    WHERE column1 = $short_name
  ),
  $short_name
);

CREATE PERFETTO FUNCTION sched_state_io_to_human_readable_string(
  sched_state STRING, io_wait BOOL
)
RETURNS STRING AS
SELECT concat(
  sched_state_to_human_readable_string($sched_state),
  CASE $io_wait WHEN 1 THEN ' (IO)' WHEN 0 THEN ' (non-IO)' END
);
