//! Calls of Vulkan.

use ferretto_proto::fields::vulkan_api_event as event;
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use crate::import::context::Context;
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::TrackSpec;

/// The types of objects whose names are shown, by their values of `VkObjectType`.
pub(super) const COMMAND_BUFFER: i64 = 6;
pub(super) const RENDER_PASS: i64 = 18;
pub(super) const FRAMEBUFFER: i64 = 24;

/// The maximum number of named objects.
const MAX_NAMES: usize = 1 << 16;

/// The names that programs give to objects, by type and handle.
#[derive(Debug, Default)]
pub(super) struct ObjectNames {
    names: FxHashMap<(i64, u64), StringId>,
}

impl ObjectNames {
    /// Returns the name of an object; NULL if it has none.
    pub(super) fn get(&self, kind: i64, handle: u64) -> StringId {
        let name = self.names.get(&(kind, handle));
        name.copied().unwrap_or(StringId::NULL)
    }

    /// Reads a `VulkanApiEvent`.
    pub(super) fn parse(&mut self, cx: &mut Context, ts: i64, bytes: &[u8]) {
        let message = Message::<3>::read(bytes);
        if message.has(event::VK_DEBUG_UTILS_OBJECT_NAME) {
            use event::vk_debug_utils_object_name as of;
            let object = Message::<6>::read(message.bytes(event::VK_DEBUG_UTILS_OBJECT_NAME));
            let key = (object.int(of::OBJECT_TYPE), object.uint(of::OBJECT));
            let name = cx.store.strings.intern_bytes(object.bytes(of::OBJECT_NAME));
            if self.names.len() < MAX_NAMES || self.names.contains_key(&key) {
                self.names.insert(key, name);
            }
        }
        if message.has(event::VK_QUEUE_SUBMIT) {
            submit(cx, ts, message.bytes(event::VK_QUEUE_SUBMIT));
        }
    }
}

/// Adds a `VkQueueSubmit` as a slice.
fn submit(cx: &mut Context, ts: i64, bytes: &[u8]) {
    use event::vk_queue_submit as of;
    /// The maximum number of command buffers.
    const MAX_BUFFERS: usize = 1 << 10;
    let message = Message::<7>::read(bytes);
    let name = cx.store.strings.intern("Vulkan Events");
    let spec = TrackSpec::slices("vulkan_events", &[]).named(name);
    let track = cx.tracks.intern(&mut cx.store, spec);
    let mut args = ArgSet::default();
    let store = &mut cx.store;
    args.int(store, "pid", message.u32(of::PID).into());
    args.int(store, "tid", message.u32(of::TID).into());
    let parts = Fields::new(bytes).map_while(Result::ok);
    let parts = parts.filter(|part| part.number == of::VK_COMMAND_BUFFERS);
    let buffers = parts.flat_map(|part| part.as_varints()).take(MAX_BUFFERS);
    let array = store.strings.intern("command_buffers");
    for (index, buffer) in buffers.enumerate() {
        if index == 0 {
            args.put(store, "command_buffer", ArgValue::Uint(buffer));
        }
        let key = store.strings.intern(&format!("command_buffers[{index}]"));
        args.add(array, key, ArgValue::Uint(buffer));
    }
    args.int(
        store,
        "submission_id",
        message.u32(of::SUBMISSION_ID).into(),
    );
    let start = SliceStart {
        ts,
        track,
        category: StringId::NULL,
        name: store.strings.intern("vkQueueSubmit"),
    };
    let dur = message.int(of::DURATION_NS);
    cx.slices.complete(store, start, dur, &mut args);
}
