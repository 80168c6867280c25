//! The layers and displays of the compositor: `LayersSnapshotProto`.

use ferretto_proto::fields::android::{
    border_settings, display_proto as display, input_window_info_proto as window,
    layer_proto as of, layers_snapshot_proto as snapshot, region_proto,
};
use rustc_hash::FxHashMap;

use super::super::super::context::Context;
use super::geometry::{Matrix, Rect};
use super::part::Part;
use super::visibility::{Layer, Layers, Visibility, display_matrix, display_size, display_space};
use super::{WindowPacket, Windows, encoded};
use crate::schema::{
    ArgValue, SurfaceflingerDisplayRow, SurfaceflingerLayerRow, SurfaceflingerLayersSnapshotRow,
    TableId, WinscopeFillRegionRow, WinscopeTraceRectRow,
};
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// The stack of layers of a display that is off.
const NO_STACK: u32 = u32::MAX;
/// The bits of the configuration of an input window.
const NOT_TOUCHABLE: u32 = 1 << 3;
const WALLPAPER: u32 = 1 << 6;
const SPY: u32 = 1 << 14;
/// The bounds of layers without bounds, on devices whose displays are not known.
const UNBOUNDED: Rect = Rect {
    x: -50_000.0,
    y: -50_000.0,
    w: 100_000.0,
    h: 100_000.0,
};

/// The displays of a snapshot.
#[derive(Debug, Default)]
struct Displays {
    /// The area and the transformation of each stack of layers.
    spaces: FxHashMap<u32, Rect>,
    matrices: FxHashMap<u32, Matrix>,
    /// The bounds that layers without bounds have.
    unbounded: Vec<Rect>,
}

impl Displays {
    fn read(part: Part<'_>) -> Self {
        let mut displays = Self::default();
        let (mut width, mut height) = (0.0_f64, 0.0_f64);
        let mut sizes = Vec::new();
        for display in part.parts(snapshot::DISPLAYS) {
            let stack = display.uint(display::LAYER_STACK).unwrap_or(0);
            displays.spaces.insert(stack, display_space(display));
            displays.matrices.insert(stack, display_matrix(display));
            let size = display_size(display);
            (width, height) = (width.max(size.0), height.max(size.1));
            sizes.push(size);
        }
        if !sizes.is_empty() {
            sizes.push((width, height));
        }
        // They are ten times the size of the largest display, turned or not.
        for (w, h) in sizes {
            let (x, y) = (w * 10.0, h * 10.0);
            displays.unbounded.push(Rect::between(-x, -y, x, y));
            displays.unbounded.push(Rect::between(-y, -x, y, x));
        }
        displays
    }

    fn is_unbounded(&self, rect: &Rect) -> bool {
        self.unbounded.iter().any(|other| rect.is_close(other))
    }
}

/// The rows of the rectangles of a layer: of its bounds and of its input window.
type LayerRects = (Option<u32>, Option<u32>);

/// The next places in the order of drawing, by stack of layers.
#[derive(Debug, Default)]
struct Depths(FxHashMap<u32, u32>);

impl Depths {
    /// The stacks of displays begin at 1, since the display is at 0.
    fn of(displays: &Displays) -> Self {
        Self(displays.spaces.keys().map(|stack| (*stack, 1)).collect())
    }

    fn take(&mut self, stack: u32) -> u32 {
        let next = self.0.entry(stack).or_insert(0);
        *next += 1;
        *next - 1
    }
}

impl Windows {
    /// Reads a `LayersSnapshotProto`.
    pub(super) fn layers(&mut self, cx: &mut Context, input: WindowPacket<'_>, part: Part<'_>) {
        let tables = [
            TableId::surfaceflinger_layers_snapshot,
            TableId::surfaceflinger_layer,
            TableId::surfaceflinger_display,
        ];
        if !tables.iter().any(|table| cx.store.wants(*table)) {
            return;
        }
        let mut args = ArgSet::default();
        let is_shown = |number| number != snapshot::LAYERS;
        self.messages
            .add(cx, "LayersSnapshotProto", part, &is_shown, &mut args);
        let time = part.long(snapshot::ELAPSED_REALTIME_NANOS).unwrap_or(0);
        let row = SurfaceflingerLayersSnapshotRow {
            ts: input.ts,
            arg_set_id: args.finish(&mut cx.store),
            base64_proto_id: encoded(cx, part),
            sequence_id: input.state.state.sequence_id,
            has_invalid_elapsed_ts: Some(u32::from(time == 0)),
        };
        let snapshot_id = cx.store.tables.surfaceflinger_layers_snapshot.push(row);
        for (index, display) in (0..).zip(part.parts(snapshot::DISPLAYS)) {
            self.display(cx, snapshot_id, index, display);
        }
        let displays = Displays::read(part);
        let layers = Layers::read(part);
        let visibility = layers.visibility();
        let mut rects: FxHashMap<i32, LayerRects> = FxHashMap::default();
        let (mut of_bounds, mut of_input) = (Depths::of(&displays), Depths::of(&displays));
        for index in &layers.drawn {
            let layer = &layers.all[*index];
            let Some(id) = layer.id else {
                continue;
            };
            let is_visible = visibility.get(&id).is_some_and(|known| known.is_visible);
            let bounds = self.bounds(cx, layer, is_visible, &displays, &mut of_bounds);
            let window = self.window_input(cx, layer, is_visible, &displays, &mut of_input);
            rects.insert(id, (bounds, window));
        }
        for layer in &layers.all {
            let visibility = layer.id.and_then(|id| visibility.get(&id));
            let rects = layer.id.and_then(|id| rects.get(&id).copied());
            let rects = rects.unwrap_or_default();
            self.layer(cx, snapshot_id, (&layers, layer), visibility, rects);
        }
    }

    fn display(&mut self, cx: &mut Context, snapshot_id: u32, index: u32, part: Part<'_>) {
        let stack = part.uint(display::LAYER_STACK).unwrap_or(0);
        let mut rect = display_space(part);
        if rect.is_empty() {
            let (w, h) = display_size(part);
            rect = Rect::between(0.0, 0.0, w, h);
        }
        let row = WinscopeTraceRectRow {
            rect_id: self.rects.rect(cx, rect),
            group_id: stack,
            depth: index,
            is_spy: false,
            is_visible: false,
            opacity: None,
            transform_id: 0,
            border_width: None,
            border_color: None,
        };
        let trace_rect_id = cx.store.tables.winscope_trace_rect.push(row);
        let name = part.bytes(display::NAME);
        let row = SurfaceflingerDisplayRow {
            snapshot_id,
            is_on: stack != NO_STACK,
            is_virtual: part.bool(display::IS_VIRTUAL).unwrap_or(false),
            trace_rect_id,
            display_id: part.long(display::ID).unwrap_or(0),
            display_name: name.map_or(StringId::NULL, |name| cx.store.strings.intern_bytes(name)),
        };
        cx.store.tables.surfaceflinger_display.push(row);
    }

    /// Adds the rectangle of the bounds of a layer, if it has bounds.
    fn bounds(
        &mut self,
        cx: &mut Context,
        layer: &Layer<'_>,
        is_visible: bool,
        displays: &Displays,
        depths: &mut Depths,
    ) -> Option<u32> {
        let screen = layer.screen()?;
        let is_bounded = !displays.is_unbounded(&screen) && !screen.is_close(&UNBOUNDED);
        if !is_visible && !is_bounded {
            return None;
        }
        let border = layer.part.part(of::BORDER_SETTINGS).unwrap_or_default();
        let width = border.float(border_settings::STROKE_WIDTH);
        let color = border.uint(border_settings::COLOR).unwrap_or(0);
        let has_border = width > 0.0;
        let row = WinscopeTraceRectRow {
            rect_id: self.rects.rect(cx, layer.bounds()),
            group_id: layer.stack,
            depth: depths.take(layer.stack),
            is_spy: false,
            is_visible,
            opacity: layer.alpha().or(is_visible.then_some(0.0)),
            transform_id: self.rects.matrix(cx, layer.matrix()),
            border_width: has_border.then_some(width),
            border_color: has_border.then_some(color),
        };
        Some(cx.store.tables.winscope_trace_rect.push(row))
    }

    /// Adds the rectangle of the input window of a layer, if it has one.
    fn window_input(
        &mut self,
        cx: &mut Context,
        layer: &Layer<'_>,
        is_visible: bool,
        displays: &Displays,
        depths: &mut Depths,
    ) -> Option<u32> {
        let part = layer.part.part(of::INPUT_WINDOW_INFO)?;
        let matrix = layer.matrix();
        let inverse = matrix.inverse();
        // Frames are on the display; those of layers are in front of their transformation.
        let of_layer = |rect: Rect| {
            let of_display = displays.matrices.get(&layer.stack);
            inverse.rect(&of_display.map_or(rect, |matrix| matrix.rect(&rect)))
        };
        let config = part.uint(window::INPUT_CONFIG).unwrap_or(0);
        let frame = part.part(window::FRAME).map(Rect::of_integers);
        let mut frame = frame.map(of_layer).unwrap_or_default();
        let is_cropped =
            frame.is_empty() || config & WALLPAPER != 0 || displays.is_unbounded(&frame);
        let crop = displays.spaces.get(&layer.stack).filter(|_| is_cropped);
        if let Some(crop) = crop {
            frame = frame.crop(crop);
        }
        let row = WinscopeTraceRectRow {
            rect_id: self.rects.rect(cx, frame),
            group_id: layer.stack,
            depth: depths.take(layer.stack),
            is_spy: config & SPY != 0,
            is_visible: part.bool(window::VISIBLE).unwrap_or(is_visible),
            opacity: None,
            transform_id: self.rects.matrix(cx, matrix),
            border_width: None,
            border_color: None,
        };
        let trace_rect_id = cx.store.tables.winscope_trace_rect.push(row);
        let region = part.part(window::TOUCHABLE_REGION);
        let mut touchable: Vec<Rect> = Vec::new();
        if let Some(region) = region
            && config & NOT_TOUCHABLE == 0
        {
            for rect in region.parts(region_proto::RECT) {
                let rect = of_layer(Rect::of_integers(rect));
                touchable.push(crop.map_or(rect, |crop| rect.crop(crop)));
            }
        }
        let has_region = region.is_some() || config & NOT_TOUCHABLE != 0;
        if has_region && touchable.is_empty() {
            touchable.push(Rect::default());
        }
        for rect in touchable {
            let row = WinscopeFillRegionRow {
                trace_rect_id,
                rect_id: self.rects.rect(cx, rect),
            };
            cx.store.tables.winscope_fill_region.push(row);
        }
        Some(trace_rect_id)
    }

    fn layer(
        &mut self,
        cx: &mut Context,
        snapshot_id: u32,
        (layers, layer): (&Layers<'_>, &Layer<'_>),
        visibility: Option<&Visibility>,
        (layer_rect_id, input_rect_id): LayerRects,
    ) {
        let part = layer.part;
        let mut args = ArgSet::default();
        self.messages
            .add(cx, "LayerProto", part, &|_| true, &mut args);
        if let Some(visibility) = visibility {
            let reasons = visibility.reasons.iter();
            let reasons: Vec<ArgValue> = reasons
                .map(|reason| ArgValue::Text(cx.store.strings.intern(reason)))
                .collect();
            list(cx, "visibility_reason", &reasons, &mut args);
            let others = [
                ("occluded_by", &visibility.occluding),
                ("partially_occluded_by", &visibility.partly_occluding),
                ("covered_by", &visibility.covering),
            ];
            for (key, others) in others {
                let ids = others.iter().map(|id| ArgValue::Int((*id).into()));
                list(cx, key, &ids.collect::<Vec<_>>(), &mut args);
            }
        }
        let [top_left, top_right, bottom_left, bottom_right] = layer.radii.0;
        let z_parent = part.int(of::Z_ORDER_RELATIVE_OF);
        let name = part.bytes(of::NAME);
        let row = SurfaceflingerLayerRow {
            snapshot_id,
            arg_set_id: args.finish(&mut cx.store),
            base64_proto_id: encoded(cx, part),
            layer_id: layer.id.map(i64::from),
            layer_name: name.map_or(StringId::NULL, |name| cx.store.strings.intern_bytes(name)),
            is_visible: visibility.is_some_and(|known| known.is_visible),
            parent: part.int(of::PARENT).map(i64::from),
            corner_radius_tl: Some(top_left),
            corner_radius_tr: Some(top_right),
            corner_radius_bl: Some(bottom_left),
            corner_radius_br: Some(bottom_right),
            hwc_composition_type: part.int(of::HWC_COMPOSITION_TYPE).map(i64::from),
            is_hidden_by_policy: layer.is_hidden,
            z_order_relative_of: z_parent.map(i64::from),
            is_missing_z_parent: z_parent.is_some_and(|id| id > 0 && layers.get(id).is_none()),
            layer_rect_id,
            input_rect_id,
        };
        cx.store.tables.surfaceflinger_layer.push(row);
    }
}

/// Adds an array.
fn list(cx: &mut Context, key: &str, values: &[ArgValue], args: &mut ArgSet) {
    if values.is_empty() {
        return;
    }
    let flat_key = cx.store.strings.intern(key);
    for (index, value) in values.iter().enumerate() {
        let key = cx.store.strings.intern(&format!("{key}[{index}]"));
        args.add(flat_key, key, *value);
    }
}
