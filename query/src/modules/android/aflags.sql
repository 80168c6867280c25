-- Flags of Android.
CREATE PERFETTO VIEW android_aflags(
  ts TIMESTAMP, package STRING, name STRING, flag_namespace STRING, container STRING, value STRING,
  staged_value STRING, permission STRING, value_picked_from STRING, storage_backend STRING,
  type STRING
) AS
SELECT f.ts, f.package, f.name, f.flag_namespace, f.container, f.value, f.staged_value,
  f.permission, f.value_picked_from, f.storage_backend, f.type
FROM __intrinsic_android_aflags f;
