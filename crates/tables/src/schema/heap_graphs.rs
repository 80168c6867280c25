//! Tables of heap graphs: the objects of Java programs and their references.

use crate::strings::StringId;
use crate::table::table;

table! {
    /// Heap graphs: dumps of all objects of a process.
    HeapGraphRow, HeapGraphTable = "heap_graph" {
        /// The time in nanoseconds.
        ts: i64,
        /// The process: `process.id`.
        upid: u32,
        /// The reason, such as `OOME`; NULL for a requested dump.
        dump_reason: StringId,
        /// The size of the heap in bytes.
        heap_size: Option<i64>,
    }
}

table! {
    /// The threads that caused heap graphs.
    HeapGraphThreadCallsiteRow, HeapGraphThreadCallsiteTable = "heap_graph_thread_callsite" {
        /// The graph: `heap_graph.id`.
        heap_graph_id: u32,
        /// The thread: `thread.id`.
        utid: u32,
        /// Its callstack: `stack_profile_callsite.id`.
        callsite_id: Option<u32>,
    }
}

table! {
    /// Allocations that failed, and so caused heap graphs.
    HeapGraphJavaOomeDetailsRow, HeapGraphJavaOomeDetailsTable =
        "heap_graph_java_oome_details" {
        /// The graph: `heap_graph.id`.
        heap_graph_id: u32,
        /// The size of the allocation in bytes.
        allocation_size_bytes: i64,
        /// The free bytes of the heap.
        total_bytes_free: i64,
        /// The bytes by which the heap could grow.
        free_bytes_until_oom: i64,
        /// The message of the error.
        error_msg: StringId,
    }
}

table! {
    /// Classes of objects.
    HeapGraphClassRow, HeapGraphClassTable = "heap_graph_class" {
        /// The name, such as `java.lang.String` or `java.lang.Class<int[]>`.
        name: StringId,
        /// The name before obfuscation.
        deobfuscated_name: StringId,
        /// The file with the class.
        location: StringId,
        /// The superclass: `heap_graph_class.id`.
        superclass_id: Option<u32>,
        /// The class loader: `heap_graph_object.id`.
        classloader_id: Option<u32>,
        /// The kind, such as `KIND_NORMAL`.
        kind: StringId,
    }
}

table! {
    /// Objects.
    HeapGraphObjectRow, HeapGraphObjectTable = "heap_graph_object" {
        /// The process: `process.id`.
        upid: u32,
        /// The time of the graph in nanoseconds.
        graph_sample_ts: i64,
        /// The size in bytes; -1 for an object that is only referenced.
        self_size: i64,
        /// The native memory that belongs to it, in bytes.
        native_size: i64,
        /// Its references: `heap_graph_reference.reference_set_id`.
        reference_set_id: Option<u32>,
        /// 1 if it can be reached from a root.
        reachable: bool,
        /// The part of the heap, such as `HEAP_TYPE_APP`.
        heap_type: StringId,
        /// The class: `heap_graph_class.id`.
        type_id: u32,
        /// The kind of root that it is; NULL for other objects.
        root_type: StringId,
        /// The number of references from the nearest root; -1 if none reaches it.
        root_distance: i32,
        /// Its data: `heap_graph_object_data.id`.
        object_data_id: Option<u32>,
    }
}

table! {
    /// Data of objects.
    HeapGraphObjectDataRow, HeapGraphObjectDataTable = "heap_graph_object_data" {
        /// Its fields: `heap_graph_primitive.field_set_id`.
        field_set_id: Option<u32>,
        /// The text of a string.
        value_string: StringId,
        /// The type of the elements of an array.
        array_element_type: StringId,
        /// The number of elements of an array.
        array_element_count: Option<u32>,
        /// The id of the contents of an array.
        array_data_id: Option<u32>,
        /// A hash of the contents of an array.
        array_data_hash: Option<i64>,
    }
}

table! {
    /// References of objects to others.
    HeapGraphReferenceRow, HeapGraphReferenceTable = "heap_graph_reference" {
        /// The id of the references of an object.
        reference_set_id: u32 [sorted],
        /// The object that has the reference: `heap_graph_object.id`.
        owner_id: u32,
        /// The object that it refers to: `heap_graph_object.id`; NULL if it is unset.
        owned_id: Option<u32>,
        /// The name of the field with its class.
        field_name: StringId,
        /// The type of the field.
        field_type_name: StringId,
        /// The name of the field before obfuscation.
        deobfuscated_field_name: StringId,
    }
}

table! {
    /// Values of fields that are no references.
    HeapGraphPrimitiveRow, HeapGraphPrimitiveTable = "heap_graph_primitive" {
        /// The id of the fields of an object.
        field_set_id: u32 [sorted],
        /// The name of the field with its class.
        field_name: StringId,
        /// The type of the field.
        field_type: StringId,
        /// The value of a `boolean`.
        bool_value: Option<i64>,
        /// The value of a `byte`.
        byte_value: Option<i64>,
        /// The value of a `char`.
        char_value: Option<i64>,
        /// The value of a `short`.
        short_value: Option<i64>,
        /// The value of an `int`.
        int_value: Option<i64>,
        /// The value of a `long`.
        long_value: Option<i64>,
        /// The value of a `float`.
        float_value: Option<f64>,
        /// The value of a `double`.
        double_value: Option<f64>,
    }
}

table! {
    /// Packages of Android.
    PackageListRow, PackageListTable = "package_list" {
        /// The name.
        package_name: StringId,
        /// The user of its processes.
        uid: i64,
        /// 1 if it can be debugged.
        debuggable: bool,
        /// 1 if shells can profile it.
        profileable_from_shell: bool,
        /// Its version.
        version_code: i64,
    }
}
