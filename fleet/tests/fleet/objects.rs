//! The table of the objects of modules.

use crate::common::Session;

#[test]
fn the_objects_of_modules_are_a_table() {
    let mut s = Session::new();
    s.engine
        .add_module(
            "mine.sub",
            "-- Not of the table.\n\n-- All numbers\n-- of mine.\n\
             CREATE PERFETTO TABLE numbers(a LONG, b JOINID(slice.id)) AS SELECT 1 AS a, 2 AS b;\n\
             CREATE PERFETTO FUNCTION _half(x DOUBLE) RETURNS DOUBLE AS SELECT $x / 2;\n\
             CREATE PERFETTO FUNCTION rows_of(x LONG) RETURNS TABLE(y LONG) AS SELECT $x AS y;\n\
             CREATE PERFETTO MACRO twice(x Expr) RETURNS _SomeFragment AS $x + $x;\n\
             CREATE PERFETTO VIEW broken AS SELECT (;",
            false,
        )
        .expect("a module");
    assert_eq!(
        s.rows(
            "SELECT package, name, object_type, exposed, description, return_type, args, cols
             FROM __intrinsic_stdlib_objects WHERE module = 'mine.sub' ORDER BY id"
        ),
        [
            "\"mine\",\"mine.sub\",\"MODULE\",1,\"\",\"\",\"[]\",\"[]\"",
            "\"mine\",\"numbers\",\"TABLE\",1,\"All numbers of mine.\",\"\",\"[]\",\
             \"[{\"description\":\"\",\"name\":\"a\",\"type\":\"LONG\"},\
             {\"description\":\"\",\"name\":\"b\",\"type\":\"JOINID\"}]\"",
            "\"mine\",\"_half\",\"FUNCTION\",0,\"\",\"DOUBLE\",\
             \"[{\"description\":\"\",\"name\":\"x\",\"type\":\"DOUBLE\"}]\",\"[]\"",
            "\"mine\",\"rows_of\",\"TABLE_FUNCTION\",1,\"\",\"TABLE\",\
             \"[{\"description\":\"\",\"name\":\"x\",\"type\":\"LONG\"}]\",\
             \"[{\"description\":\"\",\"name\":\"y\",\"type\":\"LONG\"}]\"",
            "\"mine\",\"twice\",\"MACRO\",1,\"\",\"_SomeFragment\",\
             \"[{\"description\":\"\",\"name\":\"x\",\"type\":\"Expr\"}]\",\"[]\"",
            "\"mine\",\"broken\",\"VIEW\",1,\"\",\"\",\"[]\",\"[]\"",
        ]
    );
    assert_eq!(
        s.rows(
            "SELECT summary GLOB '*Kind: internal FUNCTION*- x (DOUBLE)*Returns: DOUBLE',
               summary GLOB '*Search aliases: mine mine sub  half*'
             FROM __intrinsic_stdlib_objects WHERE qualified_name = 'mine.sub._half'"
        ),
        ["1,1"]
    );
}
