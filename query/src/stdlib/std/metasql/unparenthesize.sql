-- `metasql_unparenthesize_exprlist!((a, b))` is `a, b`; it is built in.
CREATE PERFETTO MACRO __unparenthesize_identity(x Expr) RETURNS Expr AS $x;
