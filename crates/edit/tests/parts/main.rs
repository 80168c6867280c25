//! Parts of traces: each opens alone, and says of its time what the whole says of it.

mod content;
mod cut;
mod merge;
mod recording;
mod split;
mod state;
