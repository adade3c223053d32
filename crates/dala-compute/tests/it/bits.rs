//! Random number generators of counters, written as expressions: the published vectors, on every device.
//!
//! The vectors are those of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (Random123).

use std::fmt::Write;

use dala_compute::{Buffer, DType, Definition, Device, Support};

use crate::support::devices;

/// Threefry-2x32 of 20 rounds over the counter `a`, `b` and the key `k`, `l`.
fn threefry() -> String {
    const ROTATIONS: [u32; 8] = [13, 15, 26, 6, 17, 29, 16, 24];
    let mut text = String::from("let m = 0x1BD11BDA ^ k ^ l; let a0 = a + k; let b0 = b + l; ");
    let keys = ["k", "l", "m"];
    for round in 1..=20 {
        let (last, turn) = (round - 1, ROTATIONS[(round - 1) % 8]);
        let _ = write!(text, "let s{round} = a{last} + b{last}; ");
        let _ = write!(text, "let t{round} = (b{last} << {turn} | b{last} >> {}) ^ s{round}; ", 32 - turn);
        let (mut sum, mut mix) = (format!("s{round}"), format!("t{round}"));
        if round % 4 == 0 {
            let group = round / 4;
            sum = format!("s{round} + {}", keys[group % 3]);
            mix = format!("t{round} + {} + {group}", keys[(group + 1) % 3]);
        }
        let _ = write!(text, "let a{round} = {sum}; let b{round} = {mix}; ");
    }
    text + "select(index % 2 == 0, a20, b20)"
}

/// How the upper half of a product of 32 bits is had.
#[derive(Clone, Copy, Debug)]
enum Products {
    /// From one of 64 bits.
    Whole,
    /// From four products of 16 bits.
    Halves,
}

/// The upper half of `value * factor` as a value called `name`.
fn upper(name: &str, value: &str, factor: u32, products: Products) -> String {
    let (low, high) = (factor & 0xFFFF, factor >> 16);
    match products {
        Products::Whole => format!("let {name} = u32(u64({value}) * u64({factor}) >> 32); "),
        Products::Halves => format!(
            "let {name}l = ({value} & 65535) * {high}; let {name}h = ({value} >> 16) * {low}; \
             let {name}m = (({value} & 65535) * {low} >> 16) + ({name}l & 65535) + ({name}h & 65535); \
             let {name} = ({value} >> 16) * {high} + ({name}l >> 16) + ({name}h >> 16) + ({name}m >> 16); "
        ),
    }
}

/// Rounds `from` to `to` of Philox-4x32 over the counter `a`, `b`, `c`, `d` and the key `k`, `l`; element `own` of four.
fn philox(from: u32, to: u32, own: char, products: Products) -> String {
    let mut text = String::from("let a0 = a; let b0 = b; let c0 = c; let d0 = d; ");
    for (last, round) in (from..to).enumerate() {
        let next = last + 1;
        text += &upper(&format!("p{next}"), &format!("a{last}"), 0xD251_1F53, products);
        text += &upper(&format!("q{next}"), &format!("c{last}"), 0xCD9E_8D57, products);
        let key = |name: &str, step: u32| format!("({name} + {})", step.wrapping_mul(round));
        let _ = write!(text, "let a{next} = q{next} ^ b{last} ^ {}; ", key("k", 0x9E37_79B9));
        let _ = write!(text, "let b{next} = c{last} * {}; ", 0xCD9E_8D57u32);
        let _ = write!(text, "let c{next} = p{next} ^ d{last} ^ {}; ", key("l", 0xBB67_AE85));
        let _ = write!(text, "let d{next} = a{last} * {}; ", 0xD251_1F53u32);
    }
    format!("{text}{own}{}", to - from)
}

/// What an expression over these words gives, for each set of them.
fn run(device: &Device, name: &str, text: &str, inputs: &[&str], words: &[Vec<u32>]) -> Vec<u32> {
    device.define(name, text, Definition::inputs(inputs.iter().copied())).unwrap();
    let column = |at: usize| words.iter().map(|set| set[at]).collect::<Vec<u32>>();
    let buffers: Vec<Buffer> =
        (0..inputs.len()).map(|at| Buffer::from_slice(device, &column(at), [words.len()]).unwrap()).collect();
    let output = Buffer::zeros(device, DType::U32, [words.len()]).unwrap();
    device.run(name, &buffers.iter().collect::<Vec<_>>(), &output, ()).unwrap();
    output.read().unwrap()
}

#[test]
fn threefry_gives_the_published_vectors() {
    let cases: [([u32; 4], [u32; 2]); 3] = [
        ([0; 4], [0x6B20_0159, 0x99BA_4EFE]),
        ([u32::MAX; 4], [0x1CB9_96FC, 0xBB00_2BE7]),
        ([0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344], [0xC492_3A9C, 0x483D_F7A0]),
    ];
    // Both words of a result: elements tell by their place which one they are.
    let words: Vec<Vec<u32>> = cases.iter().flat_map(|(set, _)| [set.to_vec(), set.to_vec()]).collect();
    let expected: Vec<u32> = cases.iter().flat_map(|(_, result)| *result).collect();
    for device in devices() {
        let found = run(&device, "threefry", &threefry(), &["a", "b", "k", "l"], &words);
        assert_eq!(found, expected, "{}", device.info().backend);
    }
}

#[test]
fn philox_gives_the_published_vectors() {
    let cases: [([u32; 6], [u32; 4]); 3] = [
        ([0; 6], [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]),
        ([u32::MAX; 6], [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]),
        (
            [0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344, 0xA409_3822, 0x299F_31D0],
            [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1],
        ),
    ];
    let mut ways = Vec::new();
    for device in devices() {
        let wide = !device.info().dtypes.contains(&(DType::U64, Support::Refused));
        for products in
            [Products::Whole, Products::Halves].into_iter().filter(|way| wide || matches!(way, Products::Halves))
        {
            let words: Vec<Vec<u32>> = cases.iter().map(|(set, _)| set.to_vec()).collect();
            for (at, own) in ['a', 'b', 'c', 'd'].into_iter().enumerate() {
                let name = format!("philox_{products:?}_{own}").to_lowercase();
                let text = philox(0, 10, own, products);
                let found = run(&device, &name, &text, &["a", "b", "c", "d", "k", "l"], &words);
                let expected: Vec<u32> = cases.iter().map(|(_, result)| result[at]).collect();
                assert_eq!(found, expected, "{} {name}", device.info().backend);
            }
            ways.push(format!("{} by {products:?}", device.info().backend));
        }
    }
    println!("Philox: {}", ways.join(", "));
}
