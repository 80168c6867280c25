//! Priorities that sessions may request for the service.

#[cfg(feature = "priority")]
pub(crate) use ferretto_priority::InvalidPriority;
#[cfg(feature = "priority")]
pub use ferretto_priority::Priority;
#[cfg(not(feature = "priority"))]
pub(crate) use none::InvalidPriority;
#[cfg(not(feature = "priority"))]
pub use none::Priority;

/// Replaces priorities in a service built without them.
#[cfg(not(feature = "priority"))]
mod none {
    use ferretto_proto::PriorityBoostConfig;

    /// A priority of the service's thread; without the feature `priority`, there is none.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Priority {}

    /// The error of a service built without the feature `priority`.
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
