//! Trees of views: `ViewCapture`.

use ferretto_proto::fields::android::{
    frameworks_base_interned_data as interned, view_capture as of, view_capture::view,
};
use rustc_hash::FxHashMap;

use super::super::super::context::{Context, EventState};
use super::geometry::Rect;
use super::part::Part;
use super::{WindowPacket, Windows, encoded};
use crate::schema::{
    ArgValue, TableId, ViewcaptureInternedDataRow, ViewcaptureRow, ViewcaptureViewRow,
    WinscopeTraceRectRow,
};
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// The parent of the outermost view.
const NO_PARENT: i32 = -1;
/// The distance of a view from its parent in depth.
const DEPTH: u32 = 4;
/// The maximum depth of a tree.
const MAX_DEPTH: u32 = 1 << 10;

/// The fields with ids of interned texts: their numbers, their names without `_iid`, and the
/// tables with the texts.
const OF_TREES: [(u32, &str, u32); 2] = [
    (
        of::PACKAGE_NAME_IID,
        "package_name",
        interned::VIEWCAPTURE_PACKAGE_NAME,
    ),
    (
        of::WINDOW_NAME_IID,
        "window_name",
        interned::VIEWCAPTURE_WINDOW_NAME,
    ),
];
const OF_VIEWS: [(u32, &str, u32); 4] = [
    (view::VIEW_ID_IID, "view_id", interned::VIEWCAPTURE_VIEW_ID),
    (
        view::CLASS_NAME_IID,
        "class_name",
        interned::VIEWCAPTURE_CLASS_NAME,
    ),
    (
        view::CONTENT_DESCRIPTION_IID,
        "content_description",
        interned::VIEWCAPTURE_CONTENT_DESCRIPTION,
    ),
    (view::TEXT_IID, "text", interned::VIEWCAPTURE_TEXT),
];

/// The rectangle of a view on the screen.
#[derive(Debug, Clone, Copy)]
struct Shape {
    rect: Rect,
    depth: u32,
    scale: (f64, f64),
    scroll: (f64, f64),
    /// True if it and all its parents are marked as visible.
    is_marked: bool,
    is_visible: bool,
    opacity: f64,
}

impl Shape {
    fn of(part: Part<'_>, parent: Option<&Self>) -> Self {
        let number = |number| f64::from(part.int(number).unwrap_or(0));
        let (shift, scale, depth) = match parent {
            Some(parent) => (
                (
                    parent.rect.x - parent.scroll.0,
                    parent.rect.y - parent.scroll.1,
                ),
                parent.scale,
                parent.depth + 1,
            ),
            None => ((0.0, 0.0), (1.0, 1.0), 0),
        };
        let own = (
            scale.0 * part.float(view::SCALE_X),
            scale.1 * part.float(view::SCALE_Y),
        );
        let size = (number(view::WIDTH), number(view::HEIGHT));
        let at = (
            number(view::LEFT) + part.float(view::TRANSLATION_X),
            number(view::TOP) + part.float(view::TRANSLATION_Y),
        );
        // Views are scaled around their middle.
        let x = shift.0 + at.0 * scale.0 + size.0 * (scale.0 - own.0) / 2.0;
        let y = shift.1 + at.1 * scale.1 + size.1 * (scale.1 - own.1) / 2.0;
        let is_marked = part.int(view::VISIBILITY).unwrap_or(0) == 0
            && parent.is_none_or(|parent| parent.is_marked);
        Self {
            rect: Rect::between(x, y, x + size.0 * own.0, y + size.1 * own.1),
            depth,
            scale: own,
            scroll: (number(view::SCROLL_X), number(view::SCROLL_Y)),
            is_marked,
            is_visible: is_marked && size.0 > 0.0 && size.1 > 0.0,
            opacity: part.float(view::ALPHA),
        }
    }
}

/// Returns the views with their rectangles, each one after its parent.
fn shapes(views: &[(i32, Part<'_>)]) -> Vec<(i32, Shape)> {
    let mut by_id: FxHashMap<i32, Part<'_>> = FxHashMap::default();
    let mut children: FxHashMap<i32, Vec<i32>> = FxHashMap::default();
    let mut root = 0;
    for (id, part) in views {
        match part.int(view::PARENT_ID).unwrap_or(0) {
            NO_PARENT => root = *id,
            parent => children.entry(parent).or_default().push(*id),
        }
        by_id.entry(*id).or_insert(*part);
    }
    let mut shapes: Vec<(i32, Shape)> = Vec::new();
    let mut open: Vec<(i32, Option<usize>)> = vec![(root, None)];
    while let Some((id, parent)) = open.pop() {
        // Each view is placed once, also if views are their own parents.
        let Some(part) = by_id.remove(&id) else {
            continue;
        };
        let parent = parent.and_then(|index| shapes.get(index).map(|(_, shape)| shape));
        let shape = Shape::of(part, parent);
        if shape.depth > MAX_DEPTH {
            continue;
        }
        let index = shapes.len();
        shapes.push((id, shape));
        let below = children.get(&id).into_iter().flatten().rev();
        open.extend(below.map(|child| (*child, Some(index))));
    }
    shapes
}

impl Windows {
    /// Reads a `ViewCapture`.
    pub(super) fn views(&mut self, cx: &mut Context, input: WindowPacket<'_>, part: Part<'_>) {
        let tables = [TableId::viewcapture, TableId::viewcapture_view];
        if !tables.iter().any(|table| cx.store.wants(*table)) {
            return;
        }
        let base64_proto_id = encoded(cx, part);
        let texts = Texts::read(input.state, part, &OF_TREES);
        let is_shown = |number| number == of::PACKAGE_NAME_IID || number == of::WINDOW_NAME_IID;
        let name = "ViewCapture";
        let row = ViewcaptureRow {
            ts: input.ts,
            arg_set_id: self.view_args(cx, (name, part), &is_shown, &texts),
            base64_proto_id,
            package_name: texts.of("package_name"),
            window_name: texts.of("window_name"),
        };
        texts.store(cx, base64_proto_id);
        let snapshot_id = cx.store.tables.viewcapture.push(row);
        let views: Vec<(i32, Part<'_>)> = part
            .parts(of::VIEWS)
            .map(|part| (part.int(view::ID).unwrap_or(0), part))
            .collect();
        let mut known = FxHashMap::default();
        for (id, shape) in shapes(&views) {
            let rect_id = self.rects.rect(cx, shape.rect);
            let row = WinscopeTraceRectRow {
                rect_id,
                group_id: 0,
                depth: shape.depth * DEPTH,
                is_spy: false,
                is_visible: shape.is_visible,
                opacity: Some(shape.opacity),
                transform_id: 0,
                border_width: None,
                border_color: None,
            };
            let row = cx.store.tables.winscope_trace_rect.push(row);
            known.insert(id, (row, shape.is_visible));
        }
        for (id, part) in views {
            let (trace_rect_id, is_visible) = known.get(&id).copied().unwrap_or((0, false));
            let base64_proto_id = encoded(cx, part);
            let texts = Texts::read(input.state, part, &OF_VIEWS);
            let name = "ViewCapture.View";
            let arg_set_id = self.view_args(cx, (name, part), &|_| true, &texts);
            let row = ViewcaptureViewRow {
                snapshot_id,
                arg_set_id,
                base64_proto_id,
                node_id: id as u32,
                hashcode: part.uint(view::HASHCODE).unwrap_or(0),
                is_visible,
                parent_id: part.uint(view::PARENT_ID).unwrap_or(0),
                view_id: texts.of("view_id"),
                class_name: texts.of("class_name"),
                trace_rect_id,
            };
            texts.store(cx, base64_proto_id);
            cx.store.tables.viewcapture_view.push(row);
        }
    }

    /// Returns the arguments of a message: its fields, with texts instead of their ids.
    fn view_args(
        &mut self,
        cx: &mut Context,
        (name, part): (&str, Part<'_>),
        is_shown: &dyn Fn(u32) -> bool,
        texts: &Texts,
    ) -> Option<u32> {
        let mut args = ArgSet::default();
        let is_known = |number: u32| {
            let mut known = texts.0.iter();
            known.any(|known| known.number == number && known.text.is_some())
        };
        let is_kept = |number| is_shown(number) && !is_known(number);
        self.messages.add(cx, name, part, &is_kept, &mut args);
        for known in &texts.0 {
            let value = match known.text {
                Some(text) => text,
                None => cx.store.strings.intern("STRING DE-INTERNING ERROR"),
            };
            args.put(&mut cx.store, known.key, ArgValue::Text(value));
        }
        args.finish(&mut cx.store)
    }
}

/// The interned texts of a message.
#[derive(Debug)]
struct Texts(Vec<InternedText>);

#[derive(Debug)]
struct InternedText {
    number: u32,
    key: &'static str,
    iid: i64,
    text: Option<StringId>,
}

impl Texts {
    fn read(state: EventState<'_>, part: Part<'_>, fields: &[(u32, &'static str, u32)]) -> Self {
        let read = |(number, key, table): &(u32, &'static str, u32)| {
            let iid = part.long(*number)?;
            Some(InternedText {
                number: *number,
                key,
                iid,
                text: state.text(*table, iid as u64),
            })
        };
        Self(fields.iter().filter_map(read).collect())
    }

    /// Returns the text of a field.
    fn of(&self, key: &str) -> StringId {
        let known = self.0.iter().find(|known| known.key == key);
        known.and_then(|known| known.text).unwrap_or(StringId::NULL)
    }

    /// Adds them to the table of interned texts.
    fn store(&self, cx: &mut Context, base64_proto_id: Option<u32>) {
        for known in &self.0 {
            let Some(text) = known.text else {
                continue;
            };
            let row = ViewcaptureInternedDataRow {
                base64_proto_id: base64_proto_id.unwrap_or(0),
                flat_key: cx.store.strings.intern(&format!("{}_iid", known.key)),
                iid: known.iid,
                deinterned_value: text,
            };
            cx.store.tables.viewcapture_interned_data.push(row);
        }
    }
}
