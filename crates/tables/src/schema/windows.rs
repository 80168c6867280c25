//! Tables of windows, layers, views and input on Android. Columns `base64_proto_id` are numbers of
//! texts in the string pool.

use crate::strings::StringId;
use crate::table::table;

table! {
    /// Rectangles on screens.
    WinscopeRectRow, WinscopeRectTable = "winscope_rect" {
        /// The left edge.
        x: f64,
        /// The upper edge.
        y: f64,
        /// The width.
        w: f64,
        /// The height.
        h: f64,
    }
}

table! {
    /// Transformations of rectangles.
    WinscopeTransformRow, WinscopeTransformTable = "winscope_transform" {
        /// The factor of x in x.
        dsdx: f64,
        /// The factor of y in x.
        dtdx: f64,
        /// The shift of x.
        tx: f64,
        /// The factor of x in y.
        dtdy: f64,
        /// The factor of y in y.
        dsdy: f64,
        /// The shift of y.
        ty: f64,
    }
}

table! {
    /// Rectangles of layers, displays, windows and views.
    WinscopeTraceRectRow, WinscopeTraceRectTable = "winscope_trace_rect" {
        /// The rectangle: `winscope_rect.id`.
        rect_id: u32,
        /// The group that is drawn together, such as a display.
        group_id: u32,
        /// The place from the back to the front.
        depth: u32,
        /// 1 if the input window only listens.
        is_spy: bool,
        /// 1 if it is visible.
        is_visible: bool,
        /// The opacity.
        opacity: Option<f64>,
        /// The transformation: `winscope_transform.id`.
        transform_id: u32,
        /// The width of the border.
        border_width: Option<f64>,
        /// The colour of the border, as ARGB.
        border_color: Option<u32>,
    }
}

table! {
    /// The parts of windows that take input.
    WinscopeFillRegionRow, WinscopeFillRegionTable = "winscope_fill_region" {
        /// The window: `winscope_trace_rect.id`.
        trace_rect_id: u32,
        /// The part: `winscope_rect.id`.
        rect_id: u32,
    }
}

table! {
    /// The states of all layers at a time.
    SurfaceflingerLayersSnapshotRow, SurfaceflingerLayersSnapshotTable = "surfaceflinger_layers_snapshot" {
        /// The time in nanoseconds.
        ts: i64 [sorted],
        /// Its other fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The number of the encoded packet.
        base64_proto_id: Option<u32>,
        /// The sequence of packets.
        sequence_id: u32,
        /// 1 if the packet has no time of its own.
        has_invalid_elapsed_ts: Option<u32>,
    }
}

table! {
    /// Displays.
    SurfaceflingerDisplayRow, SurfaceflingerDisplayTable = "surfaceflinger_display" {
        /// The snapshot: `surfaceflinger_layers_snapshot.id`.
        snapshot_id: u32,
        /// 1 if it is on.
        is_on: bool,
        /// 1 if it is no device.
        is_virtual: bool,
        /// Its rectangle: `winscope_trace_rect.id`.
        trace_rect_id: u32,
        /// The id of the display.
        display_id: i64,
        /// The name.
        display_name: StringId,
    }
}

table! {
    /// Layers.
    SurfaceflingerLayerRow, SurfaceflingerLayerTable = "surfaceflinger_layer" {
        /// The snapshot: `surfaceflinger_layers_snapshot.id`.
        snapshot_id: u32,
        /// Its fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The number of the encoded layer.
        base64_proto_id: Option<u32>,
        /// The id of the layer.
        layer_id: Option<i64>,
        /// The name.
        layer_name: StringId,
        /// 1 if it is visible.
        is_visible: bool,
        /// The id of its parent.
        parent: Option<i64>,
        /// The radius of the upper left corner.
        corner_radius_tl: Option<f64>,
        /// The radius of the upper right corner.
        corner_radius_tr: Option<f64>,
        /// The radius of the lower left corner.
        corner_radius_bl: Option<f64>,
        /// The radius of the lower right corner.
        corner_radius_br: Option<f64>,
        /// The way in which it is composed.
        hwc_composition_type: Option<i64>,
        /// 1 if it is marked as hidden.
        is_hidden_by_policy: bool,
        /// The id of the layer to which its order refers.
        z_order_relative_of: Option<i64>,
        /// 1 if that layer does not exist.
        is_missing_z_parent: bool,
        /// Its rectangle: `winscope_trace_rect.id`.
        layer_rect_id: Option<u32>,
        /// The rectangle of its input window: `winscope_trace_rect.id`.
        input_rect_id: Option<u32>,
    }
}

table! {
    /// Changes that were applied at a time.
    SurfaceflingerTransactionsRow, SurfaceflingerTransactionsTable = "surfaceflinger_transactions" {
        /// The time in nanoseconds.
        ts: i64 [sorted],
        /// Its fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The number of the encoded packet.
        base64_proto_id: Option<u32>,
        /// The id of the vertical synchronisation.
        vsync_id: Option<i64>,
    }
}

table! {
    /// Single changes of layers and displays.
    SurfaceflingerTransactionRow, SurfaceflingerTransactionTable = "surfaceflinger_transaction" {
        /// The changes of this time: `surfaceflinger_transactions.id`.
        snapshot_id: u32,
        /// Its fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The number of the encoded change.
        base64_proto_id: Option<u32>,
        /// The id of the transaction.
        transaction_id: Option<i64>,
        /// The process that made it.
        pid: Option<u32>,
        /// The user of that process.
        uid: Option<u32>,
        /// The id of the layer.
        layer_id: Option<u32>,
        /// The id of the display.
        display_id: Option<u32>,
        /// The changed properties: `surfaceflinger_transaction_flag.flags_id`.
        flags_id: Option<u32>,
        /// The kind, such as `LAYER_CHANGED`.
        transaction_type: StringId,
    }
}

table! {
    /// The properties that transactions change.
    SurfaceflingerTransactionFlagRow, SurfaceflingerTransactionFlagTable = "surfaceflinger_transaction_flag" {
        /// The set of properties.
        flags_id: Option<u32>,
        /// The name of a property.
        flag: StringId,
    }
}

table! {
    /// Trees of views at a time.
    ViewcaptureRow, ViewcaptureTable = "viewcapture" {
        /// The time in nanoseconds.
        ts: i64 [sorted],
        /// Its fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The number of the encoded packet.
        base64_proto_id: Option<u32>,
        /// The package.
        package_name: StringId,
        /// The window.
        window_name: StringId,
    }
}

table! {
    /// Views.
    ViewcaptureViewRow, ViewcaptureViewTable = "viewcapture_view" {
        /// The tree: `viewcapture.id`.
        snapshot_id: u32,
        /// Its fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The number of the encoded view.
        base64_proto_id: Option<u32>,
        /// The id of the view in its tree.
        node_id: u32,
        /// The hash of the view.
        hashcode: u32,
        /// 1 if it is visible.
        is_visible: bool,
        /// The `node_id` of its parent.
        parent_id: u32,
        /// The name of the view.
        view_id: StringId,
        /// The class.
        class_name: StringId,
        /// Its rectangle: `winscope_trace_rect.id`.
        trace_rect_id: u32,
    }
}

table! {
    /// Interned texts of views.
    ViewcaptureInternedDataRow, ViewcaptureInternedDataTable = "viewcapture_interned_data" {
        /// The number of the encoded view or tree.
        base64_proto_id: u32,
        /// The field.
        flat_key: StringId,
        /// The id of the text.
        iid: i64,
        /// The text.
        deinterned_value: StringId,
    }
}

table! {
    /// The states of all windows at a time.
    WindowmanagerRow, WindowmanagerTable = "windowmanager" {
        /// The time in nanoseconds.
        ts: i64 [sorted],
        /// Its fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The number of the encoded packet without windows.
        base64_proto_id: Option<u32>,
        /// The display with the focus.
        focused_display_id: u32,
        /// 1 if the packet has no time of its own.
        has_invalid_elapsed_ts: u32,
    }
}

table! {
    /// Windows, and what contains them.
    WindowmanagerWindowcontainerRow, WindowmanagerWindowcontainerTable = "windowmanager_windowcontainer" {
        /// The snapshot: `windowmanager.id`.
        snapshot_id: u32,
        /// Its fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The number of the encoded container without those in it.
        base64_proto_id: Option<u32>,
        /// The title.
        title: StringId,
        /// The token.
        token: i32,
        /// The token of its parent.
        parent_token: Option<i32>,
        /// The place among the children of its parent.
        child_index: Option<u32>,
        /// 1 if it is visible.
        is_visible: bool,
        /// Its rectangle: `winscope_trace_rect.id`.
        window_rect_id: Option<u32>,
        /// The kind, such as `Task`.
        container_type: StringId,
        /// The name to show, if it is not the title.
        name_override: StringId,
    }
}

table! {
    /// Transitions between windows.
    WindowManagerShellTransitionsRow, WindowManagerShellTransitionsTable = "window_manager_shell_transitions" {
        /// The time at which it was sent, in nanoseconds.
        ts: i64,
        /// The id of the transition.
        transition_id: i64,
        /// Its fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The number of its type.
        transition_type: Option<u32>,
        /// The time at which it was sent.
        send_time_ns: Option<i64>,
        /// The time at which it was given to a handler.
        dispatch_time_ns: Option<i64>,
        /// The time that it was played.
        duration_ns: Option<i64>,
        /// The time at which it finished.
        finish_time_ns: Option<i64>,
        /// The time at which the shell aborted it.
        shell_abort_time_ns: Option<i64>,
        /// The time at which the window manager aborted it.
        wm_abort_time_ns: Option<i64>,
        /// The time at which it was merged with another.
        merge_time_ns: Option<i64>,
        /// The time at which it was created.
        create_time_ns: Option<i64>,
        /// The handler: `window_manager_shell_transition_handlers.handler_id`.
        handler: Option<i64>,
        /// The result: `played`, `merged` or `aborted`.
        status: StringId,
        /// Flags.
        flags: Option<u32>,
        /// The transaction at its beginning.
        start_transaction_id: Option<i64>,
        /// The transaction at its end.
        finish_transaction_id: Option<i64>,
    }
}

table! {
    /// Handlers of transitions.
    WindowManagerShellTransitionHandlersRow, WindowManagerShellTransitionHandlersTable = "window_manager_shell_transition_handlers" {
        /// The id of the handler.
        handler_id: i64,
        /// The name.
        handler_name: StringId,
        /// The number of the encoded packet.
        base64_proto_id: Option<u32>,
    }
}

table! {
    /// The windows that transitions change.
    WindowManagerShellTransitionParticipantsRow, WindowManagerShellTransitionParticipantsTable = "window_manager_shell_transition_participants" {
        /// The transition.
        transition_id: i64,
        /// The id of the layer.
        layer_id: Option<u32>,
        /// The id of the window.
        window_id: Option<u32>,
        /// The number of the change.
        mode: Option<u32>,
        /// Flags.
        flags: Option<u32>,
        /// The display before.
        start_display_id: Option<u32>,
        /// The display after.
        end_display_id: Option<u32>,
        /// The rotation before.
        start_rotation: Option<u32>,
        /// The rotation after.
        end_rotation: Option<u32>,
        /// The place before: `winscope_rect.id`.
        start_abs_bounds_rect_id: Option<u32>,
        /// The place after: `winscope_rect.id`.
        end_abs_bounds_rect_id: Option<u32>,
    }
}

table! {
    /// The packets of transitions.
    WindowManagerShellTransitionProtosRow, WindowManagerShellTransitionProtosTable = "window_manager_shell_transition_protos" {
        /// The transition.
        transition_id: i64,
        /// The number of the encoded packet.
        base64_proto_id: Option<u32>,
    }
}

table! {
    /// Logs of system services.
    ProtologRow, ProtologTable = "protolog" {
        /// The time in nanoseconds.
        ts: i64 [sorted],
        /// The level.
        level: StringId,
        /// The group.
        tag: StringId,
        /// The text.
        message: StringId,
        /// The callstack.
        stacktrace: StringId,
        /// The file and line.
        location: StringId,
    }
}

table! {
    /// States of the clients of input methods.
    InputmethodClientsRow, InputmethodClientsTable = "inputmethod_clients" {
        /// The time in nanoseconds.
        ts: i64 [sorted],
        /// Its fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The number of the encoded packet.
        base64_proto_id: Option<u32>,
    }
}

table! {
    /// States of the manager of input methods.
    InputmethodManagerServiceRow, InputmethodManagerServiceTable = "inputmethod_manager_service" {
        /// The time in nanoseconds.
        ts: i64 [sorted],
        /// Its fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The number of the encoded packet.
        base64_proto_id: Option<u32>,
    }
}

table! {
    /// States of input methods.
    InputmethodServiceRow, InputmethodServiceTable = "inputmethod_service" {
        /// The time in nanoseconds.
        ts: i64 [sorted],
        /// Its fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The number of the encoded packet.
        base64_proto_id: Option<u32>,
    }
}

table! {
    /// Motions of fingers, pens and pointers.
    AndroidMotionEventsRow, AndroidMotionEventsTable = "android_motion_events" {
        /// The id of the event.
        event_id: u32,
        /// The time in nanoseconds.
        ts: i64,
        /// Its fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The number of the encoded event.
        base64_proto_id: Option<u32>,
        /// The kind of device.
        source: Option<u32>,
        /// The action.
        action: Option<i64>,
        /// The device.
        device_id: Option<i64>,
        /// The display.
        display_id: Option<i64>,
    }
}

table! {
    /// Presses and releases of keys.
    AndroidKeyEventsRow, AndroidKeyEventsTable = "android_key_events" {
        /// The id of the event.
        event_id: u32,
        /// The time in nanoseconds.
        ts: i64,
        /// Its fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The number of the encoded event.
        base64_proto_id: Option<u32>,
        /// The kind of device.
        source: Option<u32>,
        /// The action.
        action: Option<i64>,
        /// The device.
        device_id: Option<i64>,
        /// The display.
        display_id: Option<i64>,
        /// The key.
        key_code: Option<i64>,
    }
}

table! {
    /// Events of input as sent to windows.
    AndroidInputEventDispatchRow, AndroidInputEventDispatchTable = "android_input_event_dispatch" {
        /// The event.
        event_id: u32,
        /// Its fields: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The id of the vertical synchronisation.
        vsync_id: i64,
        /// The window.
        window_id: i32,
        /// The number of the encoded event.
        base64_proto_id: Option<u32>,
    }
}
