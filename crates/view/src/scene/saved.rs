//! Saved scenes.

use std::io;

use ferretto_tables::StringId;
use ferretto_tables::saved::{Array, Reader, Writer};

use super::{AllLanes, Scene};
use crate::counters::Counters;
use crate::lanes::Lanes;
use crate::nodes::{Content, Kind, Name, Node};
use crate::view::View;

impl Scene {
    /// Writes the scene of a view.
    pub(crate) fn save(&self, view: &View, writer: &mut Writer<'_>) -> io::Result<()> {
        writer.number(self.nodes.len() as u64);
        for node in &self.nodes {
            save_node(writer, node)?;
        }
        writer.number(self.tracks.len() as u64);
        for (node, depth) in &self.tracks {
            writer.number((*node).into());
            writer.number((*depth).into());
        }
        for numbers in [&self.threads, &self.cpus, &self.processes, &self.upids] {
            writer.number(numbers.len() as u64);
            let numbers = numbers.iter().map(|number| u64::from(*number));
            numbers.for_each(|number| writer.number(number));
        }
        self.cpu_time.save(writer)?;
        for content in CONTENTS {
            if let Some((lanes, times)) = view.lanes(&content) {
                lanes.save(writer, times, |row| view.label(&content, row))?;
            }
        }
        self.counters.save(&view.trace().tables().counter, writer)
    }

    /// Reads a written scene.
    pub(crate) fn load(reader: &mut Reader) -> io::Result<Self> {
        let nodes = 0..reader.count()?;
        let nodes = nodes.map(|_| load_node(reader));
        let nodes = nodes.collect::<io::Result<Vec<_>>>()?;
        let tracks = 0..reader.count()?;
        let tracks = tracks.map(|_| Ok((reader.small()?, reader.small()?)));
        let tracks = tracks.collect::<io::Result<_>>()?;
        Ok(Self {
            nodes,
            tracks,
            threads: numbers(reader)?,
            cpus: numbers(reader)?,
            processes: numbers(reader)?,
            upids: numbers(reader)?,
            cpu_time: Array::load(reader)?,
            lanes: AllLanes {
                slices: Lanes::load(reader)?,
                sched: Lanes::load(reader)?,
                activity: Lanes::load(reader)?,
                states: Lanes::load(reader)?,
                values: Lanes::load(reader)?,
                samples: Lanes::load(reader)?,
                ftrace: Lanes::load(reader)?,
                lines: Lanes::load(reader)?,
                heap: Lanes::load(reader)?,
            },
            counters: Counters::load(reader)?,
        })
    }
}

/// The contents of nodes with lanes, in the order of [`AllLanes`].
const CONTENTS: [Content; 9] = [
    Content::Slices(Vec::new()),
    Content::Cpu(0),
    Content::Activity(0),
    Content::States(0),
    Content::Values(0),
    Content::Samples(0),
    Content::Ftrace(0),
    Content::Lines,
    Content::Heap(0),
];

fn numbers(reader: &mut Reader) -> io::Result<Vec<u32>> {
    let count = reader.count()?;
    (0..count).map(|_| reader.small()).collect()
}

fn save_node(writer: &mut Writer<'_>, node: &Node) -> io::Result<()> {
    writer.number(node.parent.into());
    writer.number(node.behind.into());
    writer.number(node.kind as u64);
    match &node.name {
        Name::Pool(id) => {
            writer.number(0);
            writer.number(id.raw().into());
        }
        Name::Text(text) => {
            writer.number(1);
            writer.bytes(text.as_bytes())?;
        }
    }
    writer.optional(node.number);
    let (content, of) = match &node.content {
        Content::None => (0, &0),
        Content::Slices(_) => (1, &0),
        Content::Counter(of) => (2, of),
        Content::Cpu(of) => (3, of),
        Content::Activity(of) => (4, of),
        Content::States(of) => (5, of),
        Content::Values(of) => (6, of),
        Content::Samples(of) => (7, of),
        Content::Ftrace(of) => (8, of),
        Content::Lines => (9, &0),
        Content::Heap(of) => (10, of),
    };
    writer.number(content);
    writer.number((*of).into());
    if let Content::Slices(tracks) = &node.content {
        writer.number(tracks.len() as u64);
        let tracks = tracks.iter().map(|track| u64::from(*track));
        tracks.for_each(|track| writer.number(track));
    }
    writer.number(node.unit.raw().into());
    writer.number(node.lane.into());
    writer.number(node.depth.into());
    writer.number(node.rows.into());
    writer.number(node.is_subject.into());
    Ok(())
}

fn load_node(reader: &mut Reader) -> io::Result<Node> {
    let (parent, behind) = (reader.small()?, reader.small()?);
    let kind = reader.number()?;
    let kind = KINDS.iter().find(|known| **known as u64 == kind);
    let kind = *kind.ok_or(io::ErrorKind::InvalidData)?;
    let name = match reader.number()? {
        0 => Name::Pool(text(reader)?),
        _ => Name::Text(
            String::from_utf8(reader.bytes()?)
                .map_err(io::Error::other)?
                .into(),
        ),
    };
    let number = reader.optional()?;
    let (content, of) = (reader.number()?, reader.small()?);
    let content = match content {
        0 => Content::None,
        1 => Content::Slices(numbers(reader)?),
        2 => Content::Counter(of),
        3 => Content::Cpu(of),
        4 => Content::Activity(of),
        5 => Content::States(of),
        6 => Content::Values(of),
        7 => Content::Samples(of),
        8 => Content::Ftrace(of),
        9 => Content::Lines,
        _ => Content::Heap(of),
    };
    Ok(Node {
        parent,
        behind,
        kind,
        name,
        number,
        content,
        unit: text(reader)?,
        lane: reader.small()?,
        depth: reader.small()?,
        rows: reader.small()?,
        is_subject: reader.number()? != 0,
    })
}

fn text(reader: &mut Reader) -> io::Result<StringId> {
    reader.small().map(StringId::from_raw)
}

const KINDS: [Kind; 12] = [
    Kind::Machine,
    Kind::Process,
    Kind::Thread,
    Kind::Group,
    Kind::Slices,
    Kind::Counter,
    Kind::Cpu,
    Kind::States,
    Kind::Values,
    Kind::Samples,
    Kind::Log,
    Kind::Heap,
];
