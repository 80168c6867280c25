//! Recordings as trees of events.

use std::collections::{BTreeMap, HashMap};

use ferretto_wire::Fields;

use super::node::{Node, NodeKind};
use crate::decode::{CounterValue, Event, EventReader, Kind, Track, TrackKind, Tracks};

/// A recording: the events of each track.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Trace {
    /// The tracks with events, in the order of their first events.
    pub timelines: Vec<Timeline>,
    /// Set if packets are missing: memory was full, or the first packets were overwritten.
    pub has_losses: bool,
}

/// The events of one track.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Timeline {
    /// The track.
    pub track: Track,
    /// The ancestors of the track, the outermost first, without process and thread tracks.
    pub ancestors: Vec<Track>,
    /// The thread or process that the track belongs to, if any.
    pub owner: Option<Track>,
    /// The events, ordered by time.
    pub nodes: Vec<Node>,
}

impl Trace {
    /// Reads an encoded `Trace`, the content of a trace file: all events of this process.
    pub fn read(encoded: &[u8]) -> Self {
        Self::read_if(encoded, |_| true)
    }

    /// Reads the events on tracks that `wants` accepts.
    pub(super) fn read_if(encoded: &[u8], wants: impl Fn(&TrackKind) -> bool) -> Self {
        let mut reader = EventReader::default();
        let mut by_sequence: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
        let mut tracks = Tracks::default();
        let mut has_losses = false;
        let packets = Fields::new(encoded).map_while(Result::ok);
        for packet in packets.filter_map(|packet| packet.as_bytes()) {
            let Some(packet) = reader.packet(packet, &mut tracks) else {
                continue;
            };
            has_losses |= packet.is_after_loss;
            let events = by_sequence.entry(packet.sequence).or_default();
            events.extend(packet.event);
        }
        let mut events: Vec<_> = by_sequence
            .into_iter()
            .filter(|(sequence, _)| {
                let track = tracks.get(reader.default_track(*sequence));
                track.is_none_or(|track| wants(&track.kind))
            })
            .flat_map(|(_, events)| events)
            .collect();
        events.sort_by_key(|event| event.time);
        let mut trace = Self {
            timelines: arrange(events, &tracks),
            has_losses,
        };
        trace.timelines.iter_mut().for_each(Timeline::name_counters);
        trace
    }

    /// Returns all events, track by track.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        let tops = self.timelines.iter().flat_map(|line| &line.nodes);
        tops.flat_map(Node::walk)
    }

    /// Returns all slices.
    pub fn slices(&self) -> impl Iterator<Item = &Node> {
        self.nodes().filter(|node| node.kind == NodeKind::Slice)
    }

    /// Returns all instants.
    pub fn instants(&self) -> impl Iterator<Item = &Node> {
        self.nodes().filter(|node| node.kind == NodeKind::Instant)
    }

    /// Returns the first slice or instant with this name.
    pub fn find(&self, name: &str) -> Option<&Node> {
        let mut nodes = self.nodes();
        nodes.find(|node| node.kind != NodeKind::Counter && node.name == name)
    }

    /// Returns the values of the counter with this name.
    pub fn counter(&self, name: &str) -> Vec<CounterValue> {
        let nodes = self.nodes().filter(|node| node.name == name);
        nodes.filter_map(|node| node.value).collect()
    }

    /// Returns the track with this name.
    pub fn timeline(&self, name: &str) -> Option<&Timeline> {
        let mut lines = self.timelines.iter();
        lines.find(|line| line.track.name.as_deref() == Some(name))
    }
}

impl Timeline {
    fn name_counters(&mut self) {
        let name = self.track.name.clone().unwrap_or_default();
        for node in &mut self.nodes {
            if node.kind == NodeKind::Counter {
                node.name.clone_from(&name);
            }
        }
    }
}

/// The open slices of one track, the innermost last, and the events outside of them.
#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    open: Vec<Node>,
}

impl Builder {
    fn add(&mut self, event: Event) {
        match event.kind {
            Kind::Begin => self.open.push(node(event, NodeKind::Slice)),
            Kind::End => {
                // An end without a begin is ignored: the slice began before the recording.
                if let Some(mut ended) = self.open.pop() {
                    ended.end = Some(event.time);
                    ended.arguments.extend(event.arguments);
                    ended.flows.extend(event.flows);
                    ended.terminating_flows.extend(event.terminating_flows);
                    self.attach(ended);
                }
            }
            Kind::Instant => self.attach(node(event, NodeKind::Instant)),
            Kind::Counter => self.attach(node(event, NodeKind::Counter)),
        }
    }

    fn attach(&mut self, node: Node) {
        match self.open.last_mut() {
            Some(parent) => parent.children.push(node),
            None => self.nodes.push(node),
        }
    }

    fn finish(mut self) -> Vec<Node> {
        while let Some(unfinished) = self.open.pop() {
            self.attach(unfinished);
        }
        self.nodes
    }
}

fn node(event: Event, kind: NodeKind) -> Node {
    Node {
        kind,
        categories: event.categories,
        name: event.name.unwrap_or_default(),
        begin: event.time,
        end: (kind != NodeKind::Slice).then_some(event.time),
        arguments: event.arguments,
        flows: event.flows,
        terminating_flows: event.terminating_flows,
        value: event.counter,
        children: Vec::new(),
        encoded: event.encoded,
    }
}

fn arrange(events: Vec<Event>, tracks: &Tracks) -> Vec<Timeline> {
    let mut order: Vec<u64> = Vec::new();
    let mut builders: HashMap<u64, Builder> = HashMap::new();
    let mut add = |event: Event| {
        let builder = builders.entry(event.track).or_insert_with(|| {
            order.push(event.track);
            Builder::default()
        });
        builder.add(event);
    };
    for event in events {
        let extra: Vec<_> = event
            .extra_counters
            .iter()
            .map(|(track, value)| counter_value(&event, *track, *value))
            .collect();
        add(event);
        extra.into_iter().for_each(&mut add);
    }
    order
        .into_iter()
        .map(|uuid| {
            let nodes = builders.remove(&uuid).map(Builder::finish);
            timeline(uuid, nodes.unwrap_or_default(), tracks)
        })
        .collect()
}

/// Returns a counter value that an event sets, as a separate event.
fn counter_value(event: &Event, track: u64, value: CounterValue) -> Event {
    Event {
        time: event.time,
        kind: Kind::Counter,
        categories: event.categories.clone(),
        name: None,
        track,
        arguments: Vec::new(),
        flows: Vec::new(),
        terminating_flows: Vec::new(),
        counter: Some(value),
        extra_counters: Vec::new(),
        encoded: Vec::new(),
    }
}

fn timeline(uuid: u64, nodes: Vec<Node>, tracks: &Tracks) -> Timeline {
    let track = tracks.get(uuid).cloned().unwrap_or_else(|| Track {
        uuid,
        ..Track::default()
    });
    let mut ancestors = Vec::new();
    let mut owner = None;
    let mut parent = track.parent;
    // Stops at cycles of parents.
    while let Some(above) = parent.and_then(|uuid| tracks.get(uuid))
        && ancestors.len() < 100
    {
        match above.kind {
            TrackKind::Process { .. } | TrackKind::Thread { .. } => {
                owner.get_or_insert_with(|| above.clone());
                break;
            }
            _ => ancestors.push(above.clone()),
        }
        parent = above.parent;
    }
    ancestors.reverse();
    Timeline {
        track,
        ancestors,
        owner,
        nodes,
    }
}
