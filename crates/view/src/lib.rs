//! A viewer of traces: the tables at every level of detail, and the page that draws them.
//!
//! [`View`] is a trace prepared for viewing. `PROTOCOL.md` describes the requests of the page, and
//! the encoding of the replies.
#![forbid(unsafe_code)]

mod activity;
mod answers;
mod base64;
mod cache;
mod cgroups;
mod code;
mod coded;
mod counters;
mod details;
mod export;
mod extents;
mod facts;
mod flows;
mod frame;
mod kept;
mod lanes;
mod list;
mod loads;
mod locate;
mod nodes;
mod opening;
mod overview;
mod page;
mod parallel;
mod pivot;
mod profile;
mod queries;
mod relations;
mod replaceable;
mod replies;
mod scene;
mod search;
mod server;
mod sight;
mod summary;
mod tiles;
mod varints;
mod view;
mod why;
mod window;

pub use cache::{Cache, NewIndex};
pub use code::FunctionRequest;
pub use export::{Export, ExportError};
pub use facts::Circumstances;
pub use pivot::{PivotOf, PivotRequest};
pub use profile::{By, ProfileRequest};
pub use relations::Step;
pub use search::{InvalidExpression, SearchIn};
pub use server::{Live, Server};
pub use view::{Indexed, View};
pub use window::Window;
