//! Integration tests, in one program.

mod conversations;
mod hostile;
