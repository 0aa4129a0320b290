//! Roofline: the peak rates of a device, and the fraction of them that calls reach.

use super::ProfileRow;

/// The limits of a device, as measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// Bytes that it reads in a second.
    pub bandwidth: f64,
    /// Operations that it does in a second.
    pub speed: f64,
}

impl Roofline {
    /// The part of the limit that calls reached, of the nearer one of memory and arithmetic, and which it was.
    pub fn reached(&self, row: &ProfileRow) -> (f64, &'static str) {
        let (memory, arithmetic) = (row.bandwidth() / self.bandwidth, row.speed() / self.speed);
        if arithmetic > memory { (arithmetic, "arithmetic") } else { (memory, "memory") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_nearer_limit_counts() {
        let roofline = Roofline { bandwidth: 1e9, speed: 1e12 };
        let row =
            |bytes, flops| ProfileRow { bytes, flops, time: Duration::from_secs(1), ..ProfileRow::default() };
        assert_eq!(roofline.reached(&row(500_000_000, 1_000_000)), (0.5, "memory"));
        assert_eq!(roofline.reached(&row(1_000_000, 250_000_000_000)), (0.25, "arithmetic"));
    }
}
