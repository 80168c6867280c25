//! The reason and initiator of a flush.

/// The reason and initiator of a flush: the reason in bits 0 to 3, the initiator in bits 4 to 7,
/// and the purpose of a clone in bits 8 to 11. Unknown bits are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushFlags(pub u64);

/// The reason of a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushReason {
    /// An unknown reason.
    #[default]
    Unknown = 0,
    /// The session flushes periodically.
    Periodic = 1,
    /// The recording ends.
    Stop = 2,
    /// The recording is cloned.
    Clone = 3,
    /// A consumer requested the flush.
    Explicit = 4,
}

/// The program that initiated a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushInitiator {
    /// An unknown initiator.
    #[default]
    Unknown = 0,
    /// The service.
    Service = 1,
    /// A command line tool.
    CommandLine = 2,
    /// A library in a program.
    Library = 3,
}

impl FlushFlags {
    /// The flag of flushes for a clone for a bug report.
    const FOR_BUGREPORT: u64 = 0x100;

    /// Creates the flags for a flush by an initiator, for a reason.
    pub const fn new(initiator: FlushInitiator, reason: FlushReason) -> Self {
        Self((initiator as u64) << 4 | reason as u64)
    }

    /// Returns the flags of the same flush for a clone for a bug report.
    #[must_use]
    pub const fn for_bugreport(self) -> Self {
        Self(self.0 | Self::FOR_BUGREPORT)
    }

    /// Returns the reason.
    pub const fn reason(self) -> FlushReason {
        match self.0 & 0xf {
            1 => FlushReason::Periodic,
            2 => FlushReason::Stop,
            3 => FlushReason::Clone,
            4 => FlushReason::Explicit,
            _ => FlushReason::Unknown,
        }
    }

    /// Returns the initiator.
    pub const fn initiator(self) -> FlushInitiator {
        match self.0 >> 4 & 0xf {
            1 => FlushInitiator::Service,
            2 => FlushInitiator::CommandLine,
            3 => FlushInitiator::Library,
            _ => FlushInitiator::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FlushFlags, FlushInitiator, FlushReason};

    #[test]
    fn flags_match_upstream() {
        let flags = |initiator, reason| FlushFlags::new(initiator, reason);
        assert_eq!(
            flags(FlushInitiator::Service, FlushReason::Periodic).0,
            0x11
        );
        assert_eq!(
            flags(FlushInitiator::CommandLine, FlushReason::Stop).0,
            0x22
        );
        assert_eq!(
            flags(FlushInitiator::Library, FlushReason::Explicit).0,
            0x34
        );
        let clone = flags(FlushInitiator::Service, FlushReason::Clone).for_bugreport();
        assert_eq!(clone.0, 0x113);
        assert_eq!(clone.reason(), FlushReason::Clone);
        assert_eq!(clone.initiator(), FlushInitiator::Service);
        assert_eq!(FlushFlags(0xff).reason(), FlushReason::Unknown);
    }
}
