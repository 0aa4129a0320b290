//! Views share memory and cost nothing. Host guards wait for the device, and keep it away while they live.

use silicide::ops::binary::Binary;
use silicide::prelude::*;

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Error> {
    let device = Device::open(&std::env::args().nth(1).unwrap_or("best".into()))?;
    let table = Buffer::new(&device, DType::F32, [4, 3])?;
    println!("allocated before first use: {}", table.is_allocated());

    for (i, value) in table.write::<f32>()?.iter_mut().enumerate() {
        *value = i as f32;
    }

    // Rows 1 and 2, as a vector of their own; then its last element.
    let middle = table.slice(3..9)?.reshape([2, 3])?;
    let last = middle.slice(5..6)?;
    println!("middle: {:?}, its last: {}", &*middle.read::<f32>()?, last.item::<f32>()?);
    println!("{middle:?}");
    assert_eq!(middle.storage_id(), table.storage_id());
    assert_ne!(middle.id(), table.id());

    // While a guard is held, a conflicting command is refused; one that touches other bytes is not.
    let guard = middle.read::<f32>()?;
    let (first, third) = (table.slice(0..3)?, table.slice(9..12)?);
    let mut encoder = CommandEncoder::new(&device);
    encoder.run_into(Binary::Add, &[&first, &third], &[&first])?;
    encoder.submit()?.wait()?;
    println!("first + last row: {:?}", &*first.read::<f32>()?);

    let mut encoder = CommandEncoder::new(&device);
    let row = middle.slice(0..3)?;
    encoder.run_into(Binary::Add, &[&first, &row], &[&row])?;
    match encoder.submit() {
        Err(error) => println!("refused: {error}"),
        Ok(_) => println!("not refused: this should not happen"),
    }
    drop(guard);
    Ok(())
}
