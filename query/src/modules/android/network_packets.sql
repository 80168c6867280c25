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
