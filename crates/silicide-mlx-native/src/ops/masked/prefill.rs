//! Attention of many queries, with masks of bf16, f16 or bytes and with sinks. Maps of blocks are accepted and not needed: keys that a mask hides
//! are not multiplied.

use super::{Layout, Mask, Masked};
use crate::encoder::CommandEncoder;
use crate::error::{Result, refuse};
use crate::ops::support::{count, typed};
use crate::{DType, MlxBuffer};
use flash_attn_prefill::{FlashAttnPrefillLayout, FlashAttnPrefillParams};

/// The parameters in which the forms differ.
struct Form<'a> {
    what: &'static str,
    dtype: DType,
    dim: u32,
    mask: Option<&'a MlxBuffer>,
    sinks: Option<&'a MlxBuffer>,
    layout: Layout,
    /// Keys before the queries, and rows of a head in the cache; `None` where queries are the last keys of `seq_len_k` rows.
    resumed: Option<[u32; 2]>,
}

impl Form<'_> {
    fn encode(
        &self,
        encoder: &mut CommandEncoder,
        qkv: [&MlxBuffer; 3],
        out: &MlxBuffer,
        p: &FlashAttnPrefillParams,
    ) -> Result<()> {
        let what = self.what;
        if p.head_dim != self.dim {
            refuse!("{what}: head_dim must be {}, got {}", self.dim, p.head_dim);
        }
        for (name, buffer) in [("q", qkv[0]), ("k", qkv[1]), ("v", qkv[2]), ("out", out)] {
            typed(what, name, buffer, self.dtype)?;
        }
        let masked = Masked {
            batch: p.batch,
            heads: p.n_heads,
            kv_heads: p.n_kv_heads,
            dim: p.head_dim,
            queries: p.seq_len_q,
            keys: p.seq_len_k,
            capacity: self.resumed.map_or(p.seq_len_k, |[_, capacity]| capacity),
            scale: p.scale,
            queries_by: self.layout,
            keys_by: self.layout,
            result_by: self.layout,
        };
        masked.check(what)?;
        if let Some(sinks) = self.sinks {
            typed(what, "sinks", sinks, DType::F32)?;
        }
        let before = match self.resumed {
            Some([before, _]) => Some(before),
            None => p.seq_len_k.checked_sub(p.seq_len_q),
        };
        let causal = match (p.do_causal, before) {
            (false, _) => None,
            (true, Some(before)) if u64::from(before) + u64::from(p.seq_len_q) <= u64::from(p.seq_len_k) => {
                Some(before)
            }
            _ => refuse!("{what}: {} queries and {} keys do not fit", p.seq_len_q, p.seq_len_k),
        };
        let mask = match self.mask {
            None => masked.hidden_after(what, causal)?,
            Some(buffer) => {
                if ![self.dtype, DType::U8].contains(&buffer.dtype()) {
                    refuse!("{what}: mask buffer must be {}, got {}", self.dtype, buffer.dtype());
                }
                let (rows, keys) = (p.seq_len_q as usize, p.seq_len_k as usize);
                // A mask of two axes is for all heads of all sequences.
                let heads = if buffer.shape().len() == 2 {
                    None
                } else {
                    Some((p.batch as usize, p.n_heads as usize))
                };
                count(what, &[p.batch as usize, p.n_heads as usize, rows, keys])?;
                Mask::Rows { buffer, heads, rows, stride: keys, causal }
            }
        };
        masked.encode(encoder, what, qkv, out, &mask, self.sinks)
    }
}

/// Declares forms. All take encoder, device, registry and queries, keys and values first, and the output and the parameters last.
macro_rules! forms {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),* $(,)?) = $dtype:ident, $dim:literal, $mask:expr, $sinks:expr, $layout:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(
            encoder: &mut CommandEncoder,
            _device: &MlxDevice,
            _registry: &mut KernelRegistry,
            q: &MlxBuffer,
            k: &MlxBuffer,
            v: &MlxBuffer,
            $($argument: $type,)*
            out: &MlxBuffer,
            params: &FlashAttnPrefillParams,
        ) -> Result<()> {
            let form = Form {
                what: stringify!($name),
                dtype: DType::$dtype,
                dim: $dim,
                mask: $mask,
                sinks: $sinks,
                layout: $layout,
                resumed: None,
            };
            form.encode(encoder, [q, k, v], out, params)
        }
    )*};
}

/// Heads of 64 and 256 elements.
pub mod flash_attn_prefill {
    use super::{Form, Layout};
    use crate::error::{Result, refuse};
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};

    crate::ops::support::register!();

    /// Extents, scale and whether queries see no later keys.
    #[derive(Clone, Copy, Debug)]
    pub struct FlashAttnPrefillParams {
        /// Heads of queries.
        pub n_heads: u32,
        /// Heads of keys and values.
        pub n_kv_heads: u32,
        /// Elements of a head.
        pub head_dim: u32,
        /// Queries.
        pub seq_len_q: u32,
        /// Keys.
        pub seq_len_k: u32,
        /// Sequences.
        pub batch: u32,
        /// The factor of scores.
        pub scale: f32,
        /// Whether a query sees no key after it; the queries are the last keys.
        pub do_causal: bool,
    }

    /// As [`FlashAttnPrefillParams`], for queries that follow others.
    #[derive(Clone, Copy, Debug)]
    pub struct FlashAttnPrefillResumeParams {
        /// Heads of queries.
        pub n_heads: u32,
        /// Heads of keys and values.
        pub n_kv_heads: u32,
        /// Elements of a head.
        pub head_dim: u32,
        /// Queries.
        pub seq_len_q: u32,
        /// Keys.
        pub seq_len_k: u32,
        /// Sequences.
        pub batch: u32,
        /// The factor of scores.
        pub scale: f32,
        /// Whether a query sees no key after it.
        pub do_causal: bool,
        /// Keys before the first query.
        pub q_offset_in_k: u32,
        /// Rows of a head in the cache.
        pub kv_capacity: u32,
    }

    /// The order of tokens and heads.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FlashAttnPrefillLayout {
        /// `[batch, heads, tokens, dim]`.
        HeadMajor,
        /// `[batch, tokens, heads, dim]`.
        SeqMajor,
    }

    fn checked<'a>(mask: Option<&'a MlxBuffer>, blk: Option<&MlxBuffer>) -> Result<Option<&'a MlxBuffer>> {
        if blk.is_some() && mask.is_none() {
            refuse!("flash_attn_prefill: blk requires mask (a blk without a mask is meaningless)");
        }
        Ok(mask)
    }

    forms! {
        /// Encodes attention of bf16 with heads of 256. A mask is bf16 and added to scores, or u8, `[seq_len_q, seq_len_k]` or for each head.
        dispatch_flash_attn_prefill_bf16_d256(mask: Option<&MlxBuffer>) = BF16, 256, mask, None, Layout::Head;
        /// As [`dispatch_flash_attn_prefill_bf16_d256`], with a map of blocks.
        dispatch_flash_attn_prefill_bf16_d256_with_blk(mask: Option<&MlxBuffer>, blk: Option<&MlxBuffer>)
            = BF16, 256, checked(mask, blk)?, None, Layout::Head;
        /// As [`dispatch_flash_attn_prefill_bf16_d256_with_blk`], of f16.
        dispatch_flash_attn_prefill_f16_d256_with_blk(mask: Option<&MlxBuffer>, blk: Option<&MlxBuffer>)
            = F16, 256, checked(mask, blk)?, None, Layout::Head;
    }

    /// Encodes attention of bf16 with heads of 64.
    pub fn dispatch_flash_attn_prefill_bf16_d64(
        encoder: &mut CommandEncoder,
        _device: &MlxDevice,
        _registry: &mut KernelRegistry,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        mask: Option<&MlxBuffer>,
        out: &MlxBuffer,
        params: &FlashAttnPrefillParams,
        layout: FlashAttnPrefillLayout,
    ) -> Result<()> {
        let what = "dispatch_flash_attn_prefill_bf16_d64";
        let form = Form {
            what,
            dtype: DType::BF16,
            dim: 64,
            mask,
            sinks: None,
            layout: layout.into(),
            resumed: None,
        };
        form.encode(encoder, [q, k, v], out, params)
    }

    fn resume(
        encoder: &mut CommandEncoder,
        what: &'static str,
        dtype: DType,
        qkv: [&MlxBuffer; 3],
        out: &MlxBuffer,
        p: &FlashAttnPrefillResumeParams,
    ) -> Result<()> {
        let resumed = Some([p.q_offset_in_k, p.kv_capacity]);
        let form = Form { what, dtype, dim: 256, mask: None, sinks: None, layout: Layout::Head, resumed };
        let params = FlashAttnPrefillParams {
            n_heads: p.n_heads,
            n_kv_heads: p.n_kv_heads,
            head_dim: p.head_dim,
            seq_len_q: p.seq_len_q,
            seq_len_k: p.seq_len_k,
            batch: p.batch,
            scale: p.scale,
            do_causal: p.do_causal,
        };
        form.encode(encoder, qkv, out, &params)
    }

    /// Encodes attention of bf16 with heads of 256, of queries that follow `q_offset_in_k` others.
    pub fn dispatch_flash_attn_prefill_bf16_d256_resume(
        encoder: &mut CommandEncoder,
        _device: &MlxDevice,
        _registry: &mut KernelRegistry,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        out: &MlxBuffer,
        params: &FlashAttnPrefillResumeParams,
    ) -> Result<()> {
        let what = "dispatch_flash_attn_prefill_bf16_d256_resume";
        resume(encoder, what, DType::BF16, [q, k, v], out, params)
    }

    /// As [`dispatch_flash_attn_prefill_bf16_d256_resume`], of f16.
    pub fn dispatch_flash_attn_prefill_f16_d256_resume(
        encoder: &mut CommandEncoder,
        _device: &MlxDevice,
        _registry: &mut KernelRegistry,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        out: &MlxBuffer,
        params: &FlashAttnPrefillResumeParams,
    ) -> Result<()> {
        let what = "dispatch_flash_attn_prefill_f16_d256_resume";
        resume(encoder, what, DType::F16, [q, k, v], out, params)
    }
}

impl From<FlashAttnPrefillLayout> for Layout {
    fn from(layout: FlashAttnPrefillLayout) -> Layout {
        match layout {
            FlashAttnPrefillLayout::HeadMajor => Layout::Head,
            FlashAttnPrefillLayout::SeqMajor => Layout::Token,
        }
    }
}

/// Heads of 512 elements.
pub mod flash_attn_prefill_d512 {
    use super::flash_attn_prefill::FlashAttnPrefillParams;
    use super::{Form, Layout};
    use crate::error::{Result, refuse};
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};

    crate::ops::support::register!();

    /// The number of simdgroups that mlx-native has.
    pub const NSG_D512: u32 = 8;

    fn checked<'a>(
        mask: Option<&'a MlxBuffer>,
        blk: Option<&MlxBuffer>,
        nsg: u32,
    ) -> Result<Option<&'a MlxBuffer>> {
        if !matches!(nsg, 4 | 8) {
            refuse!("flash_attn_prefill_d512: nsg must be 4 or 8, got {nsg}");
        }
        if blk.is_some() && mask.is_none() {
            refuse!("flash_attn_prefill_d512: blk requires mask (a blk without a mask is meaningless)");
        }
        Ok(mask)
    }

    forms! {
        /// Encodes attention of bf16 with heads of 512. A mask is bf16 and added to scores, or u8, `[seq_len_q, seq_len_k]` or for each head.
        dispatch_flash_attn_prefill_bf16_d512(mask: Option<&MlxBuffer>) = BF16, 512, mask, None, Layout::Head;
        /// As [`dispatch_flash_attn_prefill_bf16_d512`], with a map of blocks.
        dispatch_flash_attn_prefill_bf16_d512_with_blk(mask: Option<&MlxBuffer>, blk: Option<&MlxBuffer>)
            = BF16, 512, checked(mask, blk, NSG_D512)?, None, Layout::Head;
        /// As [`dispatch_flash_attn_prefill_bf16_d512`], with a sink for each head.
        dispatch_flash_attn_prefill_bf16_d512_with_sinks(mask: Option<&MlxBuffer>, sinks: &MlxBuffer)
            = BF16, 512, mask, Some(sinks), Layout::Head;
        /// As [`dispatch_flash_attn_prefill_bf16_d512_with_sinks`], with a map of blocks.
        dispatch_flash_attn_prefill_bf16_d512_with_blk_and_sinks(mask: &MlxBuffer, blk: &MlxBuffer, sinks: &MlxBuffer)
            = BF16, 512, checked(Some(mask), Some(blk), NSG_D512)?, Some(sinks), Layout::Head;
        /// As [`dispatch_flash_attn_prefill_bf16_d512_with_blk`], of f16.
        dispatch_flash_attn_prefill_f16_d512_with_blk(mask: Option<&MlxBuffer>, blk: Option<&MlxBuffer>)
            = F16, 512, checked(mask, blk, NSG_D512)?, None, Layout::Head;
        /// As [`dispatch_flash_attn_prefill_bf16_d512_with_sinks`], of f16.
        dispatch_flash_attn_prefill_f16_d512_with_sinks(mask: Option<&MlxBuffer>, sinks: &MlxBuffer)
            = F16, 512, mask, Some(sinks), Layout::Head;
        /// As [`dispatch_flash_attn_prefill_bf16_d512_with_blk_and_sinks`], of f16.
        dispatch_flash_attn_prefill_f16_d512_with_blk_and_sinks(mask: &MlxBuffer, blk: &MlxBuffer, sinks: &MlxBuffer)
            = F16, 512, checked(Some(mask), Some(blk), NSG_D512)?, Some(sinks), Layout::Head;
    }

    /// Declares forms with a number of simdgroups, which has no effect.
    macro_rules! with_nsg {
        ($($(#[$doc:meta])* $name:ident($($blk:ident)?) = $dtype:ident;)*) => {$(
            $(#[$doc])*
            pub fn $name(
                encoder: &mut CommandEncoder,
                _device: &MlxDevice,
                _registry: &mut KernelRegistry,
                q: &MlxBuffer,
                k: &MlxBuffer,
                v: &MlxBuffer,
                mask: Option<&MlxBuffer>,
                $($blk: Option<&MlxBuffer>,)?
                out: &MlxBuffer,
                params: &FlashAttnPrefillParams,
                nsg: u32,
            ) -> Result<()> {
                let blk: Option<&MlxBuffer> = None;
                $(let blk = blk.or($blk);)?
                let mask = checked(mask, blk, nsg)?;
                let (what, dtype) = (stringify!($name), DType::$dtype);
                let form = Form { what, dtype, dim: 512, mask, sinks: None, layout: Layout::Head, resumed: None };
                form.encode(encoder, [q, k, v], out, params)
            }
        )*};
    }

    with_nsg! {
        /// As [`dispatch_flash_attn_prefill_bf16_d512`]; `nsg` is 4 or 8.
        dispatch_flash_attn_prefill_bf16_d512_with_nsg() = BF16;
        /// As [`dispatch_flash_attn_prefill_bf16_d512_with_blk`]; `nsg` is 4 or 8.
        dispatch_flash_attn_prefill_bf16_d512_with_nsg_and_blk(map) = BF16;
        /// As [`dispatch_flash_attn_prefill_f16_d512_with_blk`]; `nsg` is 4 or 8.
        dispatch_flash_attn_prefill_f16_d512_with_nsg_and_blk(map) = F16;
    }
}

/// Masks of windows and of packed sequences.
pub mod flash_attn_prefill_mask {
    use crate::error::{Result, refuse};
    use crate::ops::support::{count, positive};
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};

    crate::ops::support::register!();

    /// Extents and what queries see.
    #[derive(Clone, Copy, Debug)]
    pub struct SdpaMaskParams {
        /// Queries.
        pub seq_len_q: u32,
        /// Keys.
        pub seq_len_k: u32,
        /// Keys that a query sees back, its own included.
        pub window_size: Option<u32>,
        /// Whether a query sees no key after it.
        pub causal: bool,
        /// The position of the first query.
        pub q_abs_offset: u32,
    }

    /// Returns a mask of the host: 0 where `shown(query, key)`, -infinity elsewhere.
    fn build(
        device: &MlxDevice,
        what: &str,
        dtype: DType,
        [queries, keys]: [u32; 2],
        shown: impl Fn(usize, usize) -> bool,
    ) -> Result<MlxBuffer> {
        let [rows, columns] = [queries, keys].map(|extent| extent as usize);
        positive(what, &[("seq_len_q", rows), ("seq_len_k", columns)])?;
        let elements = count(what, &[rows, columns])?;
        let hidden: u16 = if dtype == DType::F16 { 0xfc00 } else { 0xff80 };
        let mut mask = device.alloc_buffer(elements.saturating_mul(2), dtype, vec![rows, columns])?;
        for (at, element) in mask.as_mut_slice::<u16>()?.iter_mut().enumerate() {
            *element = if shown(at / columns, at % columns) { 0 } else { hidden };
        }
        mask.settle();
        Ok(mask)
    }

    /// Whether a window shows a key this far back.
    fn in_window(window: Option<u32>, query: usize, key: usize) -> bool {
        window.is_none_or(|window| query < key.saturating_add(window as usize))
    }

    fn checked(what: &str, window: Option<u32>) -> Result<()> {
        if window == Some(0) {
            refuse!("{what}: window_size=Some(0) is not allowed (pass None for no window)");
        }
        Ok(())
    }

    fn sdpa_mask(device: &MlxDevice, what: &str, dtype: DType, p: &SdpaMaskParams) -> Result<MlxBuffer> {
        checked(what, p.window_size)?;
        build(device, what, dtype, [p.seq_len_q, p.seq_len_k], |query, key| {
            let position = p.q_abs_offset as usize + query;
            (!p.causal || key <= position) && in_window(p.window_size, position, key)
        })
    }

    /// Returns a mask of bf16, `[seq_len_q, seq_len_k]`.
    pub fn build_sdpa_mask_bf16(
        device: &MlxDevice,
        _registry: &mut KernelRegistry,
        _encoder: &mut CommandEncoder,
        params: &SdpaMaskParams,
    ) -> Result<MlxBuffer> {
        sdpa_mask(device, "build_sdpa_mask_bf16", DType::BF16, params)
    }

    /// Returns a mask of f16, `[seq_len_q, seq_len_k]`.
    pub fn build_sdpa_mask_f16(
        device: &MlxDevice,
        _registry: &mut KernelRegistry,
        _encoder: &mut CommandEncoder,
        params: &SdpaMaskParams,
    ) -> Result<MlxBuffer> {
        sdpa_mask(device, "build_sdpa_mask_f16", DType::F16, params)
    }

    /// Returns a mask of bf16, `[t, t]`, of sequences that lie one after the other: `seq_id` and `local_pos` are u32 `[t]`, read while encoding.
    pub fn build_block_diagonal_sdpa_mask_bf16(
        device: &MlxDevice,
        _registry: &mut KernelRegistry,
        encoder: &mut CommandEncoder,
        seq_id: &MlxBuffer,
        local_pos: &MlxBuffer,
        t: u32,
        window_size: Option<u32>,
        causal: bool,
    ) -> Result<MlxBuffer> {
        let what = "build_block_diagonal_sdpa_mask_bf16";
        positive(what, &[("t", t as usize)])?;
        checked(what, window_size)?;
        let sequences = encoder.host_values::<u32>(seq_id, t as usize)?;
        let positions = encoder.host_values::<u32>(local_pos, t as usize)?;
        build(device, what, DType::BF16, [t, t], |query, key| {
            let at = |i: usize| (sequences.get(i), positions.get(i).copied().unwrap_or(0) as usize);
            let ((of_query, query), (of_key, key)) = (at(query), at(key));
            of_query == of_key && (!causal || key <= query) && in_window(window_size, query, key)
        })
    }
}
