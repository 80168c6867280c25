//! Windows and what contains them: `WindowManagerTraceEntry`.

use ferretto_proto::fields::android::{
    activity_record_proto as activity, display_area_proto as area,
    display_content_proto as display, display_info_proto as info, identifier_proto as identifier,
    root_window_container_proto as root, task_fragment_proto as fragment, task_proto as task,
    window_container_child_proto as child, window_container_proto as container,
    window_frames_proto as frames, window_layout_params_proto as layout,
    window_manager_service_dump_proto as service, window_manager_trace_entry as entry,
    window_state_proto as window, window_token_proto as token,
};
use ferretto_wire::encode;

use super::super::super::context::Context;
use super::geometry::{Matrix, Rect};
use super::part::Part;
use super::{Windows, encoded};
use crate::schema::{
    TableId, WindowmanagerRow, WindowmanagerWindowcontainerRow, WinscopeTraceRectRow,
};
use crate::strings::StringId;

/// The maximum depth of containers.
const MAX_DEPTH: u32 = 128;
/// The beginnings of titles that are not shown.
const PREFIXES: [&str; 2] = ["Starting ", "Waiting For Debugger: "];

/// The state between packets.
#[derive(Debug, Default)]
pub(super) struct Containers {
    /// The display of the next windows, and their depth in it.
    display: u32,
    depth: u32,
}

/// The path to the container that a message is or has.
type Path = &'static [u32];

/// A message with a container, and its description.
struct Node<'a> {
    kind: &'static str,
    title: String,
    token: i32,
    is_visible: bool,
    name: Option<String>,
    rect: Option<Shown>,
    /// The container that has the children.
    inner: Part<'a>,
}

/// A rectangle on a display.
#[derive(Debug, Clone, Copy)]
struct Shown {
    rect: Rect,
    display: u32,
    depth: u32,
    opacity: Option<f64>,
    is_visible: bool,
}

/// Returns the message at the end of a path, empty if there is none.
fn follow<'a>(part: Part<'a>, path: Path) -> Part<'a> {
    path.iter()
        .fold(part, |part, number| part.part(*number).unwrap_or_default())
}

fn text(part: Part<'_>, number: u32) -> Option<String> {
    let bytes = part.bytes(number)?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// Returns the token and the title of a container.
fn name_of(part: Part<'_>) -> Option<(i32, String)> {
    let part = part.part(container::IDENTIFIER).unwrap_or_default();
    let title = text(part, identifier::TITLE)?;
    Some((part.int(identifier::HASH_CODE)?, title))
}

fn token_of(part: Part<'_>) -> Option<i32> {
    let part = part.part(container::IDENTIFIER).unwrap_or_default();
    part.int(identifier::HASH_CODE)
}

fn is_visible(part: Part<'_>) -> bool {
    part.bool(container::VISIBLE).unwrap_or(false)
}

/// Returns the message without the children of the containers in it.
fn prune(part: Part<'_>, paths: &[Path]) -> Vec<u8> {
    encode(|output| {
        for field in part.fields() {
            let below: Vec<Path> = paths
                .iter()
                .filter(|path| path.first() == Some(&field.number))
                .map(|path| &path[1..])
                .collect();
            if below.contains(&(&[][..])) {
                continue;
            }
            match field.value {
                ferretto_wire::Value::Varint(value) => output.varint(field.number, value),
                ferretto_wire::Value::Fixed64(value) => output.fixed64(field.number, value),
                ferretto_wire::Value::Fixed32(value) => output.fixed32(field.number, value),
                ferretto_wire::Value::Bytes(bytes) if below.is_empty() => {
                    output.bytes(field.number, bytes);
                }
                ferretto_wire::Value::Bytes(bytes) => {
                    output.bytes(field.number, &prune(Part(bytes), &below));
                }
            }
        }
    })
}

/// The paths from a child to the children in it.
const CHILDREN: &[Path] = &[
    &[child::WINDOW_CONTAINER, container::CHILDREN],
    &[
        child::DISPLAY_CONTENT,
        display::ROOT_DISPLAY_AREA,
        area::WINDOW_CONTAINER,
        container::CHILDREN,
    ],
    &[
        child::DISPLAY_AREA,
        area::WINDOW_CONTAINER,
        container::CHILDREN,
    ],
    &[child::TASK, task::WINDOW_CONTAINER, container::CHILDREN],
    &[
        child::TASK,
        task::TASK_FRAGMENT,
        fragment::WINDOW_CONTAINER,
        container::CHILDREN,
    ],
    &[
        child::ACTIVITY,
        activity::WINDOW_TOKEN,
        token::WINDOW_CONTAINER,
        container::CHILDREN,
    ],
    &[
        child::WINDOW_TOKEN,
        token::WINDOW_CONTAINER,
        container::CHILDREN,
    ],
    &[child::WINDOW, window::WINDOW_CONTAINER, container::CHILDREN],
    &[
        child::TASK_FRAGMENT,
        fragment::WINDOW_CONTAINER,
        container::CHILDREN,
    ],
];

impl Windows {
    /// Reads a `WindowManagerTraceEntry`.
    pub(super) fn windows(&mut self, cx: &mut Context, ts: i64, part: Part<'_>) {
        let tables = [
            TableId::windowmanager,
            TableId::windowmanager_windowcontainer,
        ];
        if !tables.iter().any(|table| cx.store.wants(*table)) {
            return;
        }
        let service = part.part(entry::WINDOW_MANAGER_SERVICE).unwrap_or_default();
        let without_root: &[Path] = &[&[
            entry::WINDOW_MANAGER_SERVICE,
            service::ROOT_WINDOW_CONTAINER,
        ]];
        let pruned = prune(part, without_root);
        let time = part.long(entry::ELAPSED_REALTIME_NANOS).unwrap_or(0);
        let display = service.uint(service::FOCUSED_DISPLAY_ID).unwrap_or(0);
        let row = WindowmanagerRow {
            ts,
            arg_set_id: self
                .messages
                .args(cx, "WindowManagerTraceEntry", Part(&pruned)),
            base64_proto_id: encoded(cx, Part(&pruned)),
            focused_display_id: display,
            has_invalid_elapsed_ts: u32::from(time == 0),
        };
        let snapshot_id = cx.store.tables.windowmanager.push(row);
        let root = service
            .part(service::ROOT_WINDOW_CONTAINER)
            .unwrap_or_default();
        let Some(inner) = root.part(root::WINDOW_CONTAINER) else {
            return;
        };
        let Some((token, title)) = name_of(inner) else {
            return;
        };
        let pruned = prune(root, &[&[root::WINDOW_CONTAINER, container::CHILDREN]]);
        let node = Node {
            kind: "RootWindowContainer",
            title,
            token,
            is_visible: is_visible(inner),
            name: None,
            rect: None,
            inner,
        };
        let message = ("RootWindowContainerProto", Part(&pruned));
        self.container(cx, snapshot_id, &node, None, message);
        self.children(cx, snapshot_id, &node, 0);
    }

    fn children(&mut self, cx: &mut Context, snapshot_id: u32, parent: &Node<'_>, depth: u32) {
        if depth >= MAX_DEPTH {
            return;
        }
        for (index, part) in (0..).zip(parent.inner.parts(container::CHILDREN)) {
            // Containers without a name are left out with all their children.
            let Some(node) = self.containers.node(part) else {
                continue;
            };
            let pruned = prune(part, CHILDREN);
            let message = ("WindowContainerChildProto", Part(&pruned[..]));
            let position = Some((parent.token, index));
            self.container(cx, snapshot_id, &node, position, message);
            self.children(cx, snapshot_id, &node, depth + 1);
        }
    }

    /// Adds the rectangle of a window.
    fn window_rect(&mut self, cx: &mut Context, shown: Shown) -> u32 {
        let row = WinscopeTraceRectRow {
            rect_id: self.rects.rect(cx, shown.rect),
            group_id: shown.display,
            depth: shown.depth,
            is_spy: false,
            is_visible: shown.is_visible,
            opacity: shown.opacity,
            transform_id: self.rects.matrix(cx, Matrix::IDENTITY),
            border_width: None,
            border_color: None,
        };
        cx.store.tables.winscope_trace_rect.push(row)
    }

    /// Adds the row of a container.
    fn container(
        &mut self,
        cx: &mut Context,
        snapshot_id: u32,
        node: &Node<'_>,
        position: Option<(i32, u32)>,
        (name, part): (&str, Part<'_>),
    ) {
        let window_rect_id = node.rect.map(|rect| self.window_rect(cx, rect));
        let arg_set_id = self.messages.args(cx, name, part);
        let base64_proto_id = encoded(cx, part);
        let strings = &mut cx.store.strings;
        let name_override = node.name.as_ref();
        let row = WindowmanagerWindowcontainerRow {
            snapshot_id,
            arg_set_id,
            base64_proto_id,
            title: strings.intern(&node.title),
            token: node.token,
            parent_token: position.map(|(token, _)| token),
            child_index: position.map(|(_, index)| index),
            is_visible: node.is_visible,
            window_rect_id,
            container_type: strings.intern(node.kind),
            name_override: name_override.map_or(StringId::NULL, |name| strings.intern(name)),
        };
        cx.store.tables.windowmanager_windowcontainer.push(row);
    }
}

impl Containers {
    /// Reads a `WindowContainerChildProto`.
    fn node<'a>(&mut self, part: Part<'a>) -> Option<Node<'a>> {
        let kinds = [
            child::WINDOW_CONTAINER,
            child::DISPLAY_CONTENT,
            child::DISPLAY_AREA,
            child::TASK,
            child::ACTIVITY,
            child::WINDOW_TOKEN,
            child::WINDOW,
            child::TASK_FRAGMENT,
        ];
        let kind = kinds.into_iter().find(|kind| part.has(*kind))?;
        let own = part.part(kind).unwrap_or_default();
        match kind {
            child::WINDOW_CONTAINER => named("WindowContainer", own),
            child::DISPLAY_CONTENT => self.display(own),
            child::DISPLAY_AREA => {
                let inner = follow(own, &[area::WINDOW_CONTAINER]);
                let title = text(own, area::NAME)?;
                plain("DisplayArea", token_of(inner)?, title, inner)
            }
            child::TASK => task(own),
            child::ACTIVITY => {
                let window_token = follow(own, &[activity::WINDOW_TOKEN]);
                let inner = follow(window_token, &[token::WINDOW_CONTAINER]);
                let token = window_token.int(token::HASH_CODE)?;
                let mut node = plain("Activity", token, text(own, activity::NAME)?, inner)?;
                node.is_visible = own.bool(activity::VISIBLE).unwrap_or(false);
                Some(node)
            }
            child::WINDOW_TOKEN => {
                let inner = follow(own, &[token::WINDOW_CONTAINER]);
                let token = own.int(token::HASH_CODE)?;
                plain("WindowToken", token, format!("0x{token:x}"), inner)
            }
            child::WINDOW => self.window(own),
            _ => named("TaskFragment", follow(own, &[fragment::WINDOW_CONTAINER])),
        }
    }

    fn display<'a>(&mut self, own: Part<'a>) -> Option<Node<'a>> {
        let inner = follow(own, &[display::ROOT_DISPLAY_AREA, area::WINDOW_CONTAINER]);
        let shown = follow(own, &[display::DISPLAY_INFO]);
        let title = text(shown, info::NAME)?;
        let size = |number| f64::from(shown.int(number).unwrap_or(0));
        let rect = Rect::between(
            0.0,
            0.0,
            size(info::LOGICAL_WIDTH),
            size(info::LOGICAL_HEIGHT),
        );
        let mut node = plain("DisplayContent", token_of(inner)?, title, inner)?;
        self.display = own.uint(display::ID).unwrap_or(0);
        self.depth = 1;
        node.rect = Some(Shown {
            rect,
            display: self.display,
            depth: 0,
            opacity: None,
            is_visible: false,
        });
        Some(node)
    }

    fn window<'a>(&mut self, own: Part<'a>) -> Option<Node<'a>> {
        let mut node = named("WindowState", follow(own, &[window::WINDOW_CONTAINER]))?;
        let frame = follow(own, &[window::WINDOW_FRAMES, frames::FRAME]);
        let opacity = follow(own, &[window::ATTRIBUTES]).float(layout::ALPHA);
        node.is_visible = own.bool(window::IS_VISIBLE).unwrap_or(false);
        node.rect = Some(Shown {
            rect: Rect::of_integers(frame),
            display: self.display,
            depth: self.depth,
            opacity: Some(opacity),
            is_visible: node.is_visible,
        });
        self.depth = self.depth.saturating_add(1);
        let mut prefixes = PREFIXES.iter();
        let shown = prefixes.find_map(|prefix| node.title.strip_prefix(prefix));
        node.name = shown.map(str::to_owned);
        Some(node)
    }
}

fn plain<'a>(kind: &'static str, token: i32, title: String, inner: Part<'a>) -> Option<Node<'a>> {
    Some(Node {
        kind,
        title,
        token,
        is_visible: is_visible(inner),
        name: None,
        rect: None,
        inner,
    })
}

/// Returns a container that has its name itself.
fn named<'a>(kind: &'static str, inner: Part<'a>) -> Option<Node<'a>> {
    let (token, title) = name_of(inner)?;
    plain(kind, token, title, inner)
}

fn task<'a>(own: Part<'a>) -> Option<Node<'a>> {
    let outer = follow(own, &[task::WINDOW_CONTAINER]);
    let fragment = own.part(task::TASK_FRAGMENT);
    let inner = fragment.and_then(|fragment| fragment.part(fragment::WINDOW_CONTAINER));
    let mut node = named("Task", inner.unwrap_or(outer))?;
    if inner.is_none_or(|inner| !inner.has(container::CHILDREN)) {
        node.inner = outer;
    }
    if let Some(id) = own.int(task::ID) {
        let name = text(own, task::TASK_NAME).filter(|name| !name.is_empty());
        node.name = Some(match name {
            Some(name) => format!("{id}({name})"),
            None => id.to_string(),
        });
    }
    Some(node)
}
