//! Files with malicious content. Each is imported in a separate process with little memory and CPU
//! time.

mod confined;
mod formats;
mod packed;
mod packets;
