#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferretto_fuzz::patches(data));
