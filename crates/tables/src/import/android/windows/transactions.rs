//! Changes of layers and displays: `TransactionTraceEntry`.

use ferretto_proto::fields::android::{
    display_state, layer_creation_args, layer_state, transaction_state,
    transaction_trace_entry as entry,
};
use rustc_hash::FxHashMap;

use super::super::super::context::Context;
use super::part::Part;
use super::{Windows, encoded};
use crate::schema::{
    SurfaceflingerTransactionFlagRow, SurfaceflingerTransactionRow, SurfaceflingerTransactionsRow,
    TableId,
};
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// The names of the properties that transactions change, by their bits. The order is that of the
/// table.
const OF_LAYERS: &[(u64, &str)] = &[
    (1, "ePositionChanged"),
    (1 << 1, "eLayerChanged"),
    (1 << 3, "eAlphaChanged"),
    (1 << 4, "eMatrixChanged"),
    (1 << 5, "eTransparentRegionChanged"),
    (1 << 6, "eFlagsChanged"),
    (1 << 7, "eLayerStackChanged"),
    (1 << 10, "eReleaseBufferListenerChanged"),
    (1 << 11, "eShadowRadiusChanged"),
    (1 << 13, "eBufferCropChanged"),
    (1 << 14, "eRelativeLayerChanged"),
    (1 << 15, "eReparent"),
    (1 << 16, "eColorChanged"),
    (1 << 18, "eBufferTransformChanged"),
    (1 << 19, "eTransformToDisplayInverseChanged"),
    (1 << 20, "eCropChanged"),
    (1 << 21, "eBufferChanged"),
    (1 << 22, "eAcquireFenceChanged"),
    (1 << 23, "eDataspaceChanged"),
    (1 << 24, "eHdrMetadataChanged"),
    (1 << 25, "eSurfaceDamageRegionChanged"),
    (1 << 26, "eApiChanged"),
    (1 << 27, "eSidebandStreamChanged"),
    (1 << 28, "eColorTransformChanged"),
    (1 << 29, "eHasListenerCallbacksChanged"),
    (1 << 30, "eInputInfoChanged"),
    (1 << 31, "eCornerRadiusChanged"),
    (1 << 32, "eDestinationFrameChanged"),
    (1 << 33, "eCachedBufferChanged"),
    (1 << 34, "eBackgroundColorChanged"),
    (1 << 35, "eMetadataChanged"),
    (1 << 36, "eColorSpaceAgnosticChanged"),
    (1 << 37, "eFrameRateSelectionPriority"),
    (1 << 38, "eFrameRateChanged"),
    (1 << 39, "eBackgroundBlurRadiusChanged"),
    (1 << 40, "eProducerDisconnect"),
    (1 << 41, "eFixedTransformHintChanged"),
    (1 << 42, "eFrameNumberChanged"),
    (1 << 43, "eBlurRegionsChanged"),
    (1 << 44, "eAutoRefreshChanged"),
    (1 << 45, "eStretchChanged"),
    (1 << 46, "eTrustedOverlayChanged"),
    (1 << 47, "eDropInputModeChanged"),
];
const OF_DISPLAYS: &[(u64, &str)] = &[
    (1, "eSurfaceChanged"),
    (1 << 1, "eLayerStackChanged"),
    (1 << 2, "eDisplayProjectionChanged"),
    (1 << 3, "eDisplaySizeChanged"),
    (1 << 4, "eFlagsChanged"),
];

/// The fields of a transaction that each of its changes has, too.
const OF_TRANSACTION: [u32; 2] = [
    transaction_state::APPLY_TOKEN,
    transaction_state::TRANSACTION_BARRIERS,
];

/// The objects that a transaction changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    Layer,
    Display,
}

/// The sets of properties in the table.
#[derive(Debug, Default)]
pub(super) struct Flags(FxHashMap<(Of, u64), u32>);

impl Flags {
    /// Returns the id of a set of properties.
    fn intern(&mut self, cx: &mut Context, of: Of, bits: u64) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry((of, bits)).or_insert_with(|| {
            let names = match of {
                Of::Layer => OF_LAYERS,
                Of::Display => OF_DISPLAYS,
            };
            for (_, name) in names.iter().filter(|(bit, _)| bits & bit != 0) {
                let row = SurfaceflingerTransactionFlagRow {
                    flags_id: Some(next),
                    flag: cx.store.strings.intern(name),
                };
                cx.store.tables.surfaceflinger_transaction_flag.push(row);
            }
            next
        })
    }
}

impl Windows {
    /// Reads a `TransactionTraceEntry`.
    pub(super) fn transactions(&mut self, cx: &mut Context, ts: i64, part: Part<'_>) {
        let tables = [
            TableId::surfaceflinger_transactions,
            TableId::surfaceflinger_transaction,
            TableId::surfaceflinger_transaction_flag,
        ];
        if !tables.iter().any(|table| cx.store.wants(*table)) {
            return;
        }
        let row = SurfaceflingerTransactionsRow {
            ts,
            arg_set_id: self.messages.args(cx, "TransactionTraceEntry", part),
            base64_proto_id: encoded(cx, part),
            vsync_id: Some(part.long(entry::VSYNC_ID).unwrap_or(0)),
        };
        let snapshot_id = cx.store.tables.surfaceflinger_transactions.push(row);
        let mut kind = |name| cx.store.strings.intern(name);
        let kinds = [
            kind("LAYER_ADDED"),
            kind("LAYER_DESTROYED"),
            kind("DISPLAY_ADDED"),
            kind("DISPLAY_REMOVED"),
            kind("LAYER_HANDLE_DESTROYED"),
        ];
        let base = |transaction_type| SurfaceflingerTransactionRow {
            snapshot_id,
            arg_set_id: None,
            base64_proto_id: None,
            transaction_id: None,
            pid: None,
            uid: None,
            layer_id: None,
            display_id: None,
            flags_id: None,
            transaction_type,
        };
        for transaction in part.parts(entry::TRANSACTIONS) {
            self.transaction(cx, transaction, base(StringId::NULL));
        }
        for layer in part.parts(entry::ADDED_LAYERS) {
            let row = SurfaceflingerTransactionRow {
                layer_id: Some(layer.uint(layer_creation_args::LAYER_ID).unwrap_or(0)),
                arg_set_id: self.messages.args(cx, "LayerCreationArgs", layer),
                base64_proto_id: encoded(cx, layer),
                ..base(kinds[0])
            };
            cx.store.tables.surfaceflinger_transaction.push(row);
        }
        let changes = &mut cx.store.tables.surfaceflinger_transaction;
        for layer in part.integers(entry::DESTROYED_LAYERS) {
            changes.push(SurfaceflingerTransactionRow {
                layer_id: Some(layer as u32),
                ..base(kinds[1])
            });
        }
        for display in part.parts(entry::ADDED_DISPLAYS) {
            self.change(cx, Of::Display, display, None, base(kinds[2]));
        }
        let changes = &mut cx.store.tables.surfaceflinger_transaction;
        for display in part.integers(entry::REMOVED_DISPLAYS) {
            changes.push(SurfaceflingerTransactionRow {
                display_id: Some(display as u32),
                ..base(kinds[3])
            });
        }
        for layer in part.integers(entry::DESTROYED_LAYER_HANDLES) {
            changes.push(SurfaceflingerTransactionRow {
                layer_id: Some(layer as u32),
                ..base(kinds[4])
            });
        }
    }

    /// Adds the changes of a transaction.
    fn transaction(
        &mut self,
        cx: &mut Context,
        part: Part<'_>,
        base: SurfaceflingerTransactionRow,
    ) {
        use transaction_state as of;
        let mut row = |name| SurfaceflingerTransactionRow {
            transaction_id: Some(part.long(of::TRANSACTION_ID).unwrap_or(0)),
            pid: Some(part.uint(of::PID).unwrap_or(0)),
            uid: Some(part.uint(of::UID).unwrap_or(0)),
            transaction_type: cx.store.strings.intern(name),
            ..base
        };
        let rows = [row("LAYER_CHANGED"), row("DISPLAY_CHANGED"), row("NOOP")];
        let mut is_empty = true;
        let changes = [
            (of::LAYER_CHANGES, Of::Layer, rows[0]),
            (of::DISPLAY_CHANGES, Of::Display, rows[1]),
        ];
        for (number, of, row) in changes {
            for change in part.parts(number) {
                is_empty = false;
                self.change(cx, of, change, Some(part), row);
            }
        }
        if is_empty {
            cx.store.tables.surfaceflinger_transaction.push(rows[2]);
        }
    }

    /// Adds a change of a layer or a display.
    fn change(
        &mut self,
        cx: &mut Context,
        of: Of,
        part: Part<'_>,
        transaction: Option<Part<'_>>,
        mut row: SurfaceflingerTransactionRow,
    ) {
        let (name, what) = match of {
            Of::Layer => {
                row.layer_id = Some(part.uint(layer_state::LAYER_ID).unwrap_or(0));
                ("LayerState", part.long(layer_state::WHAT))
            }
            Of::Display => {
                row.display_id = Some(part.uint(display_state::ID).unwrap_or(0));
                let what = part.uint(display_state::WHAT).map(i64::from);
                ("DisplayState", what)
            }
        };
        row.flags_id = what.map(|bits| self.flags.intern(cx, of, bits as u64));
        row.base64_proto_id = encoded(cx, part);
        let mut args = ArgSet::default();
        self.messages.add(cx, name, part, &|_| true, &mut args);
        if let Some(transaction) = transaction {
            let is_shown = |number| OF_TRANSACTION.contains(&number);
            self.messages
                .add(cx, "TransactionState", transaction, &is_shown, &mut args);
        }
        row.arg_set_id = args.finish(&mut cx.store);
        cx.store.tables.surfaceflinger_transaction.push(row);
    }
}
