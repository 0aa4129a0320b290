//! Cases of `group_by_expert`: one pair and many, experts that get all pairs and experts that get none, ids that no expert has.

use super::GroupByExpert;
use crate::case::{Case, Data, Input};
use silicide_quant::DType;

/// Calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (extents, experts) in [(&[1][..], 1), (&[5, 2], 4), (&[40, 8], 64), (&[300, 2], 3), (&[2, 3, 4], 100)]
    {
        let ids = Input::of(DType::U32, extents, Data::Indices { below: experts as usize });
        cases.push(Case::new(format!("{extents:?} of {experts}"), GroupByExpert { experts }, vec![ids]));
    }
    let mut add = |label: &str, extents: &[usize], experts: u32, ids: Vec<f64>| {
        let ids = Input::of(DType::I32, extents, Data::Values(ids));
        cases.push(Case::new(
            format!("{label}, {extents:?} of {experts}"),
            GroupByExpert { experts },
            vec![ids],
        ));
    };
    add("all to one", &[300, 1], 3, vec![1.0]);
    add("no such expert", &[300], 3, vec![9.0, -1.0]);
    add(
        "some without an expert",
        &[70, 2],
        4,
        vec![0.0, -1.0, 3.0, 2.0, 4.0, -2_147_483_648.0, 2_147_483_647.0],
    );
    cases
}
