//! The ids of the current thread and user, through the C library, which the standard library links
//! anyway.

use std::ffi::{c_int, c_long};

/// Returns the kernel's id of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: the call has no arguments, and cannot fail.
    unsafe { syscall(GETTID) as i32 }
}

/// Returns the kernel's name of the calling thread, at most 15 bytes.
pub fn thread_name() -> Vec<u8> {
    let mut name = [0u8; NAME_SIZE];
    // SAFETY: the kernel writes sixteen bytes at most, which `name` has space for.
    let failed = unsafe { prctl(GET_NAME, name.as_mut_ptr()) } != 0;
    let length = name.iter().position(|&byte| byte == 0).filter(|_| !failed);
    name[..length.unwrap_or(0)].to_vec()
}

/// Returns the effective user id of the process.
pub fn user_id() -> u32 {
    geteuid()
}

/// Returns the size of a memory page of this machine in bytes.
pub fn page_size() -> usize {
    getpagesize() as usize
}

/// The size of a thread's name, including the zero at its end.
const NAME_SIZE: usize = 16;
/// `PR_GET_NAME`
const GET_NAME: c_int = 16;

/// The number of the system call, since C libraries only have a function for it since 2019.
const GETTID: c_long = if cfg!(target_arch = "x86_64") {
    186
} else if cfg!(any(target_arch = "x86", target_arch = "arm")) {
    224
} else if cfg!(target_arch = "powerpc64") {
    207
} else if cfg!(target_arch = "s390x") {
    236
} else {
    // The number on all later architectures: arm64, RISC-V, LoongArch.
    178
};

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn prctl(option: c_int, ...) -> c_int;
    safe fn geteuid() -> u32;
    safe fn getpagesize() -> c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_id_and_name_are_the_kernel_s() {
        let thread = std::thread::Builder::new().name("a name that is long".to_owned());
        let (id, name, known) = thread
            .spawn(|| (thread_id(), thread_name(), rustix::thread::gettid()))
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(id, known.as_raw_pid());
        assert_eq!(name, b"a name that is ");
        assert_ne!(id, thread_id());
    }

    #[test]
    fn user_id_and_page_size_are_the_kernel_s() {
        assert_eq!(user_id(), rustix::process::geteuid().as_raw());
        assert_eq!(page_size(), rustix::param::page_size());
    }
}
