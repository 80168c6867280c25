//! The Perfetto schema: generated messages, field numbers and the descriptor set.
#![forbid(unsafe_code)]
