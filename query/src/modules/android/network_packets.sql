INCLUDE PERFETTO MODULE std.metasql.unparenthesize;

-- Network events with the number of their run, in which events overlap or are at most `idle` apart,
-- and with the end of all earlier events.
CREATE PERFETTO MACRO _network_runs(
  events TableOrSubquery, columns ColumnNameList, idle Expr
)
RETURNS TableOrSubquery AS
(
  SELECT *, sum(CASE WHEN ts <= last_end + $idle THEN 0 ELSE 1 END)
    OVER (PARTITION BY metasql_unparenthesize_exprlist!($columns) ORDER BY ts) AS run
  FROM (
    SELECT *, max(ts + dur) OVER (
      PARTITION BY metasql_unparenthesize_exprlist!($columns)
      ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS last_end
    FROM $events
  )
);

-- The times in which a network interface was up, if it stays up for `timeout` after each packet.
CREATE PERFETTO MACRO android_network_uptime_spans(
  src TableOrSubquery, partition_columns ColumnNameList, timeout Expr
)
RETURNS TableOrSubquery AS
(
  SELECT metasql_unparenthesize_exprlist!($partition_columns), min(ts) AS ts,
    max(ts + dur) + $timeout - min(ts) AS dur, sum(packet_count) AS packet_count,
    sum(packet_length) AS packet_length
  FROM _network_runs!($src, $partition_columns, $timeout)
  GROUP BY metasql_unparenthesize_exprlist!($partition_columns), run
);

-- The time by which each event extended the uptime of its interface: up to `timeout` for the time
-- since the last event, and a part of the duration of overlapping events by the number of packets.
CREATE PERFETTO MACRO android_network_uptime_cost(
  src TableOrSubquery, partition_columns ColumnNameList, timeout Expr
)
RETURNS TableOrSubquery AS
(
  SELECT id,
    coalesce(max(0, min($timeout, ts - last_end)), $timeout) + run_dur * packet_count / run_packets
      AS uptime_cost
  FROM (
    SELECT id, ts, last_end, packet_count,
      sum(packet_count) OVER (
        PARTITION BY metasql_unparenthesize_exprlist!($partition_columns), run
      ) AS run_packets,
      max(ts + dur) OVER (
        PARTITION BY metasql_unparenthesize_exprlist!($partition_columns), run
      ) - min(ts) OVER (
        PARTITION BY metasql_unparenthesize_exprlist!($partition_columns), run
      ) AS run_dur
    FROM _network_runs!($src, $partition_columns, 0)
  )
);

-- Packets with the slice of each.
CREATE PERFETTO VIEW android_network_packets(
  id ID, ts TIMESTAMP, dur DURATION, track_name STRING, package_name STRING, iface STRING,
  direction STRING, packet_count LONG, packet_length LONG, packet_transport STRING,
  packet_tcp_flags STRING, socket_tag STRING, socket_uid LONG, local_port LONG, remote_port LONG,
  packet_icmp_type LONG, packet_icmp_code LONG, packet_tcp_flags_int LONG, socket_tag_int LONG
) AS
SELECT s.id, s.ts, s.dur, s.category AS track_name, s.name AS package_name, n.iface, n.direction,
  n.packet_count, n.packet_length, n.packet_transport,
  n.packet_tcp_flags_str AS packet_tcp_flags, n.socket_tag_str AS socket_tag, n.socket_uid,
  n.local_port, n.remote_port, n.packet_icmp_type, n.packet_icmp_code,
  n.packet_tcp_flags AS packet_tcp_flags_int, n.socket_tag AS socket_tag_int
FROM slice s JOIN __intrinsic_android_network_packets n USING (id);
