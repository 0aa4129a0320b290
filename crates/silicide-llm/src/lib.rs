//! Language models on silicide: from a file of weights to streamed text.
#![forbid(unsafe_code)]
