//! The outline of a header: one pass that builds next to nothing, and refuses what would make building dangerous
//! or ambiguous: names that occur twice, endless shapes, fields that do not exist, data outside the file, gaps,
//! overlaps, sizes that contradict shapes.

use crate::cursor::At;
use crate::error::Fault;
use crate::json::{self, Name, Object};
use crate::limits;
use safetensors::Dtype;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use silicide_quant::MAX_RANK;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// Checks a header whose data has `size` bytes. Offsets of faults count from the header's start.
pub(super) fn check(header: &str, size: u64) -> At<()> {
    let mut outline = Outline { size, fault: None, spans: Vec::new() };
    let mut deserializer = serde_json::Deserializer::from_str(header);
    let read = outline.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    if let Err(error) = read {
        return Err(match outline.fault {
            Some((Some(tensor), fault)) => (json::locate(header, &tensor), fault),
            Some((None, fault)) => (json::fault("header", header, &error).0, fault),
            None => json::fault("header", header, &error),
        });
    }
    outline.tiles(header)
}

struct Outline<'a> {
    size: u64,
    /// A fault that a JSON error can't express, and the tensor that has it.
    fault: Option<(Option<Cow<'a, str>>, Fault)>,
    spans: Vec<TensorSpan<'a>>,
}

/// The bytes of a tensor, counted from the start of the data.
struct TensorSpan<'a> {
    name: Cow<'a, str>,
    start: u64,
    end: u64,
}

/// A tensor as the header describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    dtype: Dtype,
    shape: Extents,
    data_offsets: (u64, u64),
}

/// The extents of a shape, and how many there were.
struct Extents {
    first: [u64; MAX_RANK],
    count: usize,
}

impl<'a> Outline<'a> {
    fn tensor(&mut self, name: Cow<'a, str>, description: &Description) -> Result<(), Fault> {
        let tensor = || name.clone().into_owned();
        let (got, limit) = (name.len() as u64, limits::NAME_BYTES);
        if got > limit {
            return Err(Fault::TooMany { what: "a tensor's name", got, limit });
        }
        let (got, limit) = (self.spans.len() as u64, limits::TENSORS);
        if got >= limit {
            return Err(Fault::TooMany { what: "the number of tensors", got: got.saturating_add(1), limit });
        }
        let Description { dtype, shape, data_offsets: (start, end) } = description;
        let Some(extents) = shape.first.get(..shape.count) else {
            let (got, limit) = (shape.count as u64, MAX_RANK as u64);
            return Err(Fault::TooMany { what: "a tensor's number of axes", got, limit });
        };
        let bits = extents.iter().try_fold(dtype.bitsize() as u64, |bits, &extent| bits.checked_mul(extent));
        let expected = bits.ok_or_else(|| Fault::Overflow { tensor: tensor() })?.div_ceil(8);
        if *end > self.size || start > end {
            let (tensor, start, end, size) = (tensor(), *start, *end, self.size);
            return Err(Fault::OutsideData { tensor, start, end, size });
        }
        let got = end.saturating_sub(*start);
        if got != expected {
            return Err(Fault::RangeSize { tensor: tensor(), expected, got });
        }
        self.spans.push(TensorSpan { name, start: *start, end: *end });
        Ok(())
    }

    /// Refuses gaps and overlaps.
    fn tiles(mut self, header: &str) -> At<()> {
        self.spans.sort_by_key(|span| (span.start, span.end));
        let mut covered: Option<&TensorSpan<'_>> = None;
        for span in &self.spans {
            let end = covered.map_or(0, |before| before.end);
            if span.start > end {
                return Err((json::locate(header, &span.name), Fault::Gap { from: end, to: span.start }));
            }
            if let Some(before) = covered.filter(|_| span.start < end) {
                let (first, second) = (before.name.clone().into_owned(), span.name.clone().into_owned());
                return Err((json::locate(header, &second), Fault::Overlap { first, second }));
            }
            covered = Some(span);
        }
        let end = covered.map_or(0, |last| last.end);
        if end != self.size {
            return Err((0, Fault::Gap { from: end, to: self.size }));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &mut Outline<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Outline<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(Name(name)) = map.next_key()? {
            let read = if names.contains(&name) {
                Err((None, Fault::Duplicate { what: "tensor", name: name.into_owned() }))
            } else if name == "__metadata__" {
                map.next_value::<Strings>()?;
                names.insert(name);
                Ok(())
            } else {
                let Object(description) = map.next_value()?;
                names.insert(name.clone());
                self.tensor(name.clone(), &description).map_err(|fault| (Some(name), fault))
            };
            if let Err(fault) = read {
                let error = A::Error::custom(&fault.1);
                self.fault = Some(fault);
                return Err(error);
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Extents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Extents, D::Error> {
        struct Counting;
        impl<'de> Visitor<'de> for Counting {
            type Value = Extents;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of extents")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Extents, A::Error> {
                let mut extents = Extents { first: [1; MAX_RANK], count: 0 };
                while let Some(extent) = list.next_element()? {
                    if let Some(place) = extents.first.get_mut(extents.count) {
                        *place = extent;
                    }
                    extents.count = extents.count.saturating_add(1);
                }
                Ok(extents)
            }
        }
        deserializer.deserialize_seq(Counting)
    }
}

/// The free metadata of a file: texts by name.
struct Strings;

impl<'de> Deserialize<'de> for Strings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strings, D::Error> {
        struct Passing;
        impl<'de> Visitor<'de> for Passing {
            type Value = Strings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Strings, A::Error> {
                let (mut names, limit) = (HashSet::new(), limits::FREE_ENTRIES);
                while let Some((Name(name), Name(_))) = map.next_entry()? {
                    let got = (names.len() as u64).saturating_add(1);
                    if got > limit {
                        let what = "the number of metadata entries";
                        return Err(A::Error::custom(Fault::TooMany { what, got, limit }));
                    }
                    if let Some(name) = names.replace(name) {
                        let name = name.into_owned();
                        return Err(A::Error::custom(Fault::Duplicate { what: "key", name }));
                    }
                }
                Ok(Strings)
            }
        }
        deserializer.deserialize_map(Passing)
    }
}
