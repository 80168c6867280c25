//! Protobuf wire primitives: a field iterator and a streaming encoder.
#![forbid(unsafe_code)]
