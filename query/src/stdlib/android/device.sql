-- The name of a device in the fingerprint of its build, `brand/product/DEVICE:…`.
CREATE PERFETTO FUNCTION android_device_name_from_fingerprint(fingerprint STRING)
RETURNS STRING AS
SELECT str_split(str_split($fingerprint, '/', 2), ':', 0);

-- The device of each machine with Android.
CREATE PERFETTO TABLE android_device_name(name STRING, machine_id JOINID(machine.id)) AS
SELECT android_device_name_from_fingerprint(machine.android_build_fingerprint) AS name,
  id AS machine_id
FROM machine
WHERE android_build_fingerprint IS NOT NULL;
