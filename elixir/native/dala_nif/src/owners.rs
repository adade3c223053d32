//! Which process submitted what: the commands of one that dies are cancelled if they have not started.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, mpsc};

use dala_compute::Command;
use rustler::{Env, LocalPid, ResourceArc};

use crate::lock::lock;

/// A process and those of its commands that may not have ended yet.
pub(crate) struct Owner(Mutex<Commands>);

#[derive(Default)]
struct Commands {
    list: Vec<Command>,
    /// Where to look next for commands that have ended.
    look_at: usize,
    /// Whether the process is.
    is_gone: bool,
}

static OWNERS: LazyLock<Mutex<HashMap<LocalPid, ResourceArc<Owner>>>> = LazyLock::new(Mutex::default);

/// Remembers a command until it ends or the calling process does.
pub(crate) fn own(env: Env, command: Command) {
    let pid = env.pid();
    let owner = lock(&OWNERS).get(&pid).cloned();
    let owner = owner.unwrap_or_else(|| {
        let owner = ResourceArc::new(Owner(Mutex::default()));
        // Listed before it is watched: a process may be killed at any moment while it is in a call.
        lock(&OWNERS).insert(pid, owner.clone());
        if env.monitor(&owner, &pid).is_none() {
            owner.down(pid);
        }
        owner
    });
    let mut commands = lock(&owner.0);
    if commands.is_gone {
        cancel(vec![command]);
        return;
    }
    commands.list.push(command);
    commands.let_go();
}

impl Commands {
    /// Lets go of commands that have ended, two at a time: faster than they come, and never many at once.
    fn let_go(&mut self) {
        for _ in 0..2 {
            match self.list.get(self.look_at) {
                Some(command) if command.poll().is_final() => drop(self.list.swap_remove(self.look_at)),
                Some(_) => self.look_at += 1,
                None => self.look_at = 0,
            }
        }
    }
}

impl Owner {
    /// The process is gone.
    pub(crate) fn down(&self, pid: LocalPid) {
        let owner = lock(&OWNERS).remove(&pid);
        let mut commands = lock(&self.0);
        commands.is_gone = true;
        cancel(std::mem::take(&mut commands.list));
        drop(commands);
        drop(owner);
    }
}

fn cancel(commands: Vec<Command>) {
    later(move || {
        // The newest first: one that needs the result of another is cancelled too, not failed by it.
        let mut commands = commands;
        commands.sort_unstable_by_key(|command| std::cmp::Reverse(command.id()));
        for command in &commands {
            command.cancel();
        }
    });
}

/// Does something that a scheduler of the VM has no time for, in order.
pub(crate) fn later(work: impl FnOnce() + Send + 'static) {
    type Chore = Box<dyn FnOnce() + Send>;
    static QUEUE: LazyLock<Option<mpsc::Sender<Chore>>> = LazyLock::new(|| {
        let (sender, receiver) = mpsc::channel::<Chore>();
        let serve = move || {
            for work in receiver {
                // A panic must not keep what comes after it from being done.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            }
        };
        std::thread::Builder::new().name("dala-later".to_owned()).spawn(serve).ok().map(|_| sender)
    });
    match &*QUEUE {
        Some(queue) => drop(queue.send(Box::new(work))),
        // The system has no threads left. Work that may wait, or that answers, must not be done here.
        None => drop(work),
    }
}
