-- The packages of a user id, for any user of the device.
CREATE PERFETTO FUNCTION android_package_lookup(uid LONG) RETURNS STRING AS
SELECT group_concat(package_name, ',') FROM package_list WHERE uid = $uid % 100000;
