//! Heap graphs of Java: tables, trees and names.

use std::sync::Arc;

use ferretto_tables::Trace;

use crate::common::{Session, encode};

/// Returns an encoded field with a number. Messages with extensions have no text form.
fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// Returns an encoded field with bytes.
fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [
        varint(field << 3 | 2),
        varint(value.len() as u64),
        value.to_vec(),
    ]
    .concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// Returns a packet of process 7 at a time with a part of a heap graph.
fn packet(ts: u64, sequence: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    let graph = [number(1, 7), parts.concat()].concat();
    let packet = [number(8, ts), number(10, sequence), bytes(56, &graph)];
    bytes(1, &packet.concat())
}

/// Returns an object with its class, its size, and the fields and objects that it refers to.
fn object(id: u64, class: u64, size: u64, references: &[(u64, u64)]) -> Vec<u8> {
    let mut object = [number(1, id), number(2, class), number(3, size)].concat();
    for (field, owned) in references {
        if *field != 0 {
            object.extend(number(4, *field));
        }
        object.extend(number(5, *owned));
    }
    bytes(2, &object)
}

/// Returns a class with the fields of its objects.
fn class(id: u64, name: &str, superclass: u64, fields: &[u64]) -> Vec<u8> {
    let mut class = [
        number(1, id),
        bytes(3, name.as_bytes()),
        number(5, superclass),
    ]
    .concat();
    fields
        .iter()
        .for_each(|field| class.extend(number(6, *field)));
    bytes(9, &class)
}

fn field_name(iid: u64, name: &str) -> Vec<u8> {
    bytes(4, &[number(1, iid), bytes(2, name.as_bytes())].concat())
}

fn root(kind: u64, object: u64) -> Vec<u8> {
    bytes(7, &[number(1, object), number(2, kind)].concat())
}

const JAVA_FRAME: u64 = 3;
const CONTINUED: (u64, u64) = (5, 1);

fn session(text: &str, packets: &[Vec<u8>]) -> Session {
    let process = "packet { process_tree { processes { pid: 7 ppid: 1 cmdline: \"app\" } } }";
    let bytes = [encode(&format!("{process} {text}")), packets.concat()].concat();
    let trace = Trace::read(&bytes[..], &ferretto_tables::Options::default());
    Session::of(&Arc::new(trace.expect("a trace")))
}

/// A graph of two packets: 1 refers to 2 and 3, 2 to 4, and 5 is garbage that refers to 4.
fn graph() -> [Vec<u8>; 2] {
    [
        packet(
            10,
            3,
            &[
                number(CONTINUED.0, CONTINUED.1),
                root(JAVA_FRAME, 1),
                object(1, 1, 100, &[(1, 2), (2, 3)]),
                object(2, 2, 20, &[(0, 4), (0, 0)]),
                object(3, 2, 0, &[]),
                object(4, 3, 4, &[]),
                object(5, 2, 50, &[(0, 4)]),
            ],
        ),
        packet(
            10,
            3,
            &[
                number(6, 1),
                field_name(1, "app.Main.first"),
                field_name(2, "app.Node app.Main.second"),
                field_name(3, "a.b"),
                field_name(4, "app.Base.up"),
                class(1, "app.Main", 0, &[1, 2]),
                class(2, "a", 4, &[3]),
                class(3, "a[]", 0, &[]),
                class(4, "app.Base", 0, &[4]),
            ],
        ),
    ]
}

#[test]
fn objects_have_classes_roots_and_distances() {
    let mut s = session("", &graph());
    assert_eq!(
        s.rows(
            "SELECT o.id, o.self_size, o.reachable, o.root_type, o.root_distance, c.name
             FROM heap_graph_object o JOIN heap_graph_class c ON c.id = o.type_id ORDER BY o.id"
        ),
        [
            "0,100,1,\"ROOT_JAVA_FRAME\",0,\"app.Main\"",
            "1,20,1,\"[NULL]\",1,\"a\"",
            "2,0,1,\"[NULL]\",1,\"a\"",
            "3,4,1,\"[NULL]\",2,\"a[]\"",
            "4,50,0,\"[NULL]\",-1,\"a\"",
        ]
    );
    // Objects without ids of fields have those of their class, and then those of the superclass.
    assert_eq!(
        s.rows(
            "SELECT owner_id, owned_id, field_name, field_type_name
             FROM heap_graph_reference WHERE owner_id < 2"
        ),
        [
            "0,1,\"app.Main.first\",\"[NULL]\"",
            "0,2,\"app.Main.second\",\"app.Node\"",
            "1,3,\"a.b\",\"[NULL]\"",
            "1,\"[NULL]\",\"app.Base.up\",\"[NULL]\"",
        ]
    );
    assert_eq!(
        s.rows("SELECT ts, pid, heap_size FROM heap_graph JOIN process USING (upid)"),
        ["10,7,\"[NULL]\""]
    );
    assert_eq!(
        s.rows("SELECT name, value FROM stats WHERE name GLOB 'heap_graph_*' AND value > 0"),
        Vec::<String>::new()
    );
}

#[test]
fn trees_have_the_objects_below_others() {
    let mut s = session("", &graph());
    assert_eq!(
        s.rows(
            "SELECT depth, name, count, cumulative_count, size, cumulative_size
             FROM experimental_flamegraph(
               'graph', 10, NULL, (SELECT upid FROM process WHERE pid = 7), NULL, NULL)"
        ),
        [
            "0,\"app.Main [ROOT_JAVA_FRAME]\",1,4,100,124",
            "1,\"a\",2,3,20,24",
            "2,\"a[]\",1,1,4,4",
        ]
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.memory.heap_graph.class_summary_tree;
             SELECT name, self_count, self_size, cumulative_count, cumulative_size
             FROM android_heap_graph_class_summary_tree ORDER BY cumulative_size DESC"
        ),
        [
            "\"app.Main\",1,100,4,124",
            "\"a\",2,20,3,24",
            "\"a[]\",1,4,1,4"
        ]
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.memory.heap_graph.heap_graph_class_aggregation;
             SELECT type_name, obj_count, size_bytes, reachable_obj_count, dominated_obj_count,
               dominated_size_bytes
             FROM android_heap_graph_class_aggregation ORDER BY type_name"
        ),
        [
            "\"a\",3,70,2,3,24",
            "\"a[]\",1,4,1,1,4",
            "\"app.Main\",1,100,1,4,124",
        ]
    );
}

#[test]
fn names_before_obfuscation_are_those_of_mappings() {
    let mapping = r#"packet { deobfuscation_mapping { obfuscated_classes {
        obfuscated_name: "a" deobfuscated_name: "app.Node"
        obfuscated_members { obfuscated_name: "b" deobfuscated_name: "next" } } } }"#;
    let mut s = session(mapping, &graph());
    assert_eq!(
        s.rows("SELECT name, deobfuscated_name FROM heap_graph_class WHERE id > 0"),
        [
            "\"a\",\"app.Node\"",
            "\"a[]\",\"app.Node[]\"",
            "\"app.Base\",\"[NULL]\""
        ]
    );
    assert_eq!(
        s.rows(
            "SELECT DISTINCT deobfuscated_field_name FROM heap_graph_reference
             WHERE field_name = 'a.b'"
        ),
        ["\"app.Node.next\""]
    );
}

#[test]
fn native_memory_belongs_to_the_object_of_its_cleaner() {
    let registry = [number(1, 4), number(2, 4), number(3, 8), number(8, 4097)].concat();
    let mut s = session(
        "",
        &[packet(
            10,
            3,
            &[
                root(JAVA_FRAME, 1),
                object(1, 1, 10, &[]),
                object(2, 2, 10, &[(1, 1), (2, 3)]),
                object(3, 3, 10, &[(3, 4)]),
                bytes(2, &registry),
                field_name(1, "java.lang.ref.Reference.referent"),
                field_name(2, "sun.misc.Cleaner.thunk"),
                field_name(
                    3,
                    "libcore.util.NativeAllocationRegistry$CleanerThunk.this$0",
                ),
                class(1, "Bitmap", 0, &[]),
                class(2, "sun.misc.Cleaner", 0, &[]),
                class(3, "Thunk", 0, &[]),
                class(4, "Registry", 0, &[]),
            ],
        )],
    );
    assert_eq!(
        s.rows("SELECT id, native_size FROM heap_graph_object WHERE native_size > 0"),
        ["0,4096"]
    );
}

#[test]
fn damaged_graphs_are_kept_and_counted() {
    // The classes are superclasses of each other, and the first packet is lost.
    let parts = [
        number(6, 5),
        object(1, 1, 10, &[(0, 1), (0, 2), (0, 3)]),
        class(1, "one", 2, &[]),
        class(2, "two", 1, &[]),
        root(99, 1),
    ];
    let mut s = session("", &[packet(10, 3, &parts)]);
    assert_eq!(
        s.rows(
            "SELECT name, value > 0 FROM stats
             WHERE name GLOB 'heap_graph_*' AND value > 0 ORDER BY name"
        ),
        [
            "\"heap_graph_malformed_packet\",1",
            "\"heap_graph_missing_packet\",1"
        ]
    );
    assert_eq!(s.value("(SELECT count(*) FROM heap_graph_object)"), "3");
}

#[test]
fn failed_allocations_have_details_and_callstacks() {
    let text = r#"packet { timestamp: 10 trusted_packet_sequence_id: 1 art_process_metadata {
        pid: 7 uid: 10001 package_name: "org.app" oom_allocation_size: 64 oom_error_msg: "full"
        oom_thread_java_stack {
          frames { method_name: "void app.Main.inner(int)" source_file: "Main.java" line_number: 5 }
          frames { method_name: "app.Main.main" source_file: "Main.java" line_number: 2 } } } }"#;
    let mut s = session(text, &graph());
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.memory.heap_graph.oome;
             SELECT g.dump_reason, d.allocation_size_bytes, d.error_msg
             FROM heap_graph g
             JOIN android_heap_graph_java_oome_details d ON d.heap_graph_id = g.id"
        ),
        ["\"OOME\",64,\"full\""]
    );
    assert_eq!(
        s.rows(
            "SELECT c.depth, f.name FROM heap_graph_thread_callsite t
             JOIN stack_profile_callsite c ON c.id = t.callsite_id
             JOIN stack_profile_frame f ON f.id = c.frame_id"
        ),
        ["1,\"app.Main.inner\""]
    );
    assert_eq!(
        s.rows("SELECT package_name, uid FROM package_list"),
        ["\"org.app\",10001"]
    );
}
