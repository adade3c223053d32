//! Commands as JSON, in which buffers are named by their ids: read by a device, and checked, but not run.

use dala_compute::{Buffer, Device, Error};
use dala_spec::DType;

use crate::{Progress, Random, Target};

pub(super) struct Command {
    /// What reads commands, or why it could not be opened.
    device: Result<Device, Error>,
    /// They are found by their ids as long as somebody holds them.
    buffers: Vec<Buffer>,
}

impl Command {
    pub(super) fn new() -> Command {
        let types: [(DType, &[usize]); 4] =
            [(DType::F32, &[4]), (DType::F32, &[4]), (DType::U8, &[6, 5, 3]), (DType::S32, &[2, 3])];
        let open = || -> Result<(Device, Vec<Buffer>), Error> {
            let device = Device::open("cpu")?;
            let buffers = types.into_iter().map(|(dtype, dims)| Buffer::reserve(&device, dtype, dims));
            let buffers = buffers.collect::<Result<_, _>>()?;
            Ok((device, buffers))
        };
        match open() {
            Ok((device, buffers)) => Command { device: Ok(device), buffers },
            Err(error) => Command { device: Err(error), buffers: Vec::new() },
        }
    }

    fn id(&self, random: &mut Random) -> u64 {
        match self.buffers.len() {
            0 => 1,
            len => self.buffers[random.below(len)].id().0,
        }
    }

    fn stage(&self, random: &mut Random) -> String {
        let (from, to) = (self.id(random), self.id(random));
        let kernels =
            ["relu", "exp", "scalar_mul", "copy", "blur", "reduce_sum", "softmax", "cast", "transpose", "nothing"];
        match random.below(10) {
            0 => r#"{"op": "barrier"}"#.to_owned(),
            1 => format!(r#"{{"op": "copy_buffer", "inputs": [{from}], "output": {to}}}"#),
            2 => {
                let number = random.number();
                format!(r#"{{"op": "run_kernel", "kernel": "relu", "inputs": [{number}], "output": {to}}}"#)
            }
            _ => {
                let kernel = random.pick(&kernels);
                let value = match random.below(7) {
                    0 => "null".to_owned(),
                    1 => format!("{:?}", random.float()).to_lowercase(),
                    2 => "[1, 2.5, -3]".to_owned(),
                    3 => r#"{"a": [[]]}"#.to_owned(),
                    4 => r#""\ud83d\ude00""#.to_owned(),
                    _ => random.number().to_string(),
                };
                let name = random.pick(&["scalar", "slope", "radius", "axes", "axis", ""]);
                let params = if random.chance(50) { format!(r#""{name}": {value}"#) } else { String::new() };
                format!(
                    r#"{{"op": "run_kernel", "kernel": "{kernel}", "inputs": [{from}], "output": {from}, "params": {{{params}}}}}"#
                )
            }
        }
    }
}

impl Target for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn stages(&self) -> &'static [&'static str] {
        &["read", "checked"]
    }

    fn short(&self) -> usize {
        400_000
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let id = self.id(&mut Random::new(0));
        let texts = [
            format!(r#"{{"op": "run_kernel", "kernel": "relu", "inputs": [{id}], "output": {id}}}"#),
            format!(r#"[{{"op": "copy_buffer", "inputs": [{id}], "output": {id}}}, {{"op": "barrier"}}]"#),
            "[]".to_owned(),
            format!("{}1{}", r#"{"a":"#.repeat(120), "}".repeat(120)),
            "[".repeat(200_000),
        ];
        texts.into_iter().map(String::into_bytes).collect()
    }

    fn words(&self) -> Vec<&'static str> {
        vec![
            "\"op\": ",
            "\"run_kernel\"",
            "\"copy_buffer\"",
            "\"barrier\"",
            "\"kernel\": ",
            "\"inputs\": [",
            "\"output\": ",
            "\"params\": {",
            "null",
            "true",
            "1e400",
            "-1",
            "18446744073709551616",
            "\\ud800",
            "{",
            "}",
            "[",
            "]",
            "\"",
            ",",
        ]
    }

    fn generate(&self, random: &mut Random) -> Option<Vec<u8>> {
        let stages: Vec<String> = (0..random.pick(&[1, 1, 1, 2, 5, 40])).map(|_| self.stage(random)).collect();
        let text =
            if stages.len() == 1 && random.chance(50) { stages.concat() } else { format!("[{}]", stages.join(", ")) };
        Some(text.into_bytes())
    }

    #[expect(clippy::panic, reason = "without a device nothing is tried, which nobody must miss")]
    fn run(&mut self, input: &[u8], progress: &mut Progress) {
        let device = self.device.as_ref().unwrap_or_else(|error| panic!("there is no device: {error}"));
        let text = String::from_utf8_lossy(input);
        let stages = match device.parse_command(&text) {
            Ok(stages) => stages,
            Err(error) => {
                assert!(error.to_string().len() <= 2 * text.len() + 1000, "a long message");
                progress.note(error.code());
                return progress.note_message(&error.to_string());
            }
        };
        progress.past("read");
        let problems = device.check(&stages);
        problems.iter().for_each(|problem| progress.note(problem.code()));
        progress.note(stages.len().min(4));
        if problems.is_empty() {
            progress.past("checked");
        }
    }
}
