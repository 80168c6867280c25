//! ELF files as profilers need them: identity, where code lies, unwind tables and symbol tables.

#![forbid(unsafe_code)]
