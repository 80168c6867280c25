//! Ferretto as a child process, with the same commands as the official SDK's
//! driver, and our service besides.

fn main() {}
