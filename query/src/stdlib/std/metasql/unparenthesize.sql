-- `metasql_unparenthesize_exprlist!((a, b))`, which expands to `a, b`, is built in.
CREATE PERFETTO MACRO __unparenthesize_identity(x Expr) RETURNS Expr AS $x;
