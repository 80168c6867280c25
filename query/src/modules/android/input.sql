CREATE PERFETTO VIEW android_motion_events AS
SELECT id, event_id, ts, arg_set_id, source, action, device_id, display_id
FROM __intrinsic_android_motion_events;

CREATE PERFETTO VIEW android_key_events AS
SELECT id, event_id, ts, arg_set_id, source, action, device_id, display_id, key_code
FROM __intrinsic_android_key_events;

CREATE PERFETTO VIEW android_input_event_dispatch AS
SELECT id, event_id, arg_set_id, vsync_id, window_id FROM __intrinsic_android_input_event_dispatch;
