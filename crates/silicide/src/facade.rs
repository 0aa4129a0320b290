//! Modules of several crates as one, and examples that need more than one crate.

pub mod record {
    //! Recording: ops become a list of commands, barriers are derived, the list is submitted.
    //!
    //! A [`CommandEncoder`] records ops and copies; [`CommandEncoder::submit`] returns a [`Submission`] to wait for. Op
    //! functions take any [`Recorder`], so model code runs on an encoder, on a
    //! [`GraphBuilder`](crate::graph::GraphBuilder).

    /// Records ops. Code over a `Recorder` runs op by op, or is captured as a graph:
    ///
    /// ```
    /// use silicide::graph::{GraphBuilder, GraphExecutor, GraphOptions};
    /// use silicide::prelude::*;
    ///
    /// fn square<R: Recorder>(recorder: &mut R, x: &R::Value) -> Result<R::Value, Error> {
    ///     ops::mul(recorder, x, x)
    /// }
    ///
    /// let device = Device::cpu()?;
    /// let x = Buffer::from_slice(&device, [3], &[1.0f32, 2.0, 3.0])?;
    ///
    /// let mut encoder = CommandEncoder::new(&device);
    /// let y = square(&mut encoder, &x)?;
    /// encoder.submit()?.wait()?;
    ///
    /// let mut builder = GraphBuilder::new(&device);
    /// let constant = builder.constant(&x);
    /// let z = square(&mut builder, &constant)?;
    /// let executor = GraphExecutor::new(builder.finish(&[&z])?, &GraphOptions::default())?;
    /// let mut session = executor.session(&[])?;
    /// session.replay()?.wait()?;
    ///
    /// let z = session.output(0).unwrap();
    /// assert_eq!(y.to_vec::<f32>()?, z.to_vec::<f32>()?);
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(inline)]
    pub use silicide_core::record::Recorder;
    #[doc(inline)]
    pub use silicide_core::record::{
        BufferRange, CommandEncoder, EncoderOptions, LabelTime, MemRanges, Submission, place,
    };
}

pub mod graph {
    //! Graphs: a pass is captured once, rewritten, scheduled, given one arena, and replayed.
    //!
    //! A [`GraphBuilder`] is a recorder that captures ops as a [`ComputeGraph`]. Each [`Pass`] rewrites it with a proof:
    //! dead code, common subexpressions, [fusions](crate::ops::fuse). A [`GraphExecutor`] selects kernels, orders
    //! commands for the fewest barriers, and assigns one arena. A [`GraphSession`] binds inputs and memory;
    //! [`GraphSession::replay`] runs the pass and allocates nothing.

    /// Captures ops as a graph.
    ///
    /// ```
    /// use silicide::graph::GraphBuilder;
    /// use silicide::kernel::TensorInfo;
    /// use silicide::prelude::*;
    ///
    /// let device = Device::cpu()?;
    /// let mut builder = GraphBuilder::new(&device);
    /// let x = builder.input("x", TensorInfo::new(DType::F32, Shape::try_from([2, 64]).unwrap()));
    /// let y = ops::rms_norm(&mut builder, &x, None, 1e-5)?;
    /// let y = ops::silu(&mut builder, &y)?;
    /// println!("{}", builder.finish(&[&y])?);
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(inline)]
    pub use silicide_core::graph::GraphBuilder;
    /// A graph that is rewritten, scheduled and given an arena, once for all of its sessions.
    ///
    /// ```
    /// # use silicide::kernel::TensorInfo;
    /// use silicide::graph::{GraphBuilder, GraphExecutor};
    /// use silicide::prelude::*;
    ///
    /// # let device = Device::cpu()?;
    /// let mut builder = GraphBuilder::new(&device);
    /// let x = builder.input("x", TensorInfo::new(DType::F32, Shape::try_from([2, 64]).unwrap()));
    /// let scores = ops::softmax(&mut builder, &x, None, 1.0)?;
    /// let executor = GraphExecutor::new(builder.finish(&[&scores])?, &ops::fuse::options())?;
    /// println!("{}", executor.report()); // rewrites, commands, barriers, arena
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(inline)]
    pub use silicide_core::graph::GraphExecutor;
    /// A graph with its inputs and memory, to be replayed.
    ///
    /// ```
    /// # use silicide::kernel::TensorInfo;
    /// use silicide::graph::{GraphBuilder, GraphExecutor, GraphOptions};
    /// use silicide::prelude::*;
    ///
    /// # let device = Device::cpu()?;
    /// # let info = TensorInfo::new(DType::F32, Shape::try_from([3]).unwrap());
    /// let mut builder = GraphBuilder::new(&device);
    /// let x = builder.input("x", info);
    /// let (offset, value) = builder.parameter("offset", info)?;
    /// let sum = ops::add(&mut builder, &x, &value)?;
    /// let executor = GraphExecutor::new(builder.finish(&[&sum])?, &GraphOptions::default())?;
    ///
    /// let x = Buffer::from_slice(&device, [3], &[1.0f32, 2.0, 3.0])?;
    /// let mut session = executor.session(&[&x])?;
    /// for step in [10.0f32, 20.0] {
    ///     session.set(offset, &[step; 3])?;
    ///     session.replay()?.wait()?;
    /// }
    /// assert_eq!(session.output(0).unwrap().to_vec::<f32>()?, [21.0, 22.0, 23.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(inline)]
    pub use silicide_core::graph::GraphSession;
    #[doc(inline)]
    pub use silicide_core::graph::{
        COMMON_SUBEXPRESSIONS, ComputeGraph, DEAD_CODE, Fusion, GraphOptions, GraphReport, GraphValue,
        KernelDispatches, Node, Operand, Origin, Parameter, Pass, PassReport, Scope, ValueId,
    };
}

pub mod kernel {
    //! Ops and kernels: what is computed, the ways to compute it, and how one of them is selected.
    //!
    //! An [`Op`] states its arguments, output shapes and reference; a [`Kernel`] plans its launches on a device. An op of
    //! your own works everywhere that those of [`ops`](crate::ops) do.

    #[doc(inline)]
    pub use silicide_core::kernel::{
        Access, Arg, Cost, Decline, DynOp, Grid, Host, Io, Kernel, KernelCall, KernelRegistry, KernelText,
        Launch, MslLaunch, NamedKernel, Op, Operand, Outputs, Plan, RegistryUsage, Slot, Step, TensorInfo,
        TextInterface, Tolerance, Work,
    };
}

pub mod weights {
    //! Weight files, and their tensors as buffers on a device.
    //!
    //! A [`Source`] is an opened file or folder: GGUF, safetensors or MLX. Opening reads names, shapes and offsets, and
    //! checks them. A [`Loader`] turns its tensors into [`Weight`]s: in place where the device can read the mapped file,
    //! copied otherwise.

    #[doc(inline)]
    pub use silicide_core::weights::{
        AsWeight, LoadEvent, LoadOptions, LoadProgress, LoadReport, Loader, Placement, Weight, Weights,
    };
    #[doc(inline)]
    pub use silicide_weights::{
        Bytes, Config, Container, Entry, Error, Fault, FileRegion, Load, MappedFile, Source, Stored, gguf,
        limits, mlx, safetensors,
    };
}
