#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::targets::decode_fp4(bytes));
