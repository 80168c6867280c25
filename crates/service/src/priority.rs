//! Priorities that sessions may want the service to run at.

#[cfg(feature = "priority")]
pub(crate) use ferretto_priority::InvalidPriority;
#[cfg(feature = "priority")]
pub use ferretto_priority::Priority;
#[cfg(not(feature = "priority"))]
pub(crate) use none::InvalidPriority;
#[cfg(not(feature = "priority"))]
pub use none::Priority;

/// Stands in for priorities in a service built without them.
#[cfg(not(feature = "priority"))]
mod none {
    use ferretto_proto::PriorityBoostConfig;

    /// A priority of the service's thread; there is none without the feature `priority`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Priority {}

    /// This service was built without the feature `priority`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct InvalidPriority;

    ferretto_wire::error_text! {
        InvalidPriority {
            Self => "this service was built without it (feature \"priority\" of ferretto-service)",
        }
    }

    impl Priority {
        /// Refuses a config's priority in a build without this feature.
        pub(crate) fn from_config(_: &PriorityBoostConfig) -> Result<Self, InvalidPriority> {
            Err(InvalidPriority)
        }
    }
}
