//! The events with a dedicated message in the trace format.
//!
//! `data/events.tsv` lists them; only the rows of requested events are ever parsed.

/// The type of a message field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageType {
    /// `int32`
    Int32,
    /// `int64`
    Int64,
    /// `uint32`
    Uint32,
    /// `uint64`
    Uint64,
    /// `string`
    String,
    /// `bytes`
    Bytes,
}

impl MessageType {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "i32" => Self::Int32,
            "i64" => Self::Int64,
            "u32" => Self::Uint32,
            "u64" => Self::Uint64,
            "str" => Self::String,
            "bytes" => Self::Bytes,
            _ => return None,
        })
    }

    /// Returns the number of the type in `google.protobuf.FieldDescriptorProto.Type`.
    pub fn descriptor_type(self) -> u64 {
        match self {
            Self::Int64 => 3,
            Self::Uint64 => 4,
            Self::Int32 => 5,
            Self::String => 9,
            Self::Bytes => 12,
            Self::Uint32 => 13,
        }
    }
}

/// One field of an event's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageField {
    /// The name, equal to that of the kernel field.
    pub name: &'static str,
    /// Field number in the event's message.
    pub number: u32,
    /// Type of the field.
    pub ty: MessageType,
}

/// An event with a dedicated message.
#[derive(Debug, Clone, Copy)]
pub struct KnownEvent {
    /// Directory under `events/`.
    pub group: &'static str,
    /// Directory under the group.
    pub name: &'static str,
    /// Field number in the `FtraceEvent` oneof.
    pub number: u32,
    fields: &'static str,
}

impl KnownEvent {
    /// Returns the fields of the event's message, in the order in which they are written.
    pub fn fields(&self) -> impl Iterator<Item = MessageField> + use<> {
        self.fields.split(' ').filter_map(|field| {
            let mut parts = field.split(':');
            Some(MessageField {
                name: parts.next()?,
                number: parts.next()?.parse().ok()?,
                ty: MessageType::parse(parts.next()?)?,
            })
        })
    }

    fn parse(line: &'static str) -> Option<Self> {
        let mut columns = line.split('\t');
        let (group, name) = columns.next()?.split_once('/')?;
        let number = columns.next()?.parse().ok()?;
        Some(Self {
            group,
            name,
            number,
            fields: columns.next().unwrap_or(""),
        })
    }
}

static EVENTS: &str = include_str!("../../data/events.tsv");

/// Iterates over the events with a dedicated message.
pub fn known_events() -> impl Iterator<Item = KnownEvent> {
    EVENTS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(KnownEvent::parse)
}

/// Returns the known event with that group and name.
pub fn find(group: &str, name: &str) -> Option<KnownEvent> {
    known_events().find(|event| event.group == group && event.name == name)
}

/// Returns the first known event with that name in any group.
pub(super) fn find_by_name(name: &str) -> Option<KnownEvent> {
    known_events().find(|event| event.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_parses_and_numbers_are_unique() {
        let rows = EVENTS.lines().filter(|line| !line.starts_with('#')).count();
        let mut numbers: Vec<u32> = known_events().map(|event| event.number).collect();
        assert_eq!(numbers.len(), rows);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), rows);
        for event in known_events() {
            let declared = event
                .fields
                .split(' ')
                .filter(|field| !field.is_empty())
                .count();
            assert_eq!(
                event.fields().count(),
                declared,
                "{}/{}",
                event.group,
                event.name
            );
        }
    }
}
