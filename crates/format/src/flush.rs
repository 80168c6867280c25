//! Why a flush was asked for, and by whom.

/// The reason and initiator of a flush: reason in bits 0 to 3, initiator in 4 to 7, and in bits 8
/// to 11 the purpose of a clone. Unknown bits are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushFlags(pub u64);

/// The reason of a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushReason {
    /// Not known.
    #[default]
    Unknown = 0,
    /// The session flushes now and then.
    Periodic = 1,
    /// The recording ends.
    Stop = 2,
    /// The recording is cloned.
    Clone = 3,
    /// A consumer asked for it.
    Explicit = 4,
}

/// The program that began a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushInitiator {
    /// Not known.
    #[default]
    Unknown = 0,
    /// The service.
    Service = 1,
    /// A command line.
    CommandLine = 2,
    /// A program that uses a library.
    Library = 3,
}

impl FlushFlags {
    /// Set in flushes of a clone that is made for a bug report.
    const FOR_BUGREPORT: u64 = 0x100;

    /// A flush for a reason, by an initiator.
    pub const fn new(initiator: FlushInitiator, reason: FlushReason) -> Self {
        Self((initiator as u64) << 4 | reason as u64)
    }

    /// The same flush, of a clone that is made for a bug report.
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
    fn flags_are_upstreams() {
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
