-- Nodes of a tree with their next sibling.
CREATE PERFETTO MACRO graph_next_sibling(graph_table TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT node_id, lead(node_id) OVER (PARTITION BY node_parent_id ORDER BY sort_key)
    AS next_node_id
  FROM $graph_table
);
