//! Operators on graphs, compared with simple programs.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Random, Session};

/// Returns random edges between nodes 0 to `nodes`.
fn edges(random: &mut Random, nodes: u64, count: u64) -> Vec<(i64, i64)> {
    let edge = |_| (random.below(nodes) as i64, random.below(nodes) as i64);
    (0..count).map(edge).collect()
}

/// Returns a subquery with rows.
fn values(columns: &str, rows: impl Iterator<Item = String>) -> String {
    let rows: Vec<String> = rows.map(|row| format!("({row})")).collect();
    format!(
        "(WITH v({columns}) AS (VALUES {}) SELECT * FROM v)",
        rows.join(", ")
    )
}

fn graph(edges: &[(i64, i64)]) -> String {
    let rows = edges.iter().map(|(from, to)| format!("{from}, {to}"));
    values("source_node_id, dest_node_id", rows)
}

/// Returns the nodes that are reachable from `start` without passing `blocked`.
fn reachable(edges: &[(i64, i64)], start: i64, blocked: Option<i64>) -> BTreeSet<i64> {
    let mut found = BTreeSet::new();
    let mut next = vec![start];
    while let Some(node) = next.pop() {
        if Some(node) != blocked && found.insert(node) {
            next.extend(
                edges
                    .iter()
                    .filter(|(from, _)| *from == node)
                    .map(|(_, to)| *to),
            );
        }
    }
    found
}

const SEARCH: &str = "SELECT c0, c1 FROM __intrinsic_table_ptr(__intrinsic_FN(
    (SELECT __intrinsic_graph_agg(g.source_node_id, g.dest_node_id) FROM GRAPH g),
    (SELECT __intrinsic_array_agg(t.node_id) FROM (SELECT START AS node_id) t)))
    WHERE __intrinsic_table_ptr_bind(c0, 'node_id')
    AND __intrinsic_table_ptr_bind(c1, 'parent_node_id')";

#[test]
fn searches_find_the_reachable_nodes() {
    let mut session = Session::new();
    let mut random = Random(3);
    for _ in 0..100 {
        let count = 1 + random.below(20);
        let edges = edges(&mut random, 10, count);
        let start = random.below(11) as i64;
        for function in ["dfs", "bfs"] {
            let sql = SEARCH
                .replace("FN", function)
                .replace("GRAPH", &graph(&edges))
                .replace("START", &start.to_string());
            let rows = session.rows(&sql);
            let mut seen = BTreeSet::new();
            for row in &rows {
                let (node, from) = row.split_once(',').expect("two columns");
                let node: i64 = node.parse().expect("a node");
                // Each node is reached by an edge from one before.
                match from.parse::<i64>() {
                    Ok(from) => assert!(seen.contains(&from) && edges.contains(&(from, node))),
                    Err(_) => assert_eq!(node, start),
                }
                assert!(seen.insert(node), "{sql}");
            }
            assert_eq!(seen, reachable(&edges, start, None), "{sql}");
        }
    }
    let sql = SEARCH.replace("FN", "dfs").replace(
        "GRAPH",
        "(SELECT 1 AS source_node_id, 2 AS dest_node_id WHERE 0)",
    );
    assert!(session.rows(&sql.replace("START", "1")).is_empty());
    let far = "(SELECT -5 AS source_node_id, 9223372036854775807 AS dest_node_id)";
    let sql = SEARCH.replace("FN", "bfs").replace("GRAPH", far);
    assert_eq!(session.rows(&sql.replace("START", "-5")).len(), 2);
}

#[test]
fn dominators_are_on_all_ways() {
    let mut session = Session::new();
    let mut random = Random(4);
    for _ in 0..200 {
        let count = 1 + random.below(24);
        let mut edges = edges(&mut random, 9, count);
        edges.push((0, 1));
        let sql = format!(
            "SELECT c0, ifnull(c1, -1) FROM __intrinsic_table_ptr((
               SELECT __intrinsic_dominator_tree(g.source_node_id, g.dest_node_id, 0) FROM {} g))
             WHERE __intrinsic_table_ptr_bind(c0, 'node_id')
             AND __intrinsic_table_ptr_bind(c1, 'dominator_node_id')",
            graph(&edges)
        );
        let all = reachable(&edges, 0, None);
        // A node dominates those that are not reachable without it.
        let strict: BTreeMap<i64, BTreeSet<i64>> = all
            .iter()
            .map(|node| {
                let dominates =
                    |by: &&i64| *by != node && !reachable(&edges, 0, Some(**by)).contains(node);
                (*node, all.iter().filter(dominates).copied().collect())
            })
            .collect();
        // The immediate dominator is the one that all others dominate.
        let expected: BTreeSet<String> = strict
            .iter()
            .map(|(node, dominators)| {
                let nearest = dominators.iter().max_by_key(|by| strict[by].len());
                format!("{node},{}", nearest.copied().unwrap_or(-1))
            })
            .collect();
        let rows: BTreeSet<String> = session.rows(&sql).into_iter().collect();
        assert_eq!(rows, expected, "{edges:?}");
    }
    for root in ["7", "2"] {
        let error = session.error(&format!("SELECT __intrinsic_dominator_tree(1, 2, {root})"));
        assert!(error.contains("oot"), "{error}");
    }
}

#[test]
fn scans_pass_rows_along_edges() {
    let mut session = Session::new();
    let mut random = Random(5);
    for _ in 0..50 {
        // Edges to higher nodes only, so that there is no cycle.
        let count = 1 + random.below(12);
        let edges: Vec<(i64, i64)> = edges(&mut random, 7, count)
            .into_iter()
            .filter(|(from, to)| from < to)
            .collect();
        if edges.is_empty() {
            continue;
        }
        let scan = |function: &str, query: &str| {
            format!(
                "SELECT result.c0 AS id, result.c1 AS n
                 FROM __intrinsic_table_ptr(__intrinsic_{function}(
                   (SELECT __intrinsic_graph_agg(g.source_node_id, g.dest_node_id) FROM {} g),
                   (SELECT __intrinsic_row_dataframe_agg('id', i.id, 'n', i.n)
                    FROM (SELECT 0 AS id, 1 AS n UNION ALL SELECT 1, 10) i),
                   __intrinsic_stringify_ignore_table!({query}), '(n)')) result
                 WHERE __intrinsic_table_ptr_bind(result.c0, 'id')
                 AND __intrinsic_table_ptr_bind(result.c1, 'n')
                 ORDER BY 1, 2",
                graph(&edges)
            )
        };
        // Each way is one row.
        let mut ways: Vec<(i64, i64)> = Vec::new();
        let mut next = vec![(0, 1), (1, 10)];
        while let Some((node, n)) = next.pop() {
            ways.push((node, n));
            let targets = edges.iter().filter(|(from, _)| *from == node);
            next.extend(targets.map(|(_, to)| (*to, n + 1)));
        }
        ways.sort_unstable();
        let expected: Vec<String> = ways.iter().map(|(id, n)| format!("{id},{n}")).collect();
        let sql = scan("graph_scan", "(SELECT t.id, t.n + 1 AS n FROM $table t)");
        assert_eq!(session.rows(&sql), expected, "{edges:?}");
        // Each node is the sum of those before, besides the start's own row.
        let mut rows: Vec<(i64, i64)> = vec![(0, 1), (1, 10)];
        for node in 0..7 {
            let sources = edges.iter().filter(|(_, to)| *to == node);
            let arriving: Vec<i64> = sources
                .flat_map(|(from, _)| rows.iter().filter(move |(id, _)| id == from))
                .map(|(_, n)| *n)
                .collect();
            if !arriving.is_empty() {
                rows.push((node, arriving.iter().sum()));
            }
        }
        rows.sort_unstable();
        let expected: Vec<String> = rows.iter().map(|(id, n)| format!("{id},{n}")).collect();
        let sql = scan(
            "graph_aggregating_scan",
            "(SELECT t.id, sum(t.n) AS n FROM $table t GROUP BY t.id)",
        );
        assert_eq!(session.rows(&sql), expected, "{edges:?}");
    }
}

#[test]
fn aggregating_scans_refuse_cycles() {
    let mut session = Session::new();
    let error = session.error(&format!(
        "SELECT __intrinsic_graph_aggregating_scan(
           (SELECT __intrinsic_graph_agg(g.source_node_id, g.dest_node_id) FROM {} g),
           (SELECT __intrinsic_row_dataframe_agg('id', 0, 'n', 1)), '(SELECT * FROM $table)', '(n)')",
        graph(&[(0, 1), (1, 2), (2, 1)])
    ));
    assert!(error.contains("has a cycle"), "{error}");
}

/// Returns the rows of a search that adds weights in the order of its nodes, by recursion.
fn weighted(
    edges: &[(i64, i64, i64)],
    (root, bound, is_floor): (i64, i64, bool),
) -> Vec<(i64, i64, Option<i64>)> {
    struct Search<'a> {
        edges: &'a [(i64, i64, i64)],
        sum: i64,
        known: BTreeSet<i64>,
        rows: Vec<(i64, i64, Option<i64>)>,
    }
    fn enter(
        search: &mut Search<'_>,
        goal: (i64, i64, bool),
        (node, weight, from): (i64, i64, Option<i64>),
    ) -> bool {
        let (root, bound, is_floor) = goal;
        if !search.known.insert(node) {
            return true;
        }
        search.sum += weight;
        if search.sum <= bound || is_floor {
            search.rows.push((root, node, from));
        }
        search.sum <= bound
            && search
                .edges
                .iter()
                .filter(|edge| edge.0 == node)
                .all(|edge| enter(search, goal, (edge.1, edge.2, Some(node))))
    }
    let (sum, known, rows) = (0, BTreeSet::new(), Vec::new());
    let mut search = Search {
        edges,
        sum,
        known,
        rows,
    };
    enter(&mut search, (root, bound, is_floor), (root, 0, None));
    search.rows
}

#[test]
fn searches_with_weights_are_those_of_a_recursion() {
    let mut session = Session::new();
    let mut random = Random(6);
    for _ in 0..60 {
        let count = 1 + random.below(20);
        let edges: Vec<(i64, i64, i64)> = edges(&mut random, 8, count)
            .into_iter()
            .map(|(from, to)| (from, to, random.below(4) as i64))
            .collect();
        let goal = (
            random.below(8) as i64,
            random.below(10) as i64,
            random.below(2) == 1,
        );
        let (root, bound, is_floor) = goal;
        session.rows("INCLUDE PERFETTO MODULE graphs.search");
        let rows = edges.iter().map(|(s, d, w)| format!("{s}, {d}, {w}"));
        let sql = format!(
            "SELECT root_node_id, node_id, parent_node_id FROM graph_reachable_weight_bounded_dfs!(
               {}, (SELECT {root} AS root_node_id, {bound} AS root_target_weight), {})",
            values("source_node_id, dest_node_id, edge_weight", rows),
            i64::from(is_floor)
        );
        let expected: Vec<String> = weighted(&edges, goal)
            .into_iter()
            .map(|(root, node, from)| {
                let from = from.map_or("\"[NULL]\"".to_owned(), |from| from.to_string());
                format!("{root},{node},{from}")
            })
            .collect();
        assert_eq!(session.rows(&sql), expected, "{edges:?} {goal:?}");
    }
}

#[test]
fn searches_end_at_a_weight() {
    let mut session = Session::new();
    let sql = |floor: &str| {
        let of =
            |column: &str, table: &str| format!("(SELECT repeatedfield({column}) FROM {table})");
        let edges = values(
            "s, d, w",
            ["1, 2, 3", "1, 3, 4", "2, 4, 5", "4, 1, 1"]
                .into_iter()
                .map(str::to_owned),
        );
        let roots = values(
            "r, t",
            ["1, 8", "2, 0", "9, 1"].into_iter().map(str::to_owned),
        );
        format!(
            "SELECT root_node_id, node_id, parent_node_id FROM __intrinsic_dfs_weight_bounded(
               {}, {}, {}, {}, {}, {floor})",
            of("s", &edges),
            of("d", &edges),
            of("w", &edges),
            of("r", &roots),
            of("t", &roots)
        )
    };
    let null = "\"[NULL]\"";
    let expected =
        |rows: &[&str]| -> Vec<String> { rows.iter().map(|row| row.replace('N', null)).collect() };
    assert_eq!(
        session.rows(&sql("0")),
        expected(&["1,1,N", "1,2,1", "1,4,2", "2,2,N", "9,9,N"])
    );
    assert_eq!(
        session.rows(&sql("1")),
        expected(&[
            "1,1,N", "1,2,1", "1,4,2", "1,3,1", "2,2,N", "2,4,2", "9,9,N"
        ])
    );
}

#[test]
fn parts_of_random_trees_have_the_nearest_node_of_their_group() {
    let mut session = Session::new();
    let mut random = Random(7);
    for _ in 0..60 {
        let count = 1 + random.below(20) as i64;
        // A node's parent is one before it; ids are not the places of rows.
        let nodes: Vec<(i64, Option<i64>, i64)> = (0..count)
            .map(|node| {
                let parent = (node > 0).then(|| random.below(node as u64) as i64);
                (
                    100 - 3 * node,
                    parent.map(|p| 100 - 3 * p),
                    random.below(3) as i64,
                )
            })
            .collect();
        let of = |id: i64| nodes.iter().find(|node| node.0 == id).expect("a node");
        let expected: BTreeSet<String> = nodes
            .iter()
            .map(|(id, parent, group)| {
                let mut above = *parent;
                while above.is_some_and(|id| of(id).2 != *group) {
                    above = above.and_then(|id| of(id).1);
                }
                format!("{id},{},{group}", above.unwrap_or(-1))
            })
            .collect();
        let rows = nodes.iter().map(|(id, parent, group)| {
            let parent = parent.map_or("NULL".to_owned(), |parent| parent.to_string());
            format!("{id}, {parent}, {group}")
        });
        let sql = format!(
            "SELECT id, ifnull(parent_id, -1), group_key
             FROM tree_structural_partition_by_group!({})",
            values("id, parent_id, group_key", rows)
        );
        session.rows("INCLUDE PERFETTO MODULE graphs.partition");
        let rows: BTreeSet<String> = session.rows(&sql).into_iter().collect();
        assert_eq!(rows, expected);
    }
}

const TREE: &str = "(WITH t(id, parent_id, name) AS (VALUES
    (7, 5, 'c'), (5, NULL, 'a'), (6, 5, 'b'), (9, 7, 'd')) SELECT * FROM t)";

#[test]
fn trees_have_parents_first() {
    let mut session = Session::new();
    let table = |tree: &str| {
        format!(
            "SELECT c0, c1, c2, c3, c4 FROM __intrinsic_table_ptr(__intrinsic_tree_to_table((
               SELECT __intrinsic_tree_from_table('id', t.id, 'parent_id', t.parent_id, 'name', t.name)
               FROM {tree} t)))
             WHERE __intrinsic_table_ptr_bind(c0, '_tree_id')
             AND __intrinsic_table_ptr_bind(c1, '_tree_parent_id')
             AND __intrinsic_table_ptr_bind(c2, 'id') AND __intrinsic_table_ptr_bind(c3, 'parent_id')
             AND __intrinsic_table_ptr_bind(c4, 'name')"
        )
    };
    assert_eq!(
        session.rows(&table(TREE)),
        [
            "0,\"[NULL]\",5,\"[NULL]\",\"a\"",
            "1,0,7,5,\"c\"",
            "2,0,6,5,\"b\"",
            "3,1,9,7,\"d\""
        ]
    );
    for (rows, reason) in [
        ("(1, 2), (2, 1)", "above itself"),
        ("(1, NULL), (1, NULL)", "two rows with the id 1"),
        ("(1, 5)", "no row with the id 5"),
        ("('a', NULL)", "must be an integer"),
    ] {
        let tree =
            format!("(WITH t(id, parent_id) AS (VALUES {rows}) SELECT *, 'x' AS name FROM t)");
        let error = session.error(&table(&tree));
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn parts_of_trees_have_the_nearest_node_of_their_group() {
    let mut session = Session::new();
    let sql = |rows: &str| {
        format!(
            "SELECT c0, c1, c2 FROM __intrinsic_table_ptr((
               SELECT __intrinsic_structural_tree_partition(g.id, g.parent_id, g.group_key)
               FROM (WITH t(id, parent_id, group_key) AS (VALUES {rows}) SELECT * FROM t) g))
             WHERE __intrinsic_table_ptr_bind(c0, 'node_id')
             AND __intrinsic_table_ptr_bind(c1, 'parent_node_id')
             AND __intrinsic_table_ptr_bind(c2, 'group_key') ORDER BY 1"
        )
    };
    assert_eq!(
        session.rows(&sql(
            "(1, NULL, 1), (2, 1, 2), (3, 2, 1), (4, 2, 2), (5, 3, 2), (6, 1, 2)"
        )),
        [
            "1,\"[NULL]\",1",
            "2,\"[NULL]\",2",
            "3,1,1",
            "4,2,2",
            "5,2,2",
            "6,\"[NULL]\",2"
        ]
    );
    session.error(&sql("(1, NULL, 1), (2, NULL, 1)"));
    session.error(&sql("(1, 2, 1), (2, 1, 1)"));
}

/// Returns the query of the critical paths of roots over a subquery of wakeups.
fn critical_path(wakeups: &str, roots: &str) -> String {
    format!(
        "SELECT c0, c1, c2, c3, c4, c5, c6 FROM __intrinsic_table_ptr(__intrinsic_critical_path_walk(
           (SELECT __intrinsic_wakeup_graph_agg(id, utid, ts, dur, idle, waker, prev) FROM {wakeups}),
           (SELECT __intrinsic_array_agg(r) FROM (WITH r(r) AS (VALUES {roots}) SELECT * FROM r))))
         WHERE __intrinsic_table_ptr_bind(c0, 'root_id') AND __intrinsic_table_ptr_bind(c1, 'depth')
         AND __intrinsic_table_ptr_bind(c2, 'ts') AND __intrinsic_table_ptr_bind(c3, 'dur')
         AND __intrinsic_table_ptr_bind(c4, 'blocker_id')
         AND __intrinsic_table_ptr_bind(c5, 'blocker_utid')
         AND __intrinsic_table_ptr_bind(c6, 'parent_id') ORDER BY 1, 3"
    )
}

const WAKEUP: &str = "id, utid, ts, dur, idle, waker, prev";

#[test]
fn the_critical_path_follows_wakers() {
    let mut session = Session::new();
    let walk = |wakeups: &str, roots: &str| {
        let wakeups = format!("(WITH w({WAKEUP}) AS (VALUES {wakeups}) SELECT * FROM w)");
        critical_path(&wakeups, roots)
    };
    // Thread 1 waits from 10 to 50 for thread 2, which itself waits until 30 for an interrupt.
    let wakeups =
        "(1, 1, 50, 10, 40, 2, NULL), (2, 2, 30, 25, 25, NULL, 3), (3, 2, 0, 5, NULL, NULL, NULL)";
    assert_eq!(
        session.rows(&walk(wakeups, "(1)")),
        ["1,1,10,20,2,2,1", "1,1,30,20,2,2,1", "1,0,50,10,1,1,1"]
    );
    // Damaged graphs end.
    let cycle = "(1, 1, 50, 10, NULL, 2, 2), (2, 2, 90, 10, NULL, 1, 1), (3, 3, 50, 1, 5, 3, 3)";
    session.rows(&walk(cycle, "(1), (2), (3), (77)"));
    session.error(&walk("(1, 'a', 0, 0, 0, 0, 0)", "(1)"));
}

/// A wakeup: the id is its place.
#[derive(Debug, Clone, Copy)]
struct Wakeup {
    utid: i64,
    ts: i64,
    dur: i64,
    idle: Option<i64>,
    waker: Option<i64>,
    previous: Option<i64>,
}

/// Returns the depth, the blocker and the one above it at a time, by recursion.
fn blocker(all: &[Wakeup], id: i64, at: i64, depth: i64, parent: i64) -> Option<(i64, i64, i64)> {
    let wakeup = all[id as usize];
    let idle_start = wakeup.idle.map(|idle| wakeup.ts - idle);
    if idle_start.is_some_and(|start| at < start) {
        return blocker(all, wakeup.previous?, at, depth, parent);
    }
    if at >= wakeup.ts + wakeup.dur {
        return None;
    }
    match (at < wakeup.ts, wakeup.waker) {
        (true, Some(waker)) => blocker(all, waker, at, depth + 1, id),
        (true, None) if wakeup.previous.is_none() => None,
        _ => Some((depth, id, parent)),
    }
}

#[test]
fn the_critical_path_is_that_of_each_time() {
    let mut session = Session::new();
    let mut random = Random(9);
    for _ in 0..60 {
        // Three threads, whose wakeups have wakers of other threads, in the order of time.
        let mut all: Vec<Wakeup> = Vec::new();
        for ts in (10..100).step_by(7) {
            let utid = random.below(3) as i64;
            let of_thread = |other: &&Wakeup| other.utid == utid;
            let previous = all.iter().rposition(|other| of_thread(&other));
            let end = previous.map(|previous| all[previous].ts + all[previous].dur);
            let idle = end.map(|end| (ts - end).max(0));
            let idle = idle.filter(|_| random.below(5) > 0);
            let others: Vec<i64> = (0..all.len() as i64)
                .filter(|id| all[*id as usize].utid != utid)
                .collect();
            let waker = match random.below(4) {
                0 => None,
                _ => {
                    (!others.is_empty()).then(|| others[random.below(others.len() as u64) as usize])
                }
            };
            all.push(Wakeup {
                utid,
                ts,
                dur: 1 + random.below(9) as i64,
                idle,
                waker,
                previous: previous.map(|id| id as i64),
            });
        }
        let null = |value: Option<i64>| value.map_or("NULL".to_owned(), |value| value.to_string());
        let rows = all.iter().enumerate().map(|(id, w)| {
            let (idle, waker, previous) = (null(w.idle), null(w.waker), null(w.previous));
            format!(
                "{id}, {}, {}, {}, {idle}, {waker}, {previous}",
                w.utid, w.ts, w.dur
            )
        });
        let roots: Vec<String> = (0..all.len()).map(|id| format!("({id})")).collect();
        let sql = critical_path(&values(WAKEUP, rows), &roots.join(", "));
        let mut found = BTreeSet::new();
        for row in session.rows(&sql) {
            let row: Vec<i64> = row
                .split(',')
                .map(|n| n.parse().expect("a number"))
                .collect();
            for at in row[2]..row[2] + row[3] {
                assert!(found.insert((row[0], at, (row[1], row[4], row[6]))));
            }
        }
        let mut expected = BTreeSet::new();
        for (id, wakeup) in all.iter().enumerate() {
            let id = id as i64;
            for at in wakeup.ts - wakeup.idle.unwrap_or(0)..wakeup.ts + wakeup.dur {
                let blocker = blocker(&all, id, at, 0, id);
                expected.extend(blocker.map(|blocker| (id, at, blocker)));
            }
        }
        assert_eq!(found, expected, "{all:?}");
    }
}

#[test]
fn pointers_have_the_columns_of_their_object() {
    let mut session = Session::new();
    let sql = |condition: &str| {
        format!(
            "SELECT c0 FROM __intrinsic_table_ptr((
               SELECT __intrinsic_row_dataframe_agg('id', 5, 'x', 'a'))) WHERE {condition}"
        )
    };
    assert_eq!(
        session.rows(&sql("__intrinsic_table_ptr_bind(c0, 'x')")),
        ["\"a\""]
    );
    assert!(
        session
            .error(&sql("__intrinsic_table_ptr_bind(c0, 'y')"))
            .contains("no column 'y'")
    );
    for sql in [
        "SELECT * FROM __intrinsic_table_ptr(77)",
        "SELECT * FROM __intrinsic_table_ptr('a')",
        "SELECT * FROM __intrinsic_table_ptr",
        "SELECT __intrinsic_table_ptr_bind(c0)",
        "SELECT __intrinsic_table_ptr_bind",
        "SELECT __intrinsic_graph_scan(NULL, NULL, NULL, NULL)",
        "SELECT __intrinsic_row_dataframe_agg('a')",
        "SELECT __intrinsic_row_dataframe_agg(1, 2)",
    ] {
        session.error(sql);
    }
}

#[test]
fn tables_of_other_systems_are_empty() {
    let mut session = Session::new();
    for table in [
        "heap_graph",
        "__intrinsic_heap_graph",
        "package_list",
        "protolog",
    ] {
        assert_eq!(
            session.rows(&format!("SELECT count(*) FROM {table}")),
            ["0"]
        );
    }
    assert!(
        session
            .rows("SELECT id, upid, self_size FROM heap_graph_object")
            .is_empty()
    );
}

#[test]
fn modules_have_the_macros_of_graphs_and_trees() {
    let mut session = Session::new();
    session.rows(
        "INCLUDE PERFETTO MODULE graphs.*;
         INCLUDE PERFETTO MODULE std.trees.table_conversion;
         CREATE PERFETTO TABLE edge AS
         WITH e(source_node_id, dest_node_id, edge_weight) AS (VALUES (1, 2, 5), (2, 3, 5), (1, 3, 9))
         SELECT * FROM e;
         CREATE PERFETTO TABLE tree AS
         WITH t(id, parent_id, name, group_key) AS (VALUES (1, NULL, 'a', 0), (2, 1, 'b', 1), (3, 2, 'c', 0))
         SELECT * FROM t;
         CREATE PERFETTO FUNCTION reached(node LONG) RETURNS TABLE(node_id LONG) AS
         SELECT node_id FROM graph_reachable_bfs!(edge, (SELECT $node AS node_id))",
    );
    for (sql, rows) in [
        (
            "SELECT node_id, parent_node_id FROM graph_reachable_dfs!(edge, (SELECT 2 AS node_id))",
            "2,\"[NULL]\"|3,2",
        ),
        ("SELECT node_id FROM reached(1)", "1|2|3"),
        (
            "SELECT node_id, ifnull(dominator_node_id, 0) FROM graph_dominator_tree!(edge, 1)",
            "1,0|2,1|3,1",
        ),
        (
            "SELECT node_id FROM graph_reachable_weight_bounded_dfs!(
               edge, (SELECT 1 AS root_node_id, 6 AS root_target_weight), 0)",
            "1|2",
        ),
        (
            "SELECT id, ifnull(parent_id, 0), group_key
             FROM tree_structural_partition_by_group!(tree) ORDER BY id",
            "1,0,0|2,0,1|3,1,0",
        ),
        (
            "SELECT id FROM _tree_reachable_ancestors_or_self!(tree, (SELECT 2 AS id))",
            "2|1",
        ),
        (
            "SELECT id, way FROM _graph_scan!(edge, (SELECT 1 AS id, 'x' AS way), (way),
               (SELECT t.id, t.way || '-' || t.id AS way FROM $table t))",
            "1,\"x\"|2,\"x-2\"|3,\"x-3\"|3,\"x-2-3\"",
        ),
        (
            "SELECT id, n FROM _graph_aggregating_scan!(edge, (SELECT 1 AS id, 1 AS n), (n),
               (SELECT t.id, sum(t.n) AS n FROM $table t GROUP BY t.id))",
            "1,1|2,1|3,2",
        ),
        (
            "SELECT _tree_id, id, name FROM _tree_to_table!(_tree_from_table!(tree, (name)), (name))",
            "0,1,\"a\"|1,2,\"b\"|2,3,\"c\"",
        ),
        (
            "SELECT node_id, ifnull(next_node_id, 0) FROM graph_next_sibling!((
               SELECT id AS node_id, 1 AS node_parent_id, -id AS sort_key FROM tree))",
            "3,2|2,1|1,0",
        ),
    ] {
        assert_eq!(session.rows(sql).join("|"), rows, "{sql}");
    }
}
