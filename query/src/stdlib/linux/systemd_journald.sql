-- Messages of the systemd journal.
CREATE PERFETTO VIEW linux_systemd_journald_logs AS
SELECT id, ts, utid, prio, tag, msg, __arg_int(arg_set_id, 'uid') AS uid,
  extract_arg(arg_set_id, 'comm') AS comm, extract_arg(arg_set_id, 'systemd_unit') AS systemd_unit,
  extract_arg(arg_set_id, 'hostname') AS hostname, extract_arg(arg_set_id, 'transport') AS transport
FROM logs WHERE log_source = 'systemd_journald';
