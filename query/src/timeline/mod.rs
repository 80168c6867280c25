//! Tables from which timelines are drawn: mipmaps, which have one row for each step of a range of
//! time, and windows, which are the steps.

mod mipmap;
mod pyramid;
mod window;

pub(crate) use self::mipmap::{CounterMipmap, SliceMipmap};
pub(crate) use self::window::Window;
