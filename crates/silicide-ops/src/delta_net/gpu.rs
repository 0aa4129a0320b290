//! `delta_net` on GPUs: a team of 32 invocations keeps a row of a head's state in registers while the tokens go by.

use super::{DeltaExtents, DeltaNet, KeyHeads};
use crate::wgsl;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Program, Snippet, WgslKernel};
use silicide_quant::DType;

static BODY: Snippet = Snippet { name: "delta_net", text: include_str!("delta_net.wgsl") };

/// Invocations of a row, as in the WGSL.
const TEAM: usize = 32;

/// Teams of a row each.
pub(super) struct GpuDeltaNet;

impl Kernel for GpuDeltaNet {
    type Op = DeltaNet;

    fn name(&self) -> &'static str {
        "delta_net.rows.wgsl"
    }

    fn fits(&self, _op: &DeltaNet, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if (wgsl::workgroup(on) as usize) < TEAM {
            return Err(Decline("needs workgroups of 32"));
        }
        wgsl::fits_whole(io, on)
    }

    fn plan(&self, op: &DeltaNet, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let (Some(extents), Some(load), Some(store)) =
            (DeltaExtents::of(io), wgsl::load(DType::F32), wgsl::store(DType::F32, &on.features))
        else {
            return plan;
        };
        let inputs = ["q", "k", "v", "decay", "beta", "state"];
        let mut parts = vec![Part::plain(&BODY), Part::plain(&wgsl::REDUCE), Part::plain(&wgsl::LINEAR)];
        parts.extend(inputs.into_iter().zip(0..).map(|(name, binding)| Part::bound(load, name, binding)));
        parts.extend([Part::bound(store, "y", 6), Part::bound(store, "new_state", 7)]);
        let workgroup = wgsl::workgroup(on).min(256);
        let DeltaExtents { sequences, heads, key_dim, value_dim, .. } = extents;
        let kernel = WgslKernel::new(self.name(), &parts, 8, 8)
            .constant("WG", workgroup)
            .constant("PARTS", key_dim.div_ceil(TEAM) as u32)
            .writes(0b1100_0000);
        let [_, tokens, key_heads, of_values, keys, values] = extents.words();
        let tiled = u32::from(op.key_heads == KeyHeads::Tiled);
        let rows = sequences * heads * value_dim;
        let params = [rows as u32, tokens, key_heads, of_values, keys, values, tiled, op.scale.to_bits()];
        let args = [0, 1, 2, 3, 4, 5, 6, 7].map(Arg::slot);
        let grid = wgsl::grid(rows.div_ceil(workgroup as usize / TEAM), on);
        plan.push(Program::Wgsl(kernel), &args, &params, grid);
        plan
    }
}
