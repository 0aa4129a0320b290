//! Two independent chains of ops in one list: barriers stand only where bytes conflict, so the chains overlap.

use silicide::prelude::*;

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Error> {
    let device = Device::open(&std::env::args().nth(1).unwrap_or("best".into()))?;
    let input: Vec<f32> = (0..4096).map(|i| (i as f32 / 500.0).sin()).collect();
    let x = Buffer::from_slice(&device, [64, 64], &input)?;
    let y = Buffer::from_slice(&device, [64, 64], &input)?;

    let before = device.counters();
    let mut encoder = CommandEncoder::new(&device);
    // Written one step of each chain at a time: step n of one may run beside step n of the other.
    let (mut left, mut right) = (x.clone(), y.clone());
    for _ in 0..4 {
        left = ops::silu(&mut encoder, &left)?;
        right = ops::softmax(&mut encoder, &right, None, 1.0)?;
    }
    let both = encoder.scope("join", |encoder| ops::add(encoder, &left, &right))?;
    let submission = encoder.submit()?;
    submission.wait()?;

    let counted = device.counters().since(&before);
    println!("{} launches, {} barriers", counted.dispatches, counted.barriers);
    println!("{} launches could run beside the one before", counted.concurrent);
    for kernel in &counted.kernels {
        println!("  {:>3} x {}", kernel.count, kernel.kernel);
    }
    for span in submission.times() {
        println!("{} took {:.1} us on the device", span.label, span.duration_ns as f64 / 1e3);
    }
    println!("first values: {:?}", both.read::<f32>()?.get(..4));
    Ok(())
}
