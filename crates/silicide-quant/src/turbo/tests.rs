use super::*;

/// Independent normal numbers, by the Box-Muller transform of hashed counters.
fn gaussian(count: usize, seed: u64) -> Vec<f32> {
    let mut counter = seed << 40;
    let mut uniform = || {
        counter += 1;
        ((rotation::hash(counter) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    (0..count)
        .map(|_| {
            ((-2.0 * libm::log(uniform())).sqrt() * libm::cos(2.0 * std::f64::consts::PI * uniform())) as f32
        })
        .collect()
}

fn codecs() -> impl Iterator<Item = TurboCodec> {
    let lengths = [32, 64, 128, 256, 512];
    TurboBits::ALL.into_iter().flat_map(move |bits| lengths.map(|len| TurboCodec::new(bits, len).unwrap()))
}

fn round_trip(codec: TurboCodec, x: &[f32]) -> Vec<f32> {
    let mut bytes = vec![0; x.len() / codec.head_len() * codec.head_bytes()];
    codec.encode(x, &mut bytes).unwrap();
    let mut y = vec![0.0; x.len()];
    codec.decode(&bytes, &mut y).unwrap();
    y
}

/// The squared error relative to the squares.
fn error(x: &[f32], y: &[f32]) -> f64 {
    let apart: f64 = x.iter().zip(y).map(|(x, y)| f64::from(x - y).powi(2)).sum();
    apart / x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>()
}

#[test]
fn bytes_are_what_the_bits_say() {
    for codec in codecs() {
        let bits = match codec.bits() {
            TurboBits::B2 => 2.0,
            TurboBits::B2Quarter => 2.25,
            TurboBits::B3 => 3.0,
            TurboBits::B4 => 4.0,
            TurboBits::B5 => 5.0,
            TurboBits::B6 => 6.0,
            TurboBits::B8 => 8.0,
        };
        let scales = if codec.head_len() == 512 { 2 } else { 1 };
        assert_eq!(
            codec.head_bytes() as f64,
            codec.head_len() as f64 * bits / 8.0 + 2.0 * f64::from(scales),
            "{codec:?}"
        );
    }
}

#[test]
fn errors_on_gaussian_vectors_are_within_one_percent_of_theory() {
    let x = gaussian(2048 * 1024, 7);
    for codec in codecs() {
        let ratio = error(&x, &round_trip(codec, &x)) / codec.expected_error();
        assert!((ratio - 1.0).abs() < 0.01, "{codec:?}: {ratio} of theory");
    }
}

#[test]
fn outliers_cost_no_more_than_other_coordinates() {
    for codec in codecs() {
        let mut x = gaussian(512 * 64, 9);
        x.iter_mut().step_by(32).for_each(|x| *x *= 30.0);
        let (found, expected) = (error(&x, &round_trip(codec, &x)), codec.expected_error());
        assert!(found < 1.5 * expected, "{} {}: {found} of {expected}", codec.bits(), codec.head_len());
    }
}

#[test]
fn lengths_are_kept() {
    for codec in codecs() {
        let x = gaussian(codec.head_len(), 10);
        let norm = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        let ratio = norm(&round_trip(codec, &x)) / norm(&x);
        assert!((ratio - 1.0).abs() < 1e-3, "{codec:?}: {ratio}");
    }
}

#[test]
fn products_with_rotated_queries_need_no_unrotation() {
    let codec = TurboCodec::new(TurboBits::B8, 128).unwrap();
    let (mut query, key) = (gaussian(128, 11), gaussian(128, 12));
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    let mut bytes = vec![0; codec.head_bytes()];
    codec.encode(&key, &mut bytes).unwrap();
    let (mut decoded, mut rotated) = (vec![0.0; 128], vec![0.0; 128]);
    codec.decode(&bytes, &mut decoded).unwrap();
    codec.decode_rotated(&bytes, &mut rotated).unwrap();
    let expected = product(&query, &decoded);
    codec.rotate(&mut query).unwrap();
    assert!((product(&query, &rotated) - expected).abs() < 1e-4);
}

#[test]
fn zeros_decode_to_zeros() {
    for codec in codecs() {
        assert!(round_trip(codec, &vec![0.0; codec.head_len()]).iter().all(|&x| x == 0.0));
    }
}

#[test]
fn elements_that_are_not_finite_make_the_head_nan() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for codec in codecs() {
            let mut x = gaussian(2 * codec.head_len(), 13);
            x[3] = value;
            let y = round_trip(codec, &x);
            let (first, second) = y.split_at(codec.head_len());
            assert!(first.iter().all(|y| y.is_nan()), "{codec:?}");
            assert!(second.iter().all(|y| y.is_finite()), "{codec:?}");
        }
    }
}

#[test]
fn large_and_small_vectors_stay_in_range() {
    let codec = TurboCodec::new(TurboBits::B4, 64).unwrap();
    for factor in [1e-3, 1e3] {
        let x: Vec<f32> = gaussian(64, 14).iter().map(|x| x * factor).collect();
        assert!(error(&x, &round_trip(codec, &x)) < 0.02, "{factor}");
    }
    let y = round_trip(codec, &[3e30; 64]);
    assert!(y.iter().all(|y| y.is_finite()));
}

#[test]
fn other_lengths_of_heads_are_refused() {
    for head_len in [0, 1, 16, 33, 96, 192, 576, 1024] {
        assert_eq!(TurboCodec::new(TurboBits::B4, head_len), Err(TurboError::HeadLength { head_len }));
    }
}

#[test]
fn wrong_sizes_are_refused() {
    let codec = TurboCodec::new(TurboBits::B4, 64).unwrap();
    assert_eq!(codec.rotate(&mut [0.0; 65]), Err(TurboError::PartialHead { elements: 65, head_len: 64 }));
    let wrong = TurboError::Length { bits: TurboBits::B4, elements: 64, expected: 34, got: 33 };
    assert_eq!(codec.encode(&[0.0; 64], &mut [0; 33]), Err(wrong));
    assert_eq!(codec.decode(&[0; 33], &mut [0.0; 64]), Err(wrong));
    assert!(wrong.to_string().contains("take 34 bytes, got 33"));
}

#[test]
fn names_are_those_of_from_name() {
    for bits in TurboBits::ALL {
        assert_eq!(TurboBits::from_name(bits.name()), Some(bits));
    }
    assert_eq!(TurboBits::from_name("tq7"), None);
}

#[test]
fn decoders_of_all_instruction_sets_give_the_same_bits() {
    for format in TurboFormat::ALL {
        let blocks = 9;
        // Any bytes are blocks, at any address.
        let bytes: Vec<u8> =
            (0..=blocks * format.block_bytes() as u64).map(|i| (rotation::hash(i) >> 20) as u8).collect();
        let decode = |isa: crate::Isa| {
            let mut y = vec![0.0f32; blocks as usize * format.block_len()];
            format.decode_with(isa, &bytes[1..], &mut y).unwrap();
            y.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        for isa in crate::Isa::available() {
            assert!(decode(isa) == decode(crate::Isa::PORTABLE), "{format} on {isa}");
        }
    }
}

#[test]
fn blocks_are_those_of_their_codec() {
    for codec in codecs() {
        let format = TurboFormat::for_head(codec.bits(), codec.head_len()).unwrap();
        assert_eq!(format, codec.format());
        assert_eq!(format.block_len(), codec.block_len());
        assert!(codec.head_len() == 512 || format.block_bytes() == codec.head_bytes());
        assert!(format.name().starts_with(codec.bits().name()));
    }
}

/// Returns the WGSL of a level of a codebook.
fn level_function(name: &str, levels: &[f32]) -> String {
    let half = levels.len() / 2;
    let mut text =
        format!("fn {name}_level_$NAME(code: u32) -> f32 {{\n    var levels = array<f32, {half}>(\n");
    for levels in levels[half..].chunks(8) {
        let levels: Vec<String> = levels.iter().map(|level| format!("{level:?}")).collect();
        text += &format!("        {},\n", levels.join(", "));
    }
    text += &format!(
        "    );\n    let is_negative = code < {half}u;\n    \
         let level = levels[select(code - {half}u, {}u - code, is_negative) & {}u];\n    \
         return select(level, -level, is_negative);\n}}\n",
        half - 1,
        half - 1,
    );
    text
}

#[test]
fn levels_in_wgsl_are_those_of_the_codebooks() {
    for format in TurboFormat::ALL {
        let (first, rest) = format.bits().levels();
        let mut expected =
            format!("// The positive levels of {}; the others are minus these.\n", format.bits());
        expected += &level_function("first", first.levels());
        expected += &match first == rest {
            true => {
                "fn rest_level_$NAME(code: u32) -> f32 {\n    return first_level_$NAME(code);\n}\n".to_owned()
            }
            false => level_function("rest", rest.levels()),
        };
        assert!(format.wgsl_levels().ends_with(&expected), "{format}: the file should be\n{expected}");
        let bytes = format!("{}u / 32u", (format.block_bytes() - 2) * 32 / format.block_len());
        assert!(format.wgsl_levels().contains(&bytes), "{format}: {bytes}");
        let (low, high, with_high) = format.bits().planes(format.block_len());
        let constants = [("LEN", format.block_len()), ("LOW", low), ("HIGH", high)];
        for (name, value) in constants {
            let line = format!("const {name}_$NAME: u32 = {value}u;");
            assert!(format.wgsl_levels().contains(&line), "{format}: {line}");
        }
        let line =
            format!("const WITH_HIGH_$NAME: u32 = LEN_$NAME * {}u / 4u;", with_high * 4 / format.block_len());
        assert!(format.wgsl_levels().contains(&line), "{format}: {line}");
    }
}
