INCLUDE PERFETTO MODULE android.user_list;

CREATE PERFETTO TABLE _uid_package_count AS
SELECT uid, count(*) AS cnt FROM package_list GROUP BY uid;

-- Processes that an app isolates have the uids of the app and an offset.
CREATE PERFETTO FUNCTION _app_id_to_base_package(app_id LONG) RETURNS LONG AS
SELECT $app_id - CASE WHEN $app_id BETWEEN 20000 AND 29999 THEN 10000
  WHEN $app_id BETWEEN 30000 AND 39999 THEN 20000 ELSE 0 END;

-- The package whose name is the longest start of a process's name.
CREATE PERFETTO FUNCTION _android_package_for_process(
  uid LONG, uid_count LONG, process_name STRING
)
RETURNS TABLE(package_name STRING, version_code LONG, debuggable BOOL) AS
SELECT package_name, version_code, debuggable
FROM (
  SELECT max(length(package_name)), package_name, version_code, debuggable
  FROM package_list
  WHERE (uid = $uid AND ($uid_count = 1 OR $process_name GLOB package_name || '*'))
    OR ($uid BETWEEN 90000 AND 99999
      AND str_split($process_name, ':', 0) GLOB package_name || '*')
);

CREATE PERFETTO TABLE _android_kernel_tasks(upid LONG) AS
SELECT p.upid
FROM process p LEFT JOIN process a ON a.upid = p.parent_upid
WHERE 0 IN (p.pid, a.pid) OR a.name = 'kthreadd'
ORDER BY p.upid;

CREATE PERFETTO FUNCTION android_is_kernel_task(upid LONG) RETURNS BOOL AS
SELECT $upid IN (SELECT upid FROM _android_kernel_tasks);

CREATE PERFETTO TABLE android_process_metadata(
  upid JOINID(process.id), pid LONG, process_name STRING, uid LONG, shared_uid BOOL, user_id LONG,
  user_type STRING, package_name STRING, version_code LONG, debuggable LONG, is_kernel_task BOOL
) AS
SELECT p.upid, p.pid,
  -- The kernel cuts names of processes to 15 characters.
  iif(
    length(p.name) = 15
      AND (p.cmdline IN ('zygote', 'zygote64', '<pre-initialized>') OR p.cmdline GLOB '*' || p.name),
    p.cmdline, p.name
  ) AS process_name,
  p.android_appid AS uid, p.android_user_id AS user_id, u.type AS user_type,
  iif(c.cnt > 1, 1, NULL) AS shared_uid, l.package_name, l.version_code, l.debuggable,
  android_is_kernel_task(p.upid) AS is_kernel_task
FROM process p
LEFT JOIN _uid_package_count c ON c.uid = _app_id_to_base_package(p.android_appid)
LEFT JOIN _android_package_for_process(_app_id_to_base_package(p.android_appid), c.cnt, p.name) l
LEFT JOIN android_user_list u ON u.android_user_id = p.android_user_id
ORDER BY p.upid;
