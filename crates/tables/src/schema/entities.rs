//! Tables of threads, processes, CPUs, machines and other objects.

use crate::strings::StringId;
use crate::table::table;

table! {
    /// Threads. A thread has one row for its lifetime; a tid may be reused by several rows.
    ThreadRow, ThreadTable = "thread" {
        /// The thread id of the kernel.
        tid: i64,
        /// The name.
        name: StringId,
        /// The time at which it was created, in nanoseconds.
        start_ts: Option<i64>,
        /// The time at which it ended, in nanoseconds.
        end_ts: Option<i64>,
        /// Its process: `process.id`.
        upid: Option<u32>,
        /// 1 for the main thread of its process; NULL while the process is unknown.
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
    /// Processes. A process has one row for its lifetime; a pid may be reused by several rows.
    ProcessRow, ProcessTable = "process" {
        /// The process id of the kernel.
        pid: i64,
        /// The name.
        name: StringId,
        /// The time at which it was created, in nanoseconds.
        start_ts: Option<i64>,
        /// The time at which it ended, in nanoseconds.
        end_ts: Option<i64>,
        /// The process that created it: `process.id`.
        parent_upid: Option<u32>,
        /// The user id.
        uid: Option<u32>,
        /// The app id in Android's user id.
        android_appid: Option<u32>,
        /// The user id in Android's user id.
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
    /// CPUs. Each machine has rows for all CPU numbers that it may have.
    CpuRow, CpuTable = "cpu" {
        /// The number in the kernel; NULL for a CPU that does not occur.
        cpu: Option<u32>,
        /// The id of the group of equal CPUs.
        cluster_id: u32,
        /// The name of the processor.
        processor: StringId,
        /// The machine: `machine.id`.
        machine_id: u32,
        /// The relative performance.
        capacity: Option<u32>,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
    }
}

table! {
    /// Frequencies supported by CPUs.
    CpuFreqRow, CpuFreqTable = "cpu_freq" {
        /// The CPU: `cpu.id`.
        ucpu: u32,
        /// The frequency in kHz.
        freq: u32,
    }
}

table! {
    /// Machines.
    MachineRow, MachineTable = "machine" {
        /// The machine id in the trace; 0 is the recording machine.
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
        /// The build fingerprint of Android.
        android_build_fingerprint: StringId,
        /// The manufacturer of an Android device.
        android_device_manufacturer: StringId,
        /// The SDK version of Android.
        android_sdk_version: Option<i64>,
        /// The memory in bytes.
        system_ram_bytes: Option<i64>,
        /// The memory in gigabytes, rounded.
        system_ram_gb: Option<i64>,
    }
}

table! {
    /// GPUs.
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
        /// The uuid from the vendor's driver.
        uuid: StringId,
        /// The address on the PCI bus.
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
