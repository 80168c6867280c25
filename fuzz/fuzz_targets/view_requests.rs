#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| ferretto_fuzz::view_requests(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    ferretto_fuzz::run_files(ferretto_fuzz::view_requests)
}
