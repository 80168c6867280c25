//! Work that GPUs execute: render stages and compute kernels.

use ferretto_proto::fields::gpu_render_stage_event::{self as field, specifications};
use ferretto_proto::fields::{
    interned_data, interned_gpu_render_stage_specification as specification,
    interned_graphics_context as context,
};
use ferretto_wire::Fields;
use rustc_hash::FxHashSet;

use super::vulkan::{COMMAND_BUFFER, FRAMEBUFFER, ObjectNames, RENDER_PASS};
use super::{compute, dimensions, repeated};
use crate::import::context::{Context, EventState};
use crate::import::message::Message;
use crate::schema::{ArgValue, GpuContextRow, TableId};
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// The type of tracks.
const TYPE: &str = "gpu_render_stage";

/// The names of interfaces, by their values of `Api`.
const APIS: [&str; 6] = ["UNDEFINED", "OPEN_GL", "VULKAN", "OPEN_CL", "CUDA", "HIP"];

/// The maximum number of queues and stages that are described, and of contexts.
const MAX_DESCRIPTIONS: usize = 1 << 12;

/// The queues and stages that earlier events described.
#[derive(Debug, Default)]
pub(super) struct Stages {
    queues: Vec<Option<Description>>,
    stages: Vec<Description>,
    /// Queues with a track but no description yet.
    nameless: FxHashSet<u32>,
    contexts: FxHashSet<u64>,
}

/// A name, and a description that may be NULL.
#[derive(Debug, Clone, Copy)]
struct Description {
    name: StringId,
    description: StringId,
}

impl Description {
    fn of_spec(cx: &mut Context, bytes: &[u8]) -> Option<Self> {
        use specifications::description as of;
        Self::read(cx, bytes, of::NAME, of::DESCRIPTION)
    }

    fn of_interned(cx: &mut Context, bytes: &[u8]) -> Self {
        let read = Self::read(cx, bytes, specification::NAME, specification::DESCRIPTION);
        read.unwrap_or(Self {
            name: StringId::NULL,
            description: StringId::NULL,
        })
    }

    /// Reads a description; `None` without a name.
    fn read(cx: &mut Context, bytes: &[u8], name: u32, description: u32) -> Option<Self> {
        let message = Message::<4>::read(bytes);
        let mut text = |number| {
            if message.has(number) {
                cx.store.strings.intern_bytes(message.bytes(number))
            } else {
                StringId::NULL
            }
        };
        message.has(name).then(|| Self {
            name: text(name),
            description: text(description),
        })
    }

    fn add_to(self, cx: &mut Context, args: &mut ArgSet) {
        if !self.description.is_null() {
            let text = ArgValue::Text(self.description);
            args.put(&mut cx.store, "description", text);
        }
    }
}

/// The queue of an event.
#[derive(Debug, Clone, Copy)]
struct Queue {
    number: u32,
    /// Set if the number is an iid.
    is_interned: bool,
    /// `None` if nothing describes it.
    known: Option<Description>,
}

impl Queue {
    /// Returns the dimensions of its tracks.
    fn dimensions(self, cx: &mut Context, gpu: u32) -> [Dimension; 5] {
        let [ugpu, gpu] = dimensions(cx, gpu);
        let source = if self.is_interned { "iid" } else { "id" };
        let name = self.known.map_or(StringId::NULL, |known| known.name);
        [
            ugpu,
            gpu,
            Dimension::Text("render_stage_source", cx.store.strings.intern(source)),
            Dimension::Int("hwqueue_id", self.number.into()),
            Dimension::Text("hwqueue_name", name),
        ]
    }

    /// Returns the track for a slice.
    fn track(self, cx: &mut Context, gpu: u32, ts: i64, dur: i64) -> u32 {
        let of_queue = self.dimensions(cx, gpu);
        let group = cx.lanes.group(&cx.store, TYPE, &of_queue);
        let lane = cx.lanes.scoped(group, ts, dur);
        let name = match self.known {
            Some(known) => known.name,
            None => {
                let name = format!("Unknown GPU Queue {}", self.number);
                cx.store.strings.intern(&name)
            }
        };
        let mut source = ArgSet::default();
        if let Some(known) = self.known {
            known.add_to(cx, &mut source);
        }
        cx.lanes.track(&mut cx.store, lane, |_| {
            let spec = TrackSpec::slices(TYPE, &[]).named(name);
            (spec.with_source(source), of_queue.to_vec())
        })
    }
}

impl Stages {
    /// Parses a `GpuRenderStageEvent`.
    pub(super) fn parse(
        &mut self,
        cx: &mut Context,
        ts: i64,
        bytes: &[u8],
        state: EventState<'_>,
        names: &ObjectNames,
    ) {
        let event = Message::<22>::read(bytes);
        let gpu = event.u32(field::GPU_ID);
        let mut pid = 0;
        if event.has(field::SPECIFICATIONS) {
            let spec = event.bytes(field::SPECIFICATIONS);
            self.describe(cx, gpu, spec);
            let owner = Fields::find(specifications::CONTEXT_SPEC, spec);
            let owner = owner.and_then(|owner| owner.as_bytes()).unwrap_or_default();
            pid = Message::<3>::read(owner).u32(specifications::context_spec::PID);
        }
        if event.has(field::CONTEXT) {
            let context = event.uint(field::CONTEXT);
            if let Some(owner) = self.context(cx, context, state) {
                pid = owner;
            }
        }
        if !event.has(field::EVENT_ID) {
            return;
        }
        let Some(queue) = self.queue(cx, &event, state) else {
            return;
        };
        let dur = event.int(field::DURATION);
        let track = queue.track(cx, gpu, ts, dur);
        if !cx.store.wants(TableId::slice) {
            return;
        }
        let start = SliceStart {
            ts,
            track,
            category: StringId::NULL,
            name: self.name(cx, &event, state),
        };
        let mut args = self.args(cx, bytes, &event, state, names);
        let store = &mut cx.store;
        args.put(store, "hw_queue_id", ArgValue::Uint(queue.number.into()));
        let upid = cx.processes.process(store, pid.into());
        args.int(store, "upid", upid.into());
        let Some(slice) = cx.slices.complete(store, start, dur, &mut args) else {
            return;
        };
        let id = event.uint(field::EVENT_ID);
        cx.gpu_work.executed(&mut cx.store, id, slice);
        for id in repeated(bytes, field::EVENT_WAIT_IDS) {
            cx.gpu_work.waited(&mut cx.store, id, slice);
        }
    }

    /// Reads the descriptions of queues and stages, in the order of their numbers.
    fn describe(&mut self, cx: &mut Context, gpu: u32, bytes: &[u8]) {
        let mut number = 0;
        for part in Fields::new(bytes).map_while(Result::ok) {
            let bytes = part.as_bytes().unwrap_or_default();
            match part.number {
                specifications::HW_QUEUE => {
                    if let Some(known) = Description::of_spec(cx, bytes) {
                        self.describe_queue(cx, gpu, number, known);
                    }
                    number += 1;
                }
                specifications::STAGE if self.stages.len() < MAX_DESCRIPTIONS => {
                    self.stages.extend(Description::of_spec(cx, bytes));
                }
                _ => {}
            }
        }
    }

    fn describe_queue(&mut self, cx: &mut Context, gpu: u32, number: u32, known: Description) {
        let index = number as usize;
        if index >= MAX_DESCRIPTIONS {
            return;
        }
        if self.queues.len() <= index {
            self.queues.resize(index + 1, None);
        }
        self.queues[index] = Some(known);
        if !self.nameless.remove(&number) {
            return;
        }
        // The track was added for earlier events.
        let queue = Queue {
            number,
            is_interned: false,
            known: None,
        };
        let of_queue = queue.dimensions(cx, gpu);
        let group = cx.lanes.group(&cx.store, TYPE, &of_queue);
        let (.., Some(track)) = cx.lanes.first(group) else {
            return;
        };
        cx.store.tables.track.name.set(track, known.name);
        let mut source = ArgSet::default();
        known.add_to(cx, &mut source);
        let source = source.finish(&mut cx.store);
        cx.store.tables.track.source_arg_set_id.set(track, source);
    }

    /// Returns the pid of a context, and adds the context if it is new.
    fn context(&mut self, cx: &mut Context, id: u64, state: EventState<'_>) -> Option<u32> {
        let bytes = state.message(interned_data::GRAPHICS_CONTEXTS, id)?;
        let message = Message::<4>::read(bytes);
        if self.contexts.len() < MAX_DESCRIPTIONS && self.contexts.insert(id) {
            let api = APIS.get(message.uint(context::API) as usize);
            let api = if message.has(context::API) {
                cx.store.strings.intern(api.copied().unwrap_or(APIS[0]))
            } else {
                StringId::NULL
            };
            cx.store.tables.gpu_context.push(GpuContextRow {
                context_id: id as u32,
                pid: message.has(context::PID).then(|| message.u32(context::PID)),
                api,
            });
        }
        Some(message.u32(context::PID))
    }

    /// Returns the queue of an event; `None` if its iid is unknown.
    fn queue(
        &mut self,
        cx: &mut Context,
        event: &Message<'_, 22>,
        state: EventState<'_>,
    ) -> Option<Queue> {
        if event.has(field::HW_QUEUE_IID) {
            let iid = event.uint(field::HW_QUEUE_IID);
            let bytes = state.message(interned_data::GPU_SPECIFICATIONS, iid)?;
            return Some(Queue {
                number: iid as u32,
                is_interned: true,
                known: Some(Description::of_interned(cx, bytes)),
            });
        }
        let number = event.u32(field::HW_QUEUE_ID);
        let known = self.queues.get(number as usize).copied().flatten();
        if known.is_none() && self.nameless.len() < MAX_DESCRIPTIONS {
            self.nameless.insert(number);
        }
        Some(Queue {
            number,
            is_interned: false,
            known,
        })
    }

    fn name(&self, cx: &mut Context, event: &Message<'_, 22>, state: EventState<'_>) -> StringId {
        if event.has(field::NAME_IID) {
            let name = state.text(interned_data::EVENT_NAMES, event.uint(field::NAME_IID));
            return name.unwrap_or(StringId::NULL);
        }
        if event.has(field::NAME) {
            return cx.store.strings.intern_bytes(event.bytes(field::NAME));
        }
        if event.has(field::STAGE_IID) {
            let iid = event.uint(field::STAGE_IID);
            let bytes = state.message(interned_data::GPU_SPECIFICATIONS, iid);
            return bytes.map_or(StringId::NULL, |bytes| {
                Description::of_interned(cx, bytes).name
            });
        }
        // A negative id is a large number in upstream's names.
        let number = event.uint(field::STAGE_ID);
        match self.stages.get(number as usize) {
            Some(stage) => stage.name,
            None => {
                let name = format!("render stage({number})");
                cx.store.strings.intern(&name)
            }
        }
    }

    fn args(
        &self,
        cx: &mut Context,
        bytes: &[u8],
        event: &Message<'_, 22>,
        state: EventState<'_>,
        names: &ObjectNames,
    ) -> ArgSet {
        let mut args = ArgSet::default();
        if event.has(field::STAGE_IID) {
            let iid = event.uint(field::STAGE_IID);
            if let Some(bytes) = state.message(interned_data::GPU_SPECIFICATIONS, iid) {
                let category = Message::<5>::read(bytes).int(specification::CATEGORY);
                args.int(&mut cx.store, "render_stage_category", category);
                let text = Description::of_interned(cx, bytes).description;
                args.put(&mut cx.store, "description", ArgValue::Text(text));
            }
        } else if let Some(stage) = self.stages.get(event.uint(field::STAGE_ID) as usize) {
            stage.add_to(cx, &mut args);
        }
        if event.has(field::KERNEL_IID) {
            let kernel = event.uint(field::KERNEL_IID);
            compute::kernel(cx, kernel, state, &mut args);
        }
        if event.has(field::LAUNCH) {
            compute::launch(cx, event.bytes(field::LAUNCH), state, &mut args);
        }
        let store = &mut cx.store;
        let pass = event.uint(field::RENDER_PASS_INSTANCE_ID);
        if pass != 0 {
            args.text(store, "correlation_id", &format!("rp:#{pass}"));
        }
        for part in Fields::new(bytes).map_while(Result::ok) {
            use field::extra_data as of;
            if part.number != field::EXTRA_DATA {
                continue;
            }
            let datum = Message::<3>::read(part.as_bytes().unwrap_or_default());
            let key = store.strings.intern_bytes(datum.bytes(of::NAME));
            let value = if datum.has(of::VALUE) {
                store.strings.intern_bytes(datum.bytes(of::VALUE))
            } else {
                StringId::NULL
            };
            args.add(key, key, ArgValue::Text(value));
        }
        let context = event.uint(field::CONTEXT);
        args.put(store, "context_id", ArgValue::Uint(context));
        for (number, kind, key, name_key) in [
            (
                field::RENDER_TARGET_HANDLE,
                FRAMEBUFFER,
                "render_target",
                "render_target_name",
            ),
            (
                field::RENDER_PASS_HANDLE,
                RENDER_PASS,
                "render_pass",
                "render_pass_name",
            ),
            (
                field::COMMAND_BUFFER_HANDLE,
                COMMAND_BUFFER,
                "command_buffer",
                "command_buffer_name",
            ),
        ] {
            let handle = event.uint(number);
            args.put(store, key, ArgValue::Uint(handle));
            args.put(store, name_key, ArgValue::Text(names.get(kind, handle)));
        }
        let subpasses = subpasses(bytes).map(|text| store.strings.intern(&text));
        let subpasses = subpasses.unwrap_or(StringId::NULL);
        args.put(store, "render_subpasses", ArgValue::Text(subpasses));
        let submission = event.u32(field::SUBMISSION_ID);
        args.int(store, "submission_id", submission.into());
        args
    }
}

/// Returns the numbers of subpasses in the masks of an event, separated by commas.
fn subpasses(bytes: &[u8]) -> Option<String> {
    let masks = repeated(bytes, field::RENDER_SUBPASS_INDEX_MASK);
    let set = masks.iter().enumerate().flat_map(|(index, mask)| {
        let bits = (0..64).filter(move |bit| mask >> bit & 1 != 0);
        bits.map(move |bit| (64 * index + bit).to_string())
    });
    let all: Vec<_> = set.collect();
    (!masks.is_empty()).then(|| all.join(","))
}
