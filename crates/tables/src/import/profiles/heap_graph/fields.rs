//! The fields of `HeapGraph` and its messages, which are extensions of `TracePacket`.

/// The field of `TracePacket` with a `HeapGraph`.
pub(in super::super) const HEAP_GRAPH: u32 = 56;

pub(super) mod heap_graph {
    pub(in super::super) const PID: u32 = 1;
    pub(in super::super) const OBJECTS: u32 = 2;
    pub(in super::super) const FIELD_NAMES: u32 = 4;
    pub(in super::super) const CONTINUED: u32 = 5;
    pub(in super::super) const INDEX: u32 = 6;
    pub(in super::super) const ROOTS: u32 = 7;
    pub(in super::super) const LOCATION_NAMES: u32 = 8;
    pub(in super::super) const TYPES: u32 = 9;
    pub(in super::super) const HEAP_BYTES_ALLOCATED: u32 = 10;
}

pub(super) mod root {
    pub(in super::super) const OBJECT_IDS: u32 = 1;
    pub(in super::super) const ROOT_TYPE: u32 = 2;
}

pub(super) mod class {
    pub(in super::super) const ID: u32 = 1;
    pub(in super::super) const LOCATION_ID: u32 = 2;
    pub(in super::super) const CLASS_NAME: u32 = 3;
    pub(in super::super) const OBJECT_SIZE: u32 = 4;
    pub(in super::super) const SUPERCLASS_ID: u32 = 5;
    pub(in super::super) const REFERENCE_FIELD_ID: u32 = 6;
    pub(in super::super) const KIND: u32 = 7;
    pub(in super::super) const CLASSLOADER_ID: u32 = 8;
}

pub(super) mod object {
    pub(in super::super) const ID: u32 = 1;
    pub(in super::super) const TYPE_ID: u32 = 2;
    pub(in super::super) const SELF_SIZE: u32 = 3;
    pub(in super::super) const REFERENCE_FIELD_ID: u32 = 4;
    pub(in super::super) const REFERENCE_OBJECT_ID: u32 = 5;
    /// The number that is added to the ids of referenced objects.
    pub(in super::super) const REFERENCE_BASE: u32 = 6;
    pub(in super::super) const ID_DELTA: u32 = 7;
    pub(in super::super) const REGISTRY_SIZE: u32 = 8;
    pub(in super::super) const HEAP_TYPE_DELTA: u32 = 9;
    pub(in super::super) const RUNTIME_INTERNAL_OBJECT_ID: u32 = 10;
    pub(in super::super) const BITMAP_ID: u32 = 11;
    pub(in super::super) const BITMAP_SOURCE_ID: u32 = 12;
    pub(in super::super) const BITMAP_WIDTH: u32 = 13;
    pub(in super::super) const BITMAP_HEIGHT: u32 = 14;
}

/// The names of the kinds of roots, by number.
pub(super) const ROOT_TYPES: [&str; 15] = [
    "ROOT_UNKNOWN",
    "ROOT_JNI_GLOBAL",
    "ROOT_JNI_LOCAL",
    "ROOT_JAVA_FRAME",
    "ROOT_NATIVE_STACK",
    "ROOT_STICKY_CLASS",
    "ROOT_THREAD_BLOCK",
    "ROOT_MONITOR_USED",
    "ROOT_THREAD_OBJECT",
    "ROOT_INTERNED_STRING",
    "ROOT_FINALIZING",
    "ROOT_DEBUGGER",
    "ROOT_REFERENCE_CLEANUP",
    "ROOT_VM_INTERNAL",
    "ROOT_JNI_MONITOR",
];

/// The kind of roots that the collector never frees.
pub(super) const ROOT_VM_INTERNAL: u64 = 13;

/// The names of the kinds of classes, by number.
pub(super) const CLASS_KINDS: [&str; 12] = [
    "KIND_UNKNOWN",
    "KIND_NORMAL",
    "KIND_NOREFERENCES",
    "KIND_STRING",
    "KIND_ARRAY",
    "KIND_CLASS",
    "KIND_CLASSLOADER",
    "KIND_DEXCACHE",
    "KIND_SOFT_REFERENCE",
    "KIND_WEAK_REFERENCE",
    "KIND_FINALIZER_REFERENCE",
    "KIND_PHANTOM_REFERENCE",
];

/// The kinds of classes whose objects have no fields with references.
pub(super) const KINDS_WITHOUT_FIELDS: [&str; 3] =
    ["KIND_NOREFERENCES", "KIND_STRING", "KIND_ARRAY"];

/// The kinds of classes whose referents are not kept alive by them.
pub(super) const WEAK_KINDS: [&str; 3] = [
    "KIND_WEAK_REFERENCE",
    "KIND_FINALIZER_REFERENCE",
    "KIND_PHANTOM_REFERENCE",
];

/// The names of the parts of the heap, by number.
pub(super) const HEAP_TYPES: [&str; 4] = [
    "HEAP_TYPE_UNKNOWN",
    "HEAP_TYPE_APP",
    "HEAP_TYPE_ZYGOTE",
    "HEAP_TYPE_BOOT_IMAGE",
];
