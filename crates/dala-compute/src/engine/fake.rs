//! An engine on host memory, which fails when it is told to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dala_plan::{CAPACITY_STEP, DeviceFacts, Support, Task};
use dala_spec::expr::interpret;
use dala_spec::{DType, Data};

use super::{
    Backend, DeviceInfo, DeviceKind, Engine, EngineError, Launch, Limits, Memory, Sequence, Synchronisation, tests,
};
use crate::{Device, DeviceOptions};

/// What the engine does, as far as it can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Allocate,
    Upload,
    Launch,
    Synchronise,
    Read,
}

impl Operation {
    pub(crate) const ALL: [Operation; 5] =
        [Operation::Allocate, Operation::Upload, Operation::Launch, Operation::Synchronise, Operation::Read];
}

/// How it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It says so.
    Fails,
    /// It says so only when its outputs are synchronised. Other operations fail at once.
    FailsLate,
    Panics,
    /// The device is gone, for this and everything after.
    LosesTheDevice,
}

impl How {
    pub(crate) const ALL: [How; 4] = [How::Fails, How::FailsLate, How::Panics, How::LosesTheDevice];
}

/// The operation of that number, counted from 0, fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) operation: Operation,
    pub(crate) number: usize,
    pub(crate) how: How,
}

pub(crate) struct FakeEngine {
    facts: DeviceFacts,
    fault: Option<Fault>,
    counts: Mutex<HashMap<Operation, usize>>,
    lost: Mutex<bool>,
    launches: AtomicU64,
    /// No launch goes on while somebody holds it.
    pub(crate) gate: Mutex<()>,
    /// Pieces of memory that are alive.
    pub(crate) alive: Arc<AtomicUsize>,
}

struct FakeBlock {
    bytes: Mutex<Vec<u8>>,
    /// Why it was never written.
    taint: Mutex<Option<EngineError>>,
    alive: Arc<AtomicUsize>,
}

impl Drop for FakeBlock {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

fn piece(memory: &Memory) -> &FakeBlock {
    memory.inner.downcast_ref().unwrap()
}

impl FakeEngine {
    pub(crate) fn new(fault: Option<Fault>) -> FakeEngine {
        FakeEngine {
            facts: DeviceFacts {
                name: "fake".to_owned(),
                max_bindings: 16,
                vectors_per_unit: 8,
                ..DeviceFacts::of_a_cpu()
            },
            fault,
            counts: Mutex::default(),
            lost: Mutex::new(false),
            launches: AtomicU64::new(0),
            gate: Mutex::default(),
            alive: Arc::default(),
        }
    }

    pub(crate) fn count(&self, operation: Operation) -> usize {
        self.counts.lock().unwrap().get(&operation).copied().unwrap_or(0)
    }

    /// How the operation that is about to be done fails, if it does; panics if that is how.
    fn fails(&self, operation: Operation) -> Result<Option<How>, EngineError> {
        let number = {
            let mut counts = self.counts.lock().unwrap();
            let count = counts.entry(operation).or_default();
            *count += 1;
            *count - 1
        };
        if let Some(fault) = self.fault
            && (fault.operation, fault.number) == (operation, number)
        {
            match fault.how {
                How::Panics => panic!("as asked"),
                How::Fails => return Err(EngineError::internal("as asked")),
                How::FailsLate if operation == Operation::Launch => return Ok(Some(How::FailsLate)),
                How::FailsLate => return Err(EngineError::internal("as asked")),
                How::LosesTheDevice => *self.lost.lock().unwrap() = true,
            }
        }
        if *self.lost.lock().unwrap() {
            return Err(EngineError::DeviceLost { message: "as asked".to_owned() });
        }
        Ok(None)
    }

    fn launch_one(&self, launch: &Launch) -> Result<(), EngineError> {
        self.launches.fetch_add(1, Ordering::SeqCst);
        let late = self.fails(Operation::Launch)?;
        drop(self.gate.lock());
        let taint = launch.reads.iter().find_map(|read| piece(read).taint.lock().unwrap().clone());
        let taint = taint.or(late.map(|_| EngineError::internal("as asked")));
        for output in &launch.outputs {
            piece(output).taint.lock().unwrap().clone_from(&taint);
        }
        if taint.is_some() {
            return Ok(());
        }
        let Task::Map(map) = &launch.step.task else { return Err(EngineError::internal("the fake engine only maps")) };
        let inputs = launch.reads.iter().zip(map.program.inputs()).zip(&map.lens).map(|((read, slot), len)| {
            let bytes = piece(read).bytes.lock().unwrap();
            Data::from_bytes(slot.dtype, &bytes[..len * slot.dtype.size()])
        });
        let inputs: Vec<Data> = inputs.collect();
        for (output, data) in launch.outputs.iter().zip(interpret(&map.program, &inputs, &launch.params, &map.shape)) {
            let data = data.to_bytes();
            piece(output).bytes.lock().unwrap()[..data.len()].copy_from_slice(&data);
        }
        Ok(())
    }
}

struct FakeSynchronisation {
    fails: Option<EngineError>,
    outputs: Vec<Memory>,
}

impl Synchronisation for FakeSynchronisation {
    fn wait(self: Box<Self>) -> Vec<Result<(), EngineError>> {
        if let Some(error) = self.fails {
            return vec![Err(error); self.outputs.len()];
        }
        self.outputs.iter().map(|output| piece(output).taint.lock().unwrap().clone().map_or(Ok(()), Err)).collect()
    }
}

impl Engine for FakeEngine {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn allocate(&self, bytes: u64) -> Result<Memory, EngineError> {
        self.fails(Operation::Allocate)?;
        let capacity = bytes.max(1).next_multiple_of(CAPACITY_STEP as u64);
        self.alive.fetch_add(1, Ordering::SeqCst);
        // Rubbish, as real memory holds it.
        let bytes = Mutex::new(vec![0xA5; capacity as usize]);
        Ok(Memory {
            capacity,
            inner: Arc::new(FakeBlock { bytes, taint: Mutex::new(None), alive: self.alive.clone() }),
        })
    }

    fn upload(&self, memory: &Memory, data: &[u8]) -> Result<(), EngineError> {
        self.fails(Operation::Upload)?;
        piece(memory).bytes.lock().unwrap()[..data.len()].copy_from_slice(data);
        *piece(memory).taint.lock().unwrap() = None;
        Ok(())
    }

    fn download(&self, memory: &Memory, into: &mut [u8]) -> Result<(), EngineError> {
        self.fails(Operation::Read)?;
        if let Some(taint) = &*piece(memory).taint.lock().unwrap() {
            return Err(taint.clone());
        }
        into.copy_from_slice(&piece(memory).bytes.lock().unwrap()[..into.len()]);
        Ok(())
    }

    fn run(&self, sequences: &[Arc<Sequence>]) -> Vec<Result<(), EngineError>> {
        let all = |sequence: &Arc<Sequence>| {
            // As on a real device, what comes after a launch that failed is launched too.
            let results: Vec<_> = sequence.launches().iter().map(|launch| self.launch_one(launch)).collect();
            results.into_iter().collect()
        };
        sequences.iter().map(all).collect()
    }

    fn profile(&self, launch: &Arc<Launch>) -> Result<Duration, EngineError> {
        self.launch_one(launch).map(|()| Duration::from_micros(1))
    }

    fn foresee(&self, _launches: &[Arc<Launch>]) {}

    fn build(&self, launches: &[Arc<Launch>]) -> Vec<Result<(), EngineError>> {
        launches.iter().map(|_| Ok(())).collect()
    }

    fn synchronise(&self, outputs: Vec<Memory>) -> Box<dyn Synchronisation> {
        Box::new(FakeSynchronisation { fails: self.fails(Operation::Synchronise).err(), outputs })
    }

    fn overlaps(&self) -> bool {
        true
    }

    fn reserved_bytes(&self) -> Result<u64, EngineError> {
        Ok(0)
    }

    fn trim(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn compilations(&self) -> u64 {
        0
    }

    fn found(&self) -> u64 {
        0
    }

    fn launches(&self) -> u64 {
        self.launches.load(Ordering::SeqCst)
    }

    fn launch_faulty(&self, _output: &Memory, _fault: tests::Fault) -> Result<(), EngineError> {
        Err(EngineError::internal("not here"))
    }
}

/// A device on such an engine.
pub(crate) fn device(engine: &Arc<FakeEngine>, options: DeviceOptions) -> Device {
    let info = DeviceInfo {
        id: "fake".to_owned(),
        name: "fake".to_owned(),
        backend: Backend::Cpu,
        kind: DeviceKind::Cpu,
        gpu: false,
        driver: None,
        memory_bytes: Some(1 << 34),
        limits: Limits { max_buffer_bytes: 1 << 32, max_bindings: 16, max_cubes: (u32::MAX, 1, 1), max_units: 64 },
        dtypes: DType::ALL.map(|dtype| (dtype, Support::Native)).to_vec(),
    };
    Device::with_engine(info, engine.clone(), options)
}
