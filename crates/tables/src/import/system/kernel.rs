//! The kernel of a machine.

use ferretto_proto::fields::{system_info as field, utsname};

use crate::import::context::Context;
use crate::import::message::Message;
use crate::trackers::kernel::version;

/// Records the properties of the kernel in a `SystemInfo`, on which the decoding of later packets
/// depends.
pub(crate) fn note_kernel(cx: &mut Context, bytes: &[u8]) {
    let info = Message::<{ field::PAGE_SIZE as usize + 1 }>::read(bytes);
    let mut kernel = cx.kernels.get(&cx.store);
    if info.has(field::UTSNAME) {
        let names = Message::<5>::read(info.bytes(field::UTSNAME));
        let release = String::from_utf8_lossy(names.bytes(utsname::RELEASE));
        let is_linux = names.bytes(utsname::SYSNAME) == b"Linux";
        kernel.version = version(&release).filter(|_| is_linux);
        kernel.arch = cx.store.strings.intern_bytes(names.bytes(utsname::MACHINE));
    }
    kernel.page_size = Some(info.u32(field::PAGE_SIZE)).filter(|size| *size != 0);
    cx.kernels.set(&cx.store, kernel);
}
