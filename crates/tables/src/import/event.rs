//! Events that wait in the sorter.

use super::arena::Span;

/// An event, as much of it as was decoded in the order of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// A packet that is read when its time has come, by the topic that this field of `TracePacket`
    /// belongs to.
    Packet {
        /// The number of the field.
        field: u32,
        /// The value of the field.
        span: Span,
    },
    /// A track event.
    TrackEvent {
        /// The encoded `TrackEvent`.
        span: Span,
        /// The place of what was decoded in the order of the file, if there is something.
        extra: Option<std::num::NonZeroU32>,
    },
}

impl Event {
    /// Returns the bytes it refers to.
    #[inline]
    pub(crate) fn span(&self) -> Option<Span> {
        match self {
            Self::Packet { span, .. } | Self::TrackEvent { span, .. } => Some(*span),
        }
    }
}
