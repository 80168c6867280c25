//! `perfetto`.
#![allow(dead_code)]
mod args;
mod light;
