CREATE PERFETTO VIEW android_inputmethod_clients AS
SELECT id, ts, arg_set_id
FROM __intrinsic_inputmethod_clients;

CREATE PERFETTO VIEW android_inputmethod_manager_service AS
SELECT id, ts, arg_set_id
FROM __intrinsic_inputmethod_manager_service;

CREATE PERFETTO VIEW android_inputmethod_service AS
SELECT id, ts, arg_set_id
FROM __intrinsic_inputmethod_service;
