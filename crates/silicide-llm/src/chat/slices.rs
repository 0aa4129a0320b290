//! Slices with a step, `value[start:stop:step]`, as Python has them.
//!
//! The template engine's own slices panic for `''[::-1]`, and differ from Python where `stop` is 0.

use super::budget::{Budget, list};
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Takes the elements of a slice that has a step.
pub(super) fn stepped(
    state: &mut State<'_, '_>,
    value: Value,
    start: Value,
    stop: Value,
    step: Value,
) -> Result<Value, Error> {
    let number = |value: Value| if value.is_none() { Ok(None) } else { i64::try_from(value).map(Some) };
    let (start, stop, step) = (number(start)?, number(stop)?, number(step)?.unwrap_or(1));
    if step == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "cannot slice by step size of 0"));
    }
    let budget = Budget::of(state);
    if let Some(text) = value.as_str() {
        budget.make(text.len())?;
        let characters: Vec<char> = text.chars().collect();
        let taken = positions(characters.len(), start, stop, step);
        return Ok(Value::from(taken.filter_map(|at| characters.get(at)).collect::<String>()));
    }
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => Ok(Value::from(Vec::<Value>::new())),
        ValueKind::Seq | ValueKind::Iterable => {
            let all: Vec<Value> = list(&value, 1, budget)?.try_iter()?.collect();
            let taken = positions(all.len(), start, stop, step).filter_map(|at| all.get(at).cloned());
            Ok(Value::from(taken.collect::<Vec<_>>()))
        }
        kind => {
            let detail = format!("value of type {kind} cannot be sliced");
            Err(Error::new(ErrorKind::InvalidOperation, detail))
        }
    }
}

/// Returns the positions of a slice of `length` elements; `step` is not 0.
fn positions(length: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let length = i128::try_from(length).unwrap_or(i128::from(i64::MAX));
    let (step, forward) = (i128::from(step), step > 0);
    // Backwards, -1 stands for "before the first element".
    let (low, high) = if forward { (0, length) } else { (-1, length - 1) };
    let bound = |given: Option<i64>, default: i128| match given.map(i128::from) {
        None => default,
        Some(from_end) if from_end < 0 => (from_end + length).max(low),
        Some(from_start) => from_start.min(high),
    };
    let (first, end) = if forward { (low, high) } else { (high, low) };
    let (first, end) = (bound(start, first), bound(stop, end));
    let mut next = Some(first);
    std::iter::from_fn(move || {
        let at = next.filter(|&at| if forward { at < end } else { at > end })?;
        next = at.checked_add(step);
        usize::try_from(at).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_take_what_python_takes() {
        let taken = |length, start, stop, step| positions(length, start, stop, step).collect::<Vec<_>>();
        assert_eq!(taken(3, None, None, -1), [2, 1, 0]);
        assert_eq!(taken(0, None, None, -1), [0; 0]);
        assert_eq!(taken(3, Some(1), Some(5), -1), [0; 0]);
        assert_eq!(taken(5, Some(3), Some(0), -1), [3, 2, 1]);
        assert_eq!(taken(5, Some(-2), None, -2), [3, 1]);
        assert_eq!(taken(5, None, Some(-3), -1), [4, 3]);
        assert_eq!(taken(5, Some(1), Some(-1), 2), [1, 3]);
        assert_eq!(taken(3, Some(-9), Some(9), 1), [0, 1, 2]);
        assert_eq!(taken(3, Some(9), Some(-9), -1), [2, 1, 0]);
        assert_eq!(taken(3, Some(i64::MAX), Some(i64::MIN), i64::MIN), [2]);
    }
}
