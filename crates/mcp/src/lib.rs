//! A server of the Model Context Protocol over standard input and output.
//!
//! [`serve`] reads requests, one JSON text a line, and answers them with the tools and resources of
//! a [`Toolbox`]. Answers have a limited size, and a cursor for the rest ([`Answer`]). Names in
//! answers are always JSON strings without characters that control a terminal. [`Root`] opens files
//! below a folder, and follows no link out of it.
#![forbid(unsafe_code)]

mod answer;
mod arguments;
mod protocol;
mod root;
mod server;
mod toolbox;

pub use answer::{Answer, Image};
pub use root::{NewFile, Root, path_of_file};
pub use server::serve;
pub use toolbox::{Call, Resource, Tool, Toolbox};
