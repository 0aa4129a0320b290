//! Programs: binaries from disk, the driver's cache, many threads, and what does not compile.

use crate::kernels::{add, count};
use crate::rig::{Rig, options, range};
use silicide_hal::{CommandList, HalError, NativeKernel, Part, Program, RawPipeline, Snippet, WgslKernel};

fn runs(rig: &Rig, pipeline: RawPipeline) {
    let block = rig.alloc_with(&[1u32]);
    let mut list = CommandList::default();
    list.dispatch(pipeline, [1, 1, 1], &[range(block, 0, 4)], &[0, 41]);
    rig.run(&list);
    assert_eq!(rig.read::<u32>(block), [42]);
}

#[test]
fn binaries_are_used_when_they_are_whole() {
    let rig = Rig::new();
    let program = Program::Wgsl(count());
    let binary = rig.device.translate(&program).unwrap().unwrap();
    assert_eq!(rig.device.translate(&program).unwrap().unwrap(), binary);
    assert_eq!(binary[..4], [0x03, 0x02, 0x23, 0x07]);
    // Used as given: the binary is that of `count`, whatever the text says.
    let wrong_text = Program::Wgsl(WgslKernel::new("broken", &[Part::plain(&BROKEN)], 1, 1));
    // SAFETY: the binary is sound for the dispatch below.
    runs(&rig, unsafe { rig.device.compile("count", &wrong_text, Some(&binary)) }.unwrap());
    let mut damaged = binary.clone();
    damaged[20] = 0;
    damaged[22] = 0;
    for malformed in [&binary[..binary.len() - 4], &binary[..binary.len() - 1], &[], &[0; 64], &damaged] {
        // SAFETY: the kernel is sound for the dispatch below.
        let pipeline = unsafe { rig.device.compile("count", &program, Some(malformed)) }.unwrap();
        runs(&rig, pipeline);
        // SAFETY: live, its ticket was reached.
        unsafe { rig.device.discard(pipeline) };
    }
}

static BROKEN: Snippet =
    Snippet { name: "broken", text: "@compute @workgroup_size(1)\nfn main() { let a = missing; }" };

#[test]
fn what_does_not_compile_says_where() {
    let rig = Rig::new();
    let broken = Program::Wgsl(WgslKernel::new("broken", &[Part::plain(&BROKEN)], 0, 0));
    // SAFETY: nothing is compiled.
    let error = unsafe { rig.device.compile("broken", &broken, None) }.unwrap_err();
    assert!(matches!(&error, HalError::Compile { detail, .. } if detail.contains("missing")), "{error}");
    static NATIVE: NativeKernel = NativeKernel::new("native", &[]);
    // SAFETY: as above.
    let error = unsafe { rig.device.compile("native", &Program::Native(&NATIVE), None) }.unwrap_err();
    assert!(matches!(&error, HalError::Compile { label, .. } if label == "native"), "{error}");
    let words = rig.device.info().limits.max_param_bytes as u32 / 4 + 1;
    let greedy = Program::Wgsl(WgslKernel::new("greedy", &[Part::plain(&BROKEN)], 0, words));
    // SAFETY: as above.
    let error = unsafe { rig.device.compile("greedy", &greedy, None) }.unwrap_err();
    assert!(
        matches!(&error, HalError::Compile { detail, .. } if detail.contains("parameter words")),
        "{error}"
    );
}

#[test]
fn many_threads_compile_at_once() {
    let rig = Rig::new();
    let pipelines: Vec<RawPipeline> = std::thread::scope(|scope| {
        let rig = &rig;
        let threads: Vec<_> = (0..6)
            .map(|i| scope.spawn(move || rig.compile(if i % 2 == 0 { count() } else { add() })))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (i, pipeline) in pipelines.iter().enumerate() {
        assert!(pipelines[..i].iter().all(|other| other != pipeline));
    }
    pipelines.iter().step_by(2).for_each(|pipeline| runs(&rig, *pipeline));
}

#[test]
fn the_drivers_cache_is_given_back() {
    let first = Rig::new();
    runs(&first, first.compile(count()));
    let cache = first.device.driver_cache();
    assert!(cache.len() >= 32);
    let mut damaged = cache.clone();
    damaged[16] ^= 1;
    for driver_cache in [cache.clone(), damaged, cache[..31].to_vec(), vec![0; 40]] {
        let mut options = options();
        options.driver_cache = driver_cache;
        let rig = Rig::with(&options);
        runs(&rig, rig.compile(count()));
        assert_eq!(rig.device.driver_cache()[..32], cache[..32]);
    }
}
