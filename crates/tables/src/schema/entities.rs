//! Those who took part.

use crate::strings::StringId;
use crate::table::table;

table! {
    /// Threads. A thread has one row for as long as it lives; numbers may be used again.
    ThreadRow, ThreadTable = "thread" {
        /// The kernel's number.
        tid: i64,
        /// The name.
        name: StringId,
        /// The time at which it was created, in nanoseconds.
        start_ts: Option<i64>,
        /// The time at which it ended, in nanoseconds.
        end_ts: Option<i64>,
        /// Its process: `process.id`.
        upid: Option<u32>,
        /// 1 for the first thread of its process; NULL while the process is not known.
        is_main_thread: Option<bool>,
        /// 1 for the idle task of a CPU.
        is_idle: bool,
        /// The machine: `machine.id`.
        machine_id: u32,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
    }
}

table! {
    /// Processes. A process has one row for as long as it lives; numbers may be used again.
    ProcessRow, ProcessTable = "process" {
        /// The kernel's number.
        pid: i64,
        /// The name.
        name: StringId,
        /// The time at which it was created, in nanoseconds.
        start_ts: Option<i64>,
        /// The time at which it ended, in nanoseconds.
        end_ts: Option<i64>,
        /// The process that created it: `process.id`.
        parent_upid: Option<u32>,
        /// The user.
        uid: Option<u32>,
        /// The app, by Android's rule for users.
        android_appid: Option<u32>,
        /// The person, by Android's rule for users.
        android_user_id: Option<u32>,
        /// The command line.
        cmdline: StringId,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The machine: `machine.id`.
        machine_id: u32,
    }
}

table! {
    /// CPUs. Those of a machine have rows for all numbers that they may have.
    CpuRow, CpuTable = "cpu" {
        /// The kernel's number; NULL for a CPU that was not seen.
        cpu: Option<u32>,
        /// The number of the group of CPUs that are alike.
        cluster_id: u32,
        /// The name of the processor.
        processor: StringId,
        /// The machine: `machine.id`.
        machine_id: u32,
        /// The relative speed.
        capacity: Option<u32>,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
    }
}

table! {
    /// Frequencies that CPUs can have.
    CpuFreqRow, CpuFreqTable = "cpu_freq" {
        /// The CPU: `cpu.id`.
        ucpu: u32,
        /// The frequency in kHz.
        freq: u32,
    }
}

table! {
    /// Machines that took part.
    MachineRow, MachineTable = "machine" {
        /// The number in the trace; 0 is the one that recorded.
        raw_id: i64,
        /// The name.
        name: StringId,
        /// The name of the operating system.
        sysname: StringId,
        /// The release of the operating system.
        release: StringId,
        /// The version of the operating system.
        version: StringId,
        /// The architecture.
        arch: StringId,
        /// The number of CPUs.
        num_cpus: Option<u32>,
        /// The build of Android.
        android_build_fingerprint: StringId,
        /// The manufacturer of an Android device.
        android_device_manufacturer: StringId,
        /// The version of Android.
        android_sdk_version: Option<i64>,
        /// The memory in bytes.
        system_ram_bytes: Option<i64>,
        /// The memory in thousands of millions of bytes, rounded.
        system_ram_gb: Option<i64>,
    }
}

table! {
    /// Graphics processors.
    GpuRow, GpuTable = "gpu" {
        /// The number on its machine.
        gpu: u32,
        /// The machine: `machine.id`.
        machine_id: u32,
        /// The name.
        name: StringId,
        /// The vendor.
        vendor: StringId,
        /// The model.
        model: StringId,
        /// The architecture.
        architecture: StringId,
        /// The identity as the vendor's driver tells it.
        uuid: StringId,
        /// The place on the PCI bus.
        pci_bdf: StringId,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
    }
}

table! {
    /// Names of interrupts.
    InterruptMappingRow, InterruptMappingTable = "linux_interrupt_mapping" {
        /// The number of the interrupt.
        irq_id: u32,
        /// The name.
        name: StringId,
        /// The machine: `machine.id`.
        machine_id: u32,
    }
}
