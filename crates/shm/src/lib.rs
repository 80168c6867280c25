//! The shared-memory ABI between a producer and the tracing service.
