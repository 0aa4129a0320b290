//! Calls of `cumsum` to try.

use super::Cumsum;
use crate::rowwise::cases::common;
use crate::{Case, Data, Input};
use silicide_quant::DType::F32;

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut cases = common("", Cumsum);
    let whole = Input::of(F32, &[3, 2049], Data::Indices { below: 9 });
    cases.push(Case::new("whole numbers", Cumsum, vec![whole]));
    cases
}
