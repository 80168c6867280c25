CREATE PERFETTO FUNCTION _android_sdk_version() RETURNS LONG AS
SELECT int_value FROM metadata WHERE name = 'android_sdk_version' LIMIT 1;
