//! Calls of `l2_norm` to try.

use super::L2Norm;
use crate::rowwise::cases::common;
use crate::{Case, Data, Input};
use silicide_quant::DType::F32;

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut cases = common("", L2Norm { eps: 1e-12 });
    let small = Input::of(F32, &[7, 65], Data::Gaussian { scale: 1e-3 });
    cases.push(Case::new("norms under eps", L2Norm { eps: 0.5 }, vec![small]));
    cases
}
