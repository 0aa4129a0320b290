//! `Rows`, the queries of a workgroup, in WGSL: f32 for one query, a vector for two to four, with the functions that name its elements.

use silicide_hal::Snippet;

/// The most queries of a workgroup.
pub(super) const MOST_ROWS: usize = 4;

/// The text for some number of queries: the types of numbers, counts and flags, and number and selector of each element.
macro_rules! rows {
    ($rows:literal, $counts:literal, $flags:literal, $count:literal, $($i:literal $of:literal)+) => {
        concat!(
            "alias Rows = ", $rows, ";\nalias Counts = ", $counts, ";\nalias Flags = ", $flags, ";\n",
            "const ROWS: u32 = ", $count, "u;\n",
            "fn queries_of(work: Work, d: u32) -> Rows { return Rows(", $("query(work, ", $i, "u, d), ",)+ "); }\n",
            "fn sinks_of(work: Work) -> Rows { return Rows(",
            $("load_sinks(query_row(work, ", $i, "u) % p.heads), ",)+ "); }\n",
            "fn bounds_of(work: Work) -> Bounds {\n",
            $("    let row", $i, " = visible_to(work, ", $i, "u);\n",)+
            "    return Bounds(Counts(", $("row", $i, ".x, ",)+ "), Counts(", $("row", $i, ".y, ",)+ "));\n}\n",
            "fn least_count(v: Counts) -> u32 { var least = MOST_POSITIONS;",
            $(" least = min(least, v", $of, ");",)+ " return least; }\n",
            "fn largest_count(v: Counts) -> u32 { var largest = 0u;",
            $(" largest = max(largest, v", $of, ");",)+ " return largest; }\n",
            "fn is_any(v: Flags) -> bool { return false", $(" || v", $of,)+ "; }\n",
            "fn capped_rows(v: Rows) -> Rows { return Rows(", $("capped(v", $of, "), ",)+ "); }\n",
            "fn store_seen_rows(work: Work, largest: Rows, sum: Rows) {",
            $(" store_seen(work, ", $i, "u, largest", $of, ", sum", $of, ");",)+ " }\n",
            "fn store_rows(work: Work, d: u32, v: Rows) {",
            $(" store_row(work, ", $i, "u, d, v", $of, ");",)+ " }\n",
        )
    };
}

/// The text for one to [`MOST_ROWS`] queries.
pub(super) static ROWS: [Snippet; MOST_ROWS] = [
    Snippet { name: "attention 1 row", text: rows!("f32", "u32", "bool", "1", "0" "") },
    Snippet {
        name: "attention 2 rows",
        text: rows!("vec2<f32>", "vec2<u32>", "vec2<bool>", "2", "0" ".x" "1" ".y"),
    },
    Snippet {
        name: "attention 3 rows",
        text: rows!("vec3<f32>", "vec3<u32>", "vec3<bool>", "3", "0" ".x" "1" ".y" "2" ".z"),
    },
    Snippet {
        name: "attention 4 rows",
        text: rows!("vec4<f32>", "vec4<u32>", "vec4<bool>", "4", "0" ".x" "1" ".y" "2" ".z" "3" ".w"),
    },
];

/// Returns how many queries a workgroup has, of `rows` that share a head of keys: as few workgroups as can be, and no more queries in each than
/// that takes.
pub(super) fn rows_of_workgroup(rows: usize) -> usize {
    let workgroups = rows.div_ceil(MOST_ROWS).max(1);
    rows.div_ceil(workgroups).clamp(1, MOST_ROWS)
}

#[cfg(test)]
mod tests {
    use super::rows_of_workgroup;

    #[test]
    fn workgroups_have_only_rows_that_are_there() {
        for (rows, each) in
            [(0, 1), (1, 1), (2, 2), (3, 3), (4, 4), (5, 3), (6, 3), (7, 4), (8, 4), (9, 3), (34, 4)]
        {
            assert_eq!(rows_of_workgroup(rows), each, "{rows}");
        }
    }
}
