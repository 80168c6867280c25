//! Producer and consumer endpoints of the tracing service.
#![forbid(unsafe_code)]
