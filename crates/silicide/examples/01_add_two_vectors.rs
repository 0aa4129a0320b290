//! Add two vectors on a device: the whole path from memory to result.
//!
//!     cargo run --release -p silicide --example 01_add_two_vectors            # the best device
//!     cargo run --release -p silicide --example 01_add_two_vectors -- vulkan  # another one

use silicide::prelude::*;

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Error> {
    let name = std::env::args().nth(1).unwrap_or("best".into());
    let device = Device::open(&name)?;
    println!("device: {} ({})", device.info().id, device.info().name);

    let a = Buffer::from_slice(&device, [4], &[1.0f32, 2.0, 3.0, 4.0])?;
    let b = Buffer::from_slice(&device, [4], &[10.0f32, 20.0, 30.0, 40.0])?;

    // Recording runs nothing; submitting does.
    let mut encoder = CommandEncoder::new(&device);
    let sum = ops::add(&mut encoder, &a, &b)?;
    encoder.submit()?.wait()?;

    println!("sum: {:?}", &*sum.read::<f32>()?);
    Ok(())
}
