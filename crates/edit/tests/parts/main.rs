//! Parts of traces: each can be opened on its own, and has the same content as the whole for its
//! time.

mod cut;
mod merge;
mod recording;
mod split;
mod state;
