//! Rows of figures: a table for people, JSON lines for programs.

/// Whether a figure should be at most or at least its target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
    None,
}

/// Collects rows and prints them as they come.
pub(crate) struct Report {
    json: bool,
    rows: usize,
    missed: usize,
    /// What the rows are called whose value or spread is NaN or infinite.
    no_numbers: Vec<String>,
    details: serde_json::Map<String, serde_json::Value>,
}

impl Report {
    pub(crate) fn new(json: bool) -> Report {
        Report { json, rows: 0, missed: 0, no_numbers: Vec::new(), details: serde_json::Map::new() }
    }

    /// Prints a heading, in tables only.
    pub(crate) fn heading(&self, text: &str) {
        if !self.json {
            println!("\n{text}");
        }
    }

    /// Sets details of the next row, for programs: the fields of an object, added to the row's.
    pub(crate) fn about(&mut self, details: serde_json::Value) -> &mut Report {
        if let serde_json::Value::Object(details) = details {
            self.details = details;
        }
        self
    }

    /// Adds a figure; `spread` is the distance between the quartiles, in the same unit.
    pub(crate) fn row(&mut self, what: &str, value: f64, spread: f64, unit: &str, target: Target) {
        let (wanted, met) = match target {
            Target::AtMost(limit) => (format!("<= {limit}"), value <= limit),
            Target::AtLeast(limit) => (format!(">= {limit}"), value >= limit),
            Target::None => (String::new(), true),
        };
        self.rows += 1;
        self.missed += usize::from(!met);
        if !value.is_finite() || !spread.is_finite() {
            self.no_numbers.push(what.to_owned());
        }
        let details = std::mem::take(&mut self.details);
        if self.json {
            let mut row = serde_json::json!({
                "what": what, "value": value, "spread": spread, "unit": unit, "target": wanted, "met": met,
            });
            if let Some(row) = row.as_object_mut() {
                row.extend(details);
            }
            println!("{row}");
        } else {
            let mark = if wanted.is_empty() || met { "" } else { "   MISSED" };
            println!("  {what:<58} {value:>10.3} ±{spread:<8.3} {unit:<8} {wanted}{mark}");
        }
    }

    /// Prints the summary and returns how many targets were missed. A figure that is no number is an error.
    pub(crate) fn finish(&self) -> anyhow::Result<usize> {
        if !self.json {
            println!("\n{} figures, {} targets missed", self.rows, self.missed);
        }
        anyhow::ensure!(self.no_numbers.is_empty(), "not a number: {}", self.no_numbers.join("; "));
        Ok(self.missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_no_number_is_an_error_that_names_it() {
        let mut report = Report::new(true);
        report.row("right", 1.0, 0.0, "s", Target::AtMost(0.5));
        assert_eq!(report.finish().unwrap(), 1);
        report.row("divided by zero", 1.0 / 0.0, 0.0, "s", Target::None);
        report.row("without samples", 1.0, f64::NAN, "s", Target::None);
        let error = report.finish().unwrap_err().to_string();
        assert_eq!(error, "not a number: divided by zero; without samples");
    }
}
