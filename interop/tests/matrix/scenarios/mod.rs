//! The scenarios, written once.

pub(crate) mod buffers;
pub(crate) mod clones;
pub(crate) mod files;
pub(crate) mod plain;
pub(crate) mod sessions;
pub(crate) mod startup;
pub(crate) mod transformed;
pub(crate) mod triggers;
