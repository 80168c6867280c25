//! Windows, layers, views and input of Android.

use ferretto_proto::fields::android::{
    active_buffer_proto, android_input_event, android_key_event, color_proto, display_proto,
    display_state, float_rect_proto, frameworks_base_interned_data as interned,
    frameworks_base_winscope_extensions as base,
    frameworks_base_winscope_trace_packet as base_packet, frameworks_native_interned_data,
    frameworks_native_winscope_extensions as native,
    frameworks_native_winscope_trace_packet as packet, identifier_proto, layer_proto, layer_state,
    layers_proto, layers_snapshot_proto, proto_log_message, proto_log_viewer_config, rect_proto,
    root_window_container_proto, shell_handler_mapping, shell_handler_mappings, shell_transition,
    task_proto, transaction_state, transaction_trace_entry, view_capture,
    window_container_child_proto, window_container_proto, window_frames_proto,
    window_manager_service_dump_proto, window_manager_trace_entry, window_state_proto,
};
use ferretto_proto::fields::{interned_string, trace, trace_packet};
use ferretto_tables::Trace;
use ferretto_wire::{Encoder, encode};

use crate::common::{arg_set, args, import_bytes, rows};

type Out<'a, 'b> = &'a mut Encoder<'b, Vec<u8>>;

/// Imports packets with these times, fields and data.
fn packets(all: &[(i64, u32, Vec<u8>)]) -> Trace {
    let sequence: Vec<Vec<u8>> = all
        .iter()
        .enumerate()
        .map(|(index, (ts, field, data))| {
            encode(|out| {
                out.int(trace_packet::TIMESTAMP, *ts);
                out.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 7);
                if index == 0 {
                    out.varint(trace_packet::SEQUENCE_FLAGS, 1);
                }
                out.bytes(*field, data);
            })
        })
        .collect();
    import_bytes(&encode(|out| {
        sequence
            .iter()
            .for_each(|one| out.bytes(trace::PACKET, one));
    }))
}

fn extension(number: u32, data: &[u8]) -> (u32, Vec<u8>) {
    let data = encode(|out| out.bytes(number, data));
    (packet::WINSCOPE_EXTENSIONS, data)
}

fn args_of(trace: &Trace, table: &str, row: usize) -> Vec<String> {
    let set = arg_set(trace.table(table).expect("table"), "arg_set_id", row);
    args(trace, set)
}

#[test]
fn transactions_have_a_row_for_each_change_and_their_properties() {
    let data = encode(|out| {
        use transaction_trace_entry as of;
        out.int(of::VSYNC_ID, 5);
        out.nested(of::TRANSACTIONS, |out| {
            out.int(transaction_state::PID, 3);
            out.int(transaction_state::UID, 1000);
            out.varint(transaction_state::TRANSACTION_ID, 9);
            out.varint(transaction_state::APPLY_TOKEN, 77);
            out.nested(transaction_state::LAYER_CHANGES, |out| {
                out.varint(layer_state::LAYER_ID, 12);
                out.varint(layer_state::WHAT, 1 << 3 | 1 << 35);
            });
            out.nested(transaction_state::DISPLAY_CHANGES, |out| {
                out.varint(display_state::ID, 2);
                out.varint(display_state::WHAT, 8);
            });
        });
        out.nested(of::TRANSACTIONS, |out| out.int(transaction_state::PID, 4));
        out.varint(of::DESTROYED_LAYERS, 30);
        out.varint(of::REMOVED_DISPLAYS, 31);
    });
    let trace = packets(&[(10, packet::SURFACEFLINGER_TRANSACTIONS, data)]);
    assert_eq!(
        rows(&trace, "surfaceflinger_transactions", "id ts vsync_id"),
        ["0 10 5"]
    );
    let columns =
        "snapshot_id transaction_id pid uid layer_id display_id flags_id transaction_type";
    assert_eq!(
        rows(&trace, "surfaceflinger_transaction", columns),
        [
            "0 9 3 1000 12 NULL 0 LAYER_CHANGED",
            "0 9 3 1000 NULL 2 1 DISPLAY_CHANGED",
            "0 0 4 0 NULL NULL NULL NOOP",
            "0 NULL NULL NULL 30 NULL NULL LAYER_DESTROYED",
            "0 NULL NULL NULL NULL 31 NULL DISPLAY_REMOVED",
        ]
    );
    assert_eq!(
        rows(&trace, "surfaceflinger_transaction_flag", "flags_id flag"),
        [
            "0 eAlphaChanged",
            "0 eMetadataChanged",
            "1 eDisplaySizeChanged"
        ]
    );
    assert_eq!(
        args_of(&trace, "surfaceflinger_transaction", 0),
        ["layer_id=12u", "what=34359738376u", "apply_token=77u"]
    );
}

#[test]
fn keys_are_events_with_their_fields() {
    let event = encode(|out| {
        out.nested(android_input_event::DISPATCHER_KEY_EVENT, |out| {
            out.fixed32(android_key_event::EVENT_ID, 4_000_000_000);
            out.sint(android_key_event::DISPLAY_ID, -1);
            out.int(android_key_event::KEY_CODE, 24);
        });
    });
    let (field, data) = extension(native::ANDROID_INPUT_EVENT, &event);
    let trace = packets(&[(10, field, data)]);
    assert_eq!(
        rows(
            &trace,
            "android_key_events",
            "event_id ts display_id key_code source"
        ),
        ["4000000000 10 -1 24 0"]
    );
    let all = args_of(&trace, "android_key_events", 0);
    assert_eq!(
        &all[..3],
        ["event_id=4000000000u", "display_id=-1", "key_code=24"]
    );
}

#[test]
fn transitions_collect_fields_of_several_packets() {
    let part = |write: &dyn Fn(Out<'_, '_>)| {
        let data = encode(|out| {
            out.int(shell_transition::ID, 5);
            write(out);
        });
        (0, base_packet::SHELL_TRANSITION, data)
    };
    let handlers = encode(|out| {
        out.nested(shell_handler_mappings::MAPPING, |out| {
            out.int(shell_handler_mapping::ID, 2);
            out.string(shell_handler_mapping::NAME, "Recents");
        });
    });
    let trace = packets(&[
        part(&|out| out.int(shell_transition::SEND_TIME_NS, 100)),
        part(&|out| {
            out.int(shell_transition::DISPATCH_TIME_NS, 110);
            out.int(shell_transition::HANDLER, 2);
            out.nested(shell_transition::CHANGES, |out| {
                out.int(shell_transition::change::LAYER_ID, 8);
                out.nested(shell_transition::change::START_ABSOLUTE_BOUNDS, |out| {
                    out.int(rect_proto::RIGHT, 30);
                    out.int(rect_proto::BOTTOM, 20);
                });
            });
        }),
        part(&|out| out.int(shell_transition::FINISH_TIME_NS, 150)),
        (0, base_packet::SHELL_HANDLER_MAPPINGS, handlers),
    ]);
    assert_eq!(
        rows(
            &trace,
            "window_manager_shell_transitions",
            "ts transition_id duration_ns handler status"
        ),
        ["100 5 40 2 played"]
    );
    let columns = "transition_id layer_id window_id start_abs_bounds_rect_id";
    let participants = "window_manager_shell_transition_participants";
    assert_eq!(rows(&trace, participants, columns), ["5 8 NULL 0"]);
    assert_eq!(rows(&trace, "winscope_rect", "x y w h"), ["0 0 30 20"]);
    let handlers = "window_manager_shell_transition_handlers";
    assert_eq!(
        rows(&trace, handlers, "handler_id handler_name"),
        ["2 Recents"]
    );
    let protos = "window_manager_shell_transition_protos";
    assert_eq!(rows(&trace, protos, "transition_id"), ["5", "5", "5"]);
}

#[test]
fn messages_are_filled_with_their_values() {
    use proto_log_viewer_config::{group, message_data};
    let config = encode(|out| {
        for (id, text) in [
            (1, "%s %d 0x%x %o %b %f %e %g %%"),
            (2, "a %d"),
            (2, "b %s"),
        ] {
            out.nested(proto_log_viewer_config::MESSAGES, |out| {
                out.fixed64(message_data::MESSAGE_ID, id);
                out.string(message_data::MESSAGE, text);
                out.int(message_data::LEVEL, 4);
                out.varint(message_data::GROUP_ID, 6);
            });
        }
        out.nested(proto_log_viewer_config::GROUPS, |out| {
            out.varint(group::ID, 6);
            out.string(group::TAG, "tag");
        });
    });
    let interned = encode(|out| {
        out.nested(
            frameworks_native_interned_data::PROTOLOG_STRING_ARGS,
            |out| {
                out.varint(interned_string::IID, 3);
                out.string(interned_string::STR, "text");
            },
        );
    });
    let filled = encode(|out| {
        out.fixed64(proto_log_message::MESSAGE_ID, 1);
        out.varint(proto_log_message::STR_PARAM_IIDS, 3);
        for value in [-5, 255, 8] {
            out.sint(proto_log_message::SINT64_PARAMS, value);
        }
        out.int(proto_log_message::BOOLEAN_PARAMS, 1);
        for value in [8.88, 888.0, 0.5] {
            out.double(proto_log_message::DOUBLE_PARAMS, value);
        }
    });
    let ambiguous = encode(|out| {
        out.fixed64(proto_log_message::MESSAGE_ID, 2);
        out.sint(proto_log_message::SINT64_PARAMS, 1);
    });
    let missing = encode(|out| out.fixed64(proto_log_message::MESSAGE_ID, 1));
    let unknown = encode(|out| out.fixed64(proto_log_message::MESSAGE_ID, 99));
    let field = packet::PROTOLOG_MESSAGE;
    // The texts of messages may come after the messages.
    let trace = packets(&[
        (5, trace_packet::INTERNED_DATA, interned),
        (10, field, filled),
        (20, field, ambiguous),
        (30, field, missing),
        (40, field, unknown),
        (50, packet::PROTOLOG_VIEWER_CONFIG, config),
    ]);
    let found = rows(&trace, "protolog", "ts level tag message");
    let text = "text -5 0xff 10 true 8.880000 8.880000e+02 0.5 %";
    assert_eq!(found[0], format!("10 WARN tag {text}"));
    assert_eq!(found[1], "20 WARN tag a 1");
    assert!(found[2].starts_with("30 WARN tag [MISSING_PARAM] "));
    assert_eq!(rows(&trace, "protolog", "level")[3], "NULL");
}

#[test]
fn views_are_scaled_with_their_parents() {
    use view_capture::view;
    let tree = encode(|out| {
        out.int(view_capture::PACKAGE_NAME_IID, 1);
        out.int(view_capture::WINDOW_NAME_IID, 9);
        for (id, parent, visibility) in [(0, -1, 0), (1, 0, 0), (2, 1, 4)] {
            out.nested(view_capture::VIEWS, |out| {
                out.int(view::ID, id);
                out.int(view::PARENT_ID, parent);
                out.int(view::LEFT, 10);
                out.int(view::WIDTH, 100);
                out.int(view::HEIGHT, 50);
                out.float(view::SCALE_X, if id == 1 { 0.5 } else { 1.0 });
                out.float(view::SCALE_Y, 1.0);
                out.int(view::VISIBILITY, visibility);
            });
        }
    });
    let texts = encode(|out| {
        out.nested(interned::VIEWCAPTURE_PACKAGE_NAME, |out| {
            out.varint(interned_string::IID, 1);
            out.string(interned_string::STR, "app");
        });
    });
    let (field, data) = extension(base::VIEWCAPTURE, &tree);
    let trace = packets(&[(5, trace_packet::INTERNED_DATA, texts), (10, field, data)]);
    assert_eq!(
        rows(&trace, "viewcapture", "ts package_name window_name"),
        ["10 app NULL"]
    );
    assert_eq!(
        args_of(&trace, "viewcapture", 0),
        [
            "window_name_iid=9",
            "package_name=\"app\"",
            "window_name=\"STRING DE-INTERNING ERROR\"",
        ]
    );
    assert_eq!(
        rows(
            &trace,
            "viewcapture_view",
            "node_id parent_id is_visible trace_rect_id"
        ),
        ["0 4294967295 1 0", "1 0 1 1", "2 1 0 2"]
    );
    assert_eq!(
        rows(&trace, "winscope_rect", "x w"),
        ["10 100", "45 50", "50 50"]
    );
    assert_eq!(
        rows(&trace, "winscope_trace_rect", "rect_id depth"),
        ["0 0", "1 4", "2 8"]
    );
}

#[test]
fn containers_of_windows_are_rows_without_their_children() {
    fn identifier(out: Out<'_, '_>, token: i64, title: &str) {
        out.nested(window_container_proto::IDENTIFIER, |out| {
            out.int(identifier_proto::HASH_CODE, token);
            out.string(identifier_proto::TITLE, title);
        });
        out.bool(window_container_proto::VISIBLE, true);
    }
    fn window(out: Out<'_, '_>) {
        out.nested(window_container_child_proto::WINDOW, |out| {
            out.nested(window_state_proto::WINDOW_CONTAINER, |out| {
                identifier(out, 30, "Starting app");
            });
            out.nested(window_state_proto::WINDOW_FRAMES, |out| {
                out.nested(window_frames_proto::FRAME, |out| {
                    out.int(rect_proto::RIGHT, 7);
                    out.int(rect_proto::BOTTOM, 8);
                });
            });
        });
    }
    let entry = encode(|out| {
        out.nested(window_manager_trace_entry::WINDOW_MANAGER_SERVICE, |out| {
            use window_manager_service_dump_proto as service;
            out.int(service::FOCUSED_DISPLAY_ID, 2);
            out.nested(service::ROOT_WINDOW_CONTAINER, |out| {
                out.nested(root_window_container_proto::WINDOW_CONTAINER, |out| {
                    identifier(out, 10, "root");
                    out.nested(window_container_proto::CHILDREN, |out| {
                        out.nested(window_container_child_proto::TASK, |out| {
                            out.int(task_proto::ID, 4);
                            out.string(task_proto::TASK_NAME, "main");
                            out.nested(task_proto::WINDOW_CONTAINER, |out| {
                                identifier(out, 20, "Task");
                                out.nested(window_container_proto::CHILDREN, window);
                            });
                        });
                    });
                });
            });
        });
    });
    let (field, data) = extension(base::WINDOWMANAGER, &entry);
    let trace = packets(&[(10, field, data)]);
    assert_eq!(
        rows(
            &trace,
            "windowmanager",
            "ts focused_display_id has_invalid_elapsed_ts"
        ),
        ["10 2 1"]
    );
    assert_eq!(
        args_of(&trace, "windowmanager", 0),
        ["window_manager_service.focused_display_id=2"]
    );
    let columns = "title token parent_token child_index container_type name_override";
    assert_eq!(
        rows(&trace, "windowmanager_windowcontainer", columns),
        [
            "root 10 NULL NULL RootWindowContainer NULL",
            "Task 20 10 0 Task 4(main)",
            "Starting app 30 20 0 WindowState app",
        ]
    );
    assert_eq!(rows(&trace, "winscope_rect", "x y w h"), ["0 0 7 8"]);
    let of_task = args_of(&trace, "windowmanager_windowcontainer", 1);
    assert!(of_task.contains(&"task.task_name=\"main\"".to_owned()));
    assert!(of_task.iter().all(|arg| !arg.contains("children")));
}

/// A layer over the whole screen.
fn layer(out: Out<'_, '_>, id: i64, z: i64, is_opaque: bool, more: &dyn Fn(Out<'_, '_>)) {
    out.nested(layers_proto::LAYERS, |out| {
        out.int(layer_proto::ID, id);
        out.int(layer_proto::Z, z);
        out.bool(layer_proto::IS_OPAQUE, is_opaque);
        out.nested(layer_proto::COLOR, |out| out.float(color_proto::A, 1.0));
        out.nested(layer_proto::ACTIVE_BUFFER, |out| {
            out.varint(active_buffer_proto::WIDTH, 100);
        });
        for bounds in [layer_proto::BOUNDS, layer_proto::SCREEN_BOUNDS] {
            out.nested(bounds, |out| {
                out.float(float_rect_proto::RIGHT, 100.0);
                out.float(float_rect_proto::BOTTOM, 50.0);
            });
        }
        more(out);
    });
}

#[test]
fn layers_below_opaque_ones_are_not_visible() {
    let snapshot = encode(|out| {
        out.nested(layers_snapshot_proto::LAYERS, |out| {
            layer(out, 1, 0, false, &|_| {});
            layer(out, 2, 1, true, &|_| {});
            layer(out, 3, 2, false, &|_| {});
            layer(out, 4, 3, false, &|out| out.varint(layer_proto::FLAGS, 1));
            layer(out, 5, 0, false, &|out| out.int(layer_proto::PARENT, 4));
            // Both refer to each other, and to no display.
            layer(out, 6, 0, false, &|out| out.int(layer_proto::PARENT, 7));
            layer(out, 7, 0, false, &|out| out.int(layer_proto::PARENT, 6));
        });
        out.nested(layers_snapshot_proto::DISPLAYS, |out| {
            out.varint(display_proto::ID, 8);
            out.nested(display_proto::LAYER_STACK_SPACE_RECT, |out| {
                out.int(rect_proto::RIGHT, 100);
                out.int(rect_proto::BOTTOM, 50);
            });
        });
    });
    let trace = packets(&[(10, packet::SURFACEFLINGER_LAYERS_SNAPSHOT, snapshot)]);
    assert_eq!(
        rows(
            &trace,
            "surfaceflinger_layers_snapshot",
            "ts sequence_id has_invalid_elapsed_ts"
        ),
        ["10 7 1"]
    );
    assert_eq!(
        rows(
            &trace,
            "surfaceflinger_display",
            "display_id is_on is_virtual"
        ),
        ["8 1 0"]
    );
    assert_eq!(
        rows(
            &trace,
            "surfaceflinger_layer",
            "layer_id is_visible is_hidden_by_policy"
        ),
        [
            "1 0 0", "2 1 0", "3 1 0", "4 0 1", "5 0 0", "6 0 0", "7 0 0"
        ]
    );
    let reasons = |row| {
        let all = args_of(&trace, "surfaceflinger_layer", row).into_iter();
        let computed = ["visibility_reason", "occluded_by", "covered_by"];
        let is_computed = |arg: &String| computed.iter().any(|key| arg.starts_with(key));
        all.filter(is_computed).collect::<Vec<_>>()
    };
    assert_eq!(
        reasons(0),
        [
            "visibility_reason[0]=\"occluded\"",
            "occluded_by[0]=2",
            "covered_by[0]=3"
        ]
    );
    assert_eq!(reasons(1), ["covered_by[0]=3"]);
    assert_eq!(reasons(4), ["visibility_reason[0]=\"hidden by parent 4\""]);
    // The display is behind its layers.
    assert_eq!(
        rows(&trace, "winscope_trace_rect", "depth is_visible opacity"),
        ["0 0 NULL", "1 0 1", "2 1 1", "3 1 1", "4 0 1", "5 0 1"]
    );
}
