//! Integration tests, in one program.

mod elf;
mod packed;
